/* The number of connections of each client, over all workers, and of requests where they are
 * counted too.
 *
 * Balanced trees in shards, each with its own lock, which is taken twice per connection. They have
 * one node per client with a connection. Requests are counted in the node, without the lock. */

#ifndef SLUICE_PROXY_CORE_CLIENT_COUNTS_H
#define SLUICE_PROXY_CORE_CLIENT_COUNTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"

enum { CLIENT_COUNTS_SHARDS = 64 };

/* A client. */
struct client_count {
    struct address client; /* first: the key in the tree */
    uint32_t n_connections;
    atomic_uint n_requests; /* under way, or handshakes; see client_count_take() */
};

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

/* How many connections @client has. */
uint32_t client_counts_of(struct client_counts *counts, const struct address *client);

/* A counted connection has ended. */
void client_counts_remove(struct client_counts *counts, const struct address *client);

/* Count one more connection of @client, however many it has. NULL: no memory. The count stays until
 * client_counts_leave(). */
MUST_USE struct client_count *client_counts_join(struct client_counts *counts,
                                                 const struct address *client);

/* A connection that was joined has ended. */
void client_counts_leave(struct client_counts *counts, struct client_count *count);

/* Count one more request of the client, which may have @n_max (>= 1). False: it has as many, and
 * nothing is counted. For any thread. */
MUST_USE static inline bool client_count_take(struct client_count *count, uint32_t n_max)
{
    const bool is_taken =
        atomic_fetch_add_explicit(&count->n_requests, 1, memory_order_relaxed) < n_max;
    if (!is_taken) {
        atomic_fetch_sub_explicit(&count->n_requests, 1, memory_order_relaxed);
    }
    return is_taken;
}

/* A request that was taken has ended. */
static inline void client_count_give(struct client_count *count)
{
    atomic_fetch_sub_explicit(&count->n_requests, 1, memory_order_relaxed);
}

static inline uint32_t client_count_requests(const struct client_count *count)
{
    return atomic_load_explicit(&count->n_requests, memory_order_relaxed);
}

#endif /* SLUICE_PROXY_CORE_CLIENT_COUNTS_H */
