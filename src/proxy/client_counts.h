/* How many connections each client has, over all workers.
 *
 * A hash table in shards, each with a lock of its own, which is taken twice a connection. It has an
 * entry for each client that has a connection, and grows and shrinks with them. */

#ifndef SLUICE_PROXY_CLIENT_COUNTS_H
#define SLUICE_PROXY_CLIENT_COUNTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"

enum { CLIENT_COUNTS_SHARDS = 64 };

struct client_count {
    struct address client;
    uint32_t n_connections; /* 0: the place is free */
};

struct client_counts_shard {
    pthread_mutex_t lock;
    struct client_count *places;
    size_t n_places; /* a power of two, or 0 */
    size_t n_clients;
};

struct client_counts {
    struct hash_key key;
    struct client_counts_shard shards[CLIENT_COUNTS_SHARDS];
};

void client_counts_init(struct client_counts *counts);

/* No other thread may use it any more. */
void client_counts_close(struct client_counts *counts);

/* One more of @client, which may have @n_max (>= 1): IPv6 by its /64. STATUS_FULL: it has so many
 * already, or more; STATUS_NO_MEMORY. With either it is not counted. */
MUST_USE enum status client_counts_add(struct client_counts *counts, const struct address *client,
                                       uint32_t n_max);

/* One that was added has gone. */
void client_counts_remove(struct client_counts *counts, const struct address *client);

/* How many @client has. */
uint32_t client_counts_get(struct client_counts *counts, const struct address *client);

#endif /* SLUICE_PROXY_CLIENT_COUNTS_H */
