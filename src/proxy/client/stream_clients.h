/* The clients that have HTTP/2 connections at a worker, with their requests: which of these gives
 * way when all workers together have too many (client_env.h).
 *
 * A worker changes and reads its own alone, without a lock. Clients stand in ranks by how many
 * requests they have at the worker, and move only when that number passes a power of two. The
 * search for a client and a request looks at STREAM_SCAN_MAX of each at most. It is left out while
 * it cannot find any: so a request that is refused costs no search. */

#ifndef SLUICE_PROXY_CLIENT_STREAM_CLIENTS_H
#define SLUICE_PROXY_CLIENT_STREAM_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/list.h"
#include "proxy/core/client_counts.h"

enum {
    STREAM_RANKS = 32,
    STREAM_SCAN_MAX = 64,
    STREAM_SEARCH_PAUSE_US = 1000, /* then requests at other workers are seen, too */
};

struct stream_client {
    struct address client;      /* first: the key in the tree */
    struct client_count *count; /* of its requests at all workers */
    uint32_t n_connections;     /* of this worker */
    uint32_t n_requests;        /* of this worker */
    struct list slots;          /* struct stream_slot, oldest first */
    struct list node;           /* in ranks; in no list without a request */
};

struct stream_slot;

struct stream_slot_ops {
    /* Whether its client has become one that does not count: the request gives its slot up, and
     * goes on. */
    bool (*is_exempt)(struct stream_slot *slot);
    /* Monotonic: when something moved last. */
    uint64_t (*moved_us)(struct stream_slot *slot);
    /* It gives way to a request of another client, and has no slot any more: reset it. */
    void (*evict)(struct stream_slot *slot);
};

/* Member of a request. */
struct stream_slot {
    const struct stream_slot_ops *ops;
    struct list node;             /* in slots of @client */
    struct stream_client *client; /* NULL: it has no slot */
};

struct stream_clients {
    void *clients;                   /* a tree of struct stream_client, see tsearch(3) */
    struct list ranks[STREAM_RANKS]; /* clients with 2^rank requests, and less than twice */
    uint32_t n_most; /* none had more when they were searched last, nor has by this worker since */
    uint64_t searched_us; /* monotonic: when that was */
};

void stream_clients_init(struct stream_clients *clients);

/* A connection of the client at @address begins. NULL: no memory. */
MUST_USE struct stream_client *stream_clients_join(struct stream_clients *clients,
                                                   struct client_counts *counts,
                                                   const struct address *address);

/* The connection has ended, and has no requests. */
void stream_clients_leave(struct stream_clients *clients, struct client_counts *counts,
                          struct stream_client *client);

/* A request of @client, counted in @client->count, has or no longer has a slot. */
void stream_clients_add(struct stream_clients *clients, struct stream_client *client,
                        struct stream_slot *slot);
void stream_clients_remove(struct stream_clients *clients, struct stream_slot *slot);

/* The request that gives way to one of @own, which has @n_own then: the one that has waited longest
 * without progress, or one that is exempt, of the client with the most, if that has more than
 * @n_own. NULL: none. */
MUST_USE struct stream_slot *stream_clients_choose(struct stream_clients *clients,
                                                   const struct stream_client *own, uint32_t n_own);

#endif /* SLUICE_PROXY_CLIENT_STREAM_CLIENTS_H */
