#include "proxy/client/stream_clients.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void stream_clients_init(struct stream_clients *clients)
{
    clients->clients = NULL;
    clients->n_most = 0;
    clients->searched_us = 0;
    for (unsigned i = 0; i < STREAM_RANKS; i++) {
        list_init(&clients->ranks[i]);
    }
}

/* --- coming and going --- */

static int compare(const void *one, const void *other)
{
    return memcmp(one, other, sizeof(struct address));
}

/* NULL: no memory. */
static struct stream_client *add_client(struct stream_clients *clients,
                                        struct client_counts *counts, const struct address *address)
{
    struct stream_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return NULL;
    }
    client->client = *address;
    list_init(&client->slots);
    list_init(&client->node);
    client->count = client_counts_join(counts, address);
    if (client->count != NULL && tsearch(client, &clients->clients, compare) != NULL) {
        return client;
    }
    if (client->count != NULL) {
        client_counts_leave(counts, client->count);
    }
    free(client);
    return NULL;
}

struct stream_client *stream_clients_join(struct stream_clients *clients,
                                          struct client_counts *counts,
                                          const struct address *address)
{
    const struct address key = address_of_client(address);
    struct stream_client **node = tfind(&key, &clients->clients, compare);
    struct stream_client *client = node != NULL ? *node : add_client(clients, counts, &key);
    if (client != NULL) {
        client->n_connections++;
    }
    return client;
}

void stream_clients_leave(struct stream_clients *clients, struct client_counts *counts,
                          struct stream_client *client)
{
    if (--client->n_connections == 0) {
        tdelete(client, &clients->clients, compare);
        client_counts_leave(counts, client->count);
        free(client);
    }
}

/* @client has one request more or less; @n: the larger of both numbers. */
static void note_rank(struct stream_clients *clients, struct stream_client *client, uint32_t n)
{
    if ((n & (n - 1)) != 0) {
        return; /* the rank is as before */
    }
    list_remove(&client->node);
    if (client->n_requests > 0) {
        const int rank = STREAM_RANKS - 1 - __builtin_clz(client->n_requests);
        list_push_back(&clients->ranks[rank], &client->node);
    }
}

void stream_clients_add(struct stream_clients *clients, struct stream_client *client,
                        struct stream_slot *slot)
{
    slot->client = client;
    list_push_back(&client->slots, &slot->node);
    client->n_requests++;
    note_rank(clients, client, client->n_requests);
    const uint32_t n = client_count_requests(client->count);
    clients->n_most = n > clients->n_most ? n : clients->n_most;
}

void stream_clients_remove(struct stream_clients *clients, struct stream_slot *slot)
{
    struct stream_client *client = slot->client;
    slot->client = NULL;
    list_remove(&slot->node);
    client->n_requests--;
    note_rank(clients, client, client->n_requests + 1);
}

/* --- choosing --- */

/* The client with the most requests, if it has more than @n_own. Those with most of them at this
 * worker are looked at first. */
static const struct stream_client *find_most(struct stream_clients *clients,
                                             const struct stream_client *own, uint32_t n_own)
{
    assert(n_own > 0);
    const struct stream_client *most = NULL;
    uint32_t n_most = n_own - 1; /* without the one that is to come */
    unsigned n_looks = STREAM_SCAN_MAX;
    for (unsigned rank = STREAM_RANKS; rank-- > 0 && n_looks > 0;) {
        const struct list *ranked = &clients->ranks[rank];
        for (struct list *node = ranked->next; node != ranked && n_looks > 0; n_looks--) {
            const struct stream_client *client = CONTAINER_OF(node, struct stream_client, node);
            const uint32_t n = client_count_requests(client->count);
            if (n > n_most && client != own) {
                n_most = n;
                most = client;
            }
            node = node->next;
        }
    }
    clients->n_most = n_most;
    clients->searched_us = clock_monotonic_us();
    return n_most > n_own ? most : NULL;
}

struct stream_slot *stream_clients_choose(struct stream_clients *clients,
                                          const struct stream_client *own, uint32_t n_own)
{
    if (clients->n_most <= n_own &&
        clock_monotonic_us() < clients->searched_us + STREAM_SEARCH_PAUSE_US) {
        return NULL;
    }
    const struct stream_client *client = find_most(clients, own, n_own);
    struct stream_slot *longest = NULL;
    uint64_t longest_us = UINT64_MAX;
    if (client == NULL) {
        return NULL;
    }
    struct list *node = client->slots.next;
    for (unsigned i = 0; i < STREAM_SCAN_MAX && node != &client->slots; i++) {
        struct stream_slot *slot = CONTAINER_OF(node, struct stream_slot, node);
        if (slot->ops->is_exempt(slot)) {
            return slot;
        }
        const uint64_t moved_us = slot->ops->moved_us(slot);
        if (longest == NULL || moved_us < longest_us) {
            longest_us = moved_us;
            longest = slot;
        }
        node = node->next;
    }
    return longest;
}
