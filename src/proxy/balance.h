/* Which of several servers a request goes to: arithmetic over what is known of each, no more.
 *
 * Whoever calls lists the servers that may be chosen; the others keep their place until they are
 * listed again. All of it is linear in the number of servers. */

#ifndef SLUICE_PROXY_BALANCE_H
#define SLUICE_PROXY_BALANCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum {
    BALANCE_WEIGHT_UNIT = 1000, /* a weight of 1, so that one that grows has steps */
};

/* A server that may be chosen. */
struct balance_candidate {
    uint32_t index;      /* which it is, for the caller */
    uint32_t weight;     /* in BALANCE_WEIGHT_UNITs, from 1 to BALANCE_WEIGHT_MAX times the unit */
    uint32_t n_requests; /* under way; for balance_by_load() */
    uint64_t seed;       /* balance_seed(); for balance_by_hash() */
    int64_t *credit;     /* the server's, from balance_first_credit(); for balance_by_turn() */
};

/* What server number @index of @n_servers starts with. Turns begin with server @first, so that
 * several who begin at once need not begin with the same. */
int64_t balance_first_credit(size_t index, size_t n_servers, size_t first);

/* In turns, each as often as its weight says and as evenly as that allows (the smooth weighted
 * round robin of nginx). Which of @candidates, @n >= 1. */
size_t balance_by_turn(const struct balance_candidate *candidates, size_t n);

/* The one with the fewest requests for its weight, counting the one to come; among equals, the
 * first from number @start % @n on. */
size_t balance_by_load(const struct balance_candidate *candidates, size_t n, size_t start);

/* What stands for a server called @name; the same wherever @key is. */
uint64_t balance_seed(const struct hash_key *key, struct span name);

/* Rendezvous hashing (Thaler and Ravishankar, 1998; with weights as of Schindelhauer and Schomaker,
 * 2005): each server draws a number for @key, and the best one has it. A server that comes takes
 * its share from all others, one that goes leaves its own to all others, and no other key moves;
 * when a weight grows, keys move to that server alone. */
size_t balance_by_hash(const struct balance_candidate *candidates, size_t n, struct hash128 key);

#endif /* SLUICE_PROXY_BALANCE_H */
