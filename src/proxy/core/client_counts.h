/* The number of connections of each client, over all workers.
 *
 * Balanced trees in shards, each with its own lock, which is taken twice per connection. They have
 * one node per client with a connection. */

#ifndef SLUICE_PROXY_CORE_CLIENT_COUNTS_H
#define SLUICE_PROXY_CORE_CLIENT_COUNTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"

enum { CLIENT_COUNTS_SHARDS = 64 };

struct client_counts_shard {
    pthread_mutex_t lock;
    void *root; /* of struct client_count, see tsearch(3); NULL: empty */
};

struct client_counts {
    struct hash_key key;
    struct client_counts_shard shards[CLIENT_COUNTS_SHARDS];
};

void client_counts_init(struct client_counts *counts);

/* No other thread may use @counts any more. */
void client_counts_close(struct client_counts *counts);

/* Count one more connection of @client, which may have @n_max (>= 1). IPv6 clients are counted by
 * their /48. STATUS_FULL: it already has @n_max or more; STATUS_NO_MEMORY. After a failure the
 * connection is not counted. */
MUST_USE enum status client_counts_add(struct client_counts *counts, const struct address *client,
                                       uint32_t n_max);

/* A counted connection has ended. */
void client_counts_remove(struct client_counts *counts, const struct address *client);

/* Whether both addresses count as one client. */
MUST_USE bool client_counts_are_same(const struct address *one, const struct address *other);

#endif /* SLUICE_PROXY_CORE_CLIENT_COUNTS_H */
