#include "proxy/client_counts.h"

#include <assert.h>
#include <stdlib.h>

enum {
    IPV6_BITS = 64,   /* what a client is given at least, and can choose addresses from at will */
    PLACES_MIN = 16,  /* of a shard that has any */
    SHARD_SHIFT = 58, /* the upper bits of the hash choose the shard, the lower ones the place */
};

static struct address client_of(const struct address *address)
{
    return address->family == ADDRESS_IPV6 ? address_mask(*address, IPV6_BITS) : *address;
}

static uint64_t hash_of(const struct client_counts *counts, const struct address *client)
{
    return hash_table(&counts->key, span_of((const char *)client, sizeof(*client))).low;
}

/* The place of @client, or the free one where it would be. There must be
 * places, and one of them free. */
static size_t find(const struct client_counts_shard *shard, const struct address *client,
                   uint64_t hash)
{
    const size_t mask = shard->n_places - 1;
    size_t at = (size_t)hash & mask;
    while (shard->places[at].n_connections > 0 &&
           !address_equals(&shard->places[at].client, client)) {
        at = (at + 1) & mask;
    }
    return at;
}

static enum status resize(struct client_counts *counts, struct client_counts_shard *shard,
                          size_t n_places)
{
    struct client_counts_shard resized = {.n_places = n_places};
    resized.places = calloc(n_places, sizeof(resized.places[0]));
    if (resized.places == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < shard->n_places; i++) {
        const struct client_count *count = &shard->places[i];
        if (count->n_connections > 0) {
            const size_t at = find(&resized, &count->client, hash_of(counts, &count->client));
            resized.places[at] = *count;
        }
    }
    free(shard->places);
    shard->places = resized.places;
    shard->n_places = n_places;
    return STATUS_OK;
}

/* A free place, and a quarter of them. */
static enum status make_room(struct client_counts *counts, struct client_counts_shard *shard)
{
    if (shard->n_places == 0) {
        return resize(counts, shard, PLACES_MIN);
    }
    if (4 * (shard->n_clients + 1) > 3 * shard->n_places) {
        return resize(counts, shard, 2 * shard->n_places);
    }
    return STATUS_OK;
}

/* Free the place @at: those behind it that it kept from theirs move up. */
static void remove_at(struct client_counts *counts, struct client_counts_shard *shard, size_t at)
{
    const size_t mask = shard->n_places - 1;
    size_t hole = at;
    for (size_t i = (at + 1) & mask; shard->places[i].n_connections > 0; i = (i + 1) & mask) {
        const size_t home = (size_t)hash_of(counts, &shard->places[i].client) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            shard->places[hole] = shard->places[i];
            hole = i;
        }
    }
    shard->places[hole].n_connections = 0;
    shard->n_clients--;
    if (shard->n_places > PLACES_MIN && 8 * shard->n_clients < shard->n_places) {
        (void)!resize(counts, shard, shard->n_places / 2); /* else it stays large */
    }
}

static struct client_counts_shard *lock_shard(struct client_counts *counts, uint64_t hash)
{
    struct client_counts_shard *shard = &counts->shards[hash >> SHARD_SHIFT];
    pthread_mutex_lock(&shard->lock);
    return shard;
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
        free(counts->shards[i].places);
    }
}

static enum status add(struct client_counts *counts, struct client_counts_shard *shard,
                       const struct address *client, uint64_t hash, uint32_t n_max)
{
    const enum status status = make_room(counts, shard);
    if (status != STATUS_OK) {
        return status;
    }
    struct client_count *count = &shard->places[find(shard, client, hash)];
    if (count->n_connections >= n_max) {
        return STATUS_FULL;
    }
    shard->n_clients += count->n_connections == 0;
    count->client = *client;
    count->n_connections++;
    return STATUS_OK;
}

enum status client_counts_add(struct client_counts *counts, const struct address *address,
                              uint32_t n_max)
{
    const struct address client = client_of(address);
    const uint64_t hash = hash_of(counts, &client);
    struct client_counts_shard *shard = lock_shard(counts, hash);
    const enum status status = add(counts, shard, &client, hash, n_max);
    pthread_mutex_unlock(&shard->lock);
    return status;
}

void client_counts_remove(struct client_counts *counts, const struct address *address)
{
    const struct address client = client_of(address);
    const uint64_t hash = hash_of(counts, &client);
    struct client_counts_shard *shard = lock_shard(counts, hash);
    assert(shard->n_places > 0);
    const size_t at = find(shard, &client, hash);
    assert(shard->places[at].n_connections > 0);
    if (shard->places[at].n_connections == 1) {
        remove_at(counts, shard, at);
    } else {
        shard->places[at].n_connections--;
    }
    pthread_mutex_unlock(&shard->lock);
}

uint32_t client_counts_get(struct client_counts *counts, const struct address *address)
{
    const struct address client = client_of(address);
    const uint64_t hash = hash_of(counts, &client);
    struct client_counts_shard *shard = lock_shard(counts, hash);
    const uint32_t n_connections =
        shard->n_places == 0 ? 0 : shard->places[find(shard, &client, hash)].n_connections;
    pthread_mutex_unlock(&shard->lock);
    return n_connections;
}
