#include "proxy/core/client_counts.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { SHARD_SHIFT = 58 }; /* the upper bits of the hash choose the shard */

static int compare(const void *one, const void *other)
{
    return memcmp(one, other, sizeof(struct address));
}

void client_counts_init(struct client_counts *counts)
{
    *counts = (struct client_counts){.key = hash_key_new()};
    for (size_t i = 0; i < CLIENT_COUNTS_SHARDS; i++) {
        pthread_mutex_init(&counts->shards[i].lock, NULL);
    }
}

void client_counts_close(struct client_counts *counts)
{
    for (size_t i = 0; i < CLIENT_COUNTS_SHARDS; i++) {
        pthread_mutex_destroy(&counts->shards[i].lock);
        tdestroy(counts->shards[i].root, free);
    }
}

/* Set *client to the client at @address, and lock its shard. */
static struct client_counts_shard *lock_shard(struct client_counts *counts,
                                              const struct address *address, struct address *client)
{
    *client = address_of_client(address);
    const uint64_t hash =
        hash_table(&counts->key, span_of((const char *)client, sizeof(*client))).low;
    struct client_counts_shard *shard = &counts->shards[hash >> SHARD_SHIFT];
    pthread_mutex_lock(&shard->lock);
    return shard;
}

/* NULL: it has no connection. */
static struct client_count *find(const struct client_counts_shard *shard,
                                 const struct address *client)
{
    struct client_count **node = tfind(client, &shard->root, compare);
    return node != NULL ? *node : NULL;
}

/* Add @client, which has no connection yet, with one. NULL: no memory. */
static struct client_count *add_client(struct client_counts_shard *shard,
                                       const struct address *client)
{
    struct client_count *count = malloc(sizeof(*count));
    if (count == NULL) {
        return NULL;
    }
    *count = (struct client_count){.client = *client, .n_connections = 1};
    atomic_init(&count->n_requests, 0);
    if (tsearch(count, &shard->root, compare) == NULL) {
        free(count);
        return NULL;
    }
    return count;
}

static enum status add(struct client_counts_shard *shard, const struct address *client,
                       uint32_t n_max)
{
    struct client_count *count = find(shard, client);
    if (count != NULL) {
        const bool is_full = count->n_connections >= n_max;
        count->n_connections += !is_full;
        return is_full ? STATUS_FULL : STATUS_OK;
    }
    return add_client(shard, client) != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

static void remove_one(struct client_counts_shard *shard, struct client_count *count)
{
    if (--count->n_connections == 0) {
        tdelete(&count->client, &shard->root, compare);
        free(count);
    }
}

enum status client_counts_add(struct client_counts *counts, const struct address *address,
                              uint32_t n_max)
{
    struct address client;
    struct client_counts_shard *shard = lock_shard(counts, address, &client);
    const enum status status = add(shard, &client, n_max);
    pthread_mutex_unlock(&shard->lock);
    return status;
}

uint32_t client_counts_of(struct client_counts *counts, const struct address *address)
{
    struct address client;
    struct client_counts_shard *shard = lock_shard(counts, address, &client);
    const struct client_count *count = find(shard, &client);
    const uint32_t n = count != NULL ? count->n_connections : 0;
    pthread_mutex_unlock(&shard->lock);
    return n;
}

void client_counts_remove(struct client_counts *counts, const struct address *address)
{
    struct address client;
    struct client_counts_shard *shard = lock_shard(counts, address, &client);
    struct client_count *count = find(shard, &client);
    assert(count != NULL);
    remove_one(shard, count);
    pthread_mutex_unlock(&shard->lock);
}

struct client_count *client_counts_join(struct client_counts *counts, const struct address *address)
{
    struct address client;
    struct client_counts_shard *shard = lock_shard(counts, address, &client);
    struct client_count *count = find(shard, &client);
    if (count != NULL) {
        count->n_connections++;
    } else {
        count = add_client(shard, &client);
    }
    pthread_mutex_unlock(&shard->lock);
    return count;
}

void client_counts_leave(struct client_counts *counts, struct client_count *count)
{
    struct address client;
    struct client_counts_shard *shard = lock_shard(counts, &count->client, &client);
    remove_one(shard, count);
    pthread_mutex_unlock(&shard->lock);
}
