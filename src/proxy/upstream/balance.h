/* Load balancing: choose one of several servers by pure arithmetic on the facts about each.
 *
 * The caller lists the servers that may be chosen. The state of the others is unchanged. All
 * functions take linear time in the number of servers. */

#ifndef SLUICE_PROXY_UPSTREAM_BALANCE_H
#define SLUICE_PROXY_UPSTREAM_BALANCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum {
    BALANCE_WEIGHT_UNIT = 1000, /* a weight of 1; slow start uses fractions of it */
};

/* A server that may be chosen. */
struct balance_candidate {
    uint32_t index;      /* identifies the server to the caller */
    uint32_t weight;     /* in BALANCE_WEIGHT_UNITs, from 1 to BALANCE_WEIGHT_MAX times the unit */
    uint32_t n_requests; /* under way; for balance_by_load() */
    uint64_t seed;       /* balance_seed(); for balance_by_hash() */
    int64_t *credit;     /* the server's, from balance_first_credit(); for balance_by_turn() */
};

/* The initial credit of server number @index of @n_servers. The first turn goes to server @first,
 * so that several workers can start with different servers. */
int64_t balance_first_credit(size_t index, size_t n_servers, size_t first);

/* Smooth weighted round robin, as in nginx: each server as often as its weight says, spread evenly.
 * Returns an index into @candidates; @n >= 1. */
size_t balance_by_turn(const struct balance_candidate *candidates, size_t n);

/* The server with the fewest requests relative to its weight, including the new request. Among
 * equals, the first one from number @start % @n on. */
size_t balance_by_load(const struct balance_candidate *candidates, size_t n, size_t start);

/* The seed of the server called @name; equal in all processes with the same @key. */
uint64_t balance_seed(const struct hash_key *key, struct span name);

/* Rendezvous hashing (Thaler and Ravishankar, 1998; weights after Schindelhauer and Schomaker,
 * 2005): each server draws a number for @key, and the best number wins. A new server takes its
 * share of keys from all others. The keys of a removed server spread over all others. No other key
 * moves. When a weight grows, keys move only to that server. */
size_t balance_by_hash(const struct balance_candidate *candidates, size_t n, struct hash128 key);

#endif /* SLUICE_PROXY_UPSTREAM_BALANCE_H */
