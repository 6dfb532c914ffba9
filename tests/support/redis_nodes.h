/* A cluster of redis-servers of the test's own: masters alone, on ports of the loopback address. */

#ifndef SLUICE_TESTS_SUPPORT_REDIS_NODES_H
#define SLUICE_TESTS_SUPPORT_REDIS_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "support/redis_server.h"

enum { REDIS_NODES_MAX = 4 };

struct redis_nodes {
    struct redis_server servers[REDIS_NODES_MAX];
    size_t n; /* of them */
};

/* Start @n nodes, of which the last owns the last slot alone, and the others as many each;
 * returns when all of them see all slots served. (One that owns none would become a replica.)
 * Fails the test when it cannot. */
void redis_nodes_start(struct redis_nodes *nodes, size_t n);
void redis_nodes_stop(struct redis_nodes *nodes);

/* Drop all keys. */
void redis_nodes_flush(const struct redis_nodes *nodes);

/* The number of the node that owns @slot, as it says itself. */
size_t redis_nodes_owner(const struct redis_nodes *nodes, unsigned slot);

/* Let @slot be on its way from @from to @to: @from is migrating it, @to importing. */
void redis_nodes_begin_move(const struct redis_nodes *nodes, unsigned slot, size_t from, size_t to);
/* Carry @key over, if it is there. */
void redis_nodes_move_key(const struct redis_nodes *nodes, const char *key, size_t from, size_t to);
/* Carry over all keys that are left, and give @slot to @to. */
void redis_nodes_end_move(const struct redis_nodes *nodes, unsigned slot, size_t from, size_t to);

#endif /* SLUICE_TESTS_SUPPORT_REDIS_NODES_H */
