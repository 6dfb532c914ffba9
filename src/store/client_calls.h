/* The calls to Redis that each client has in flight, for the stores of one worker.
 *
 * The call counter counts the calls of decisions. A Redis store whose decision is cancelled counts
 * the call on: Redis has it until it replies. So a client that leaves at once has no more calls in
 * flight than one that waits. */

#ifndef SLUICE_STORE_CLIENT_CALLS_H
#define SLUICE_STORE_CLIENT_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/memory.h"
#include "net/loop.h"
#include "store/layers.h"

enum { CLIENT_BUCKETS = 1024 /* a power of two */ };

/* A client with a call in flight, or a decision that waits. */
struct client {
    struct list node; /* in its bucket */
    struct address address;
    unsigned n_calls; /* in flight, but for those that are free */
    unsigned n_waiters;
    bool is_sending;     /* its waiters are being sent, so it stays */
    struct list waiters; /* of the client queue, the oldest first */
    struct list due;     /* node in client_calls.due */
};

struct client_calls {
    struct loop *loop;   /* borrowed */
    unsigned n_users;    /* the owner, and the stores that count here */
    struct hash_key key; /* secret, so that clients cannot choose addresses that collide */
    struct pool clients;
    size_t n_free;         /* calls in flight that are counted to no client */
    size_t n_full;         /* clients with CLIENT_CALLS_MAX calls or more */
    struct list due;       /* of struct client: have waiters, and a call has ended */
    struct loop_task task; /* sends the waiters of due */
    void (*send)(struct client_calls *calls, struct client *client); /* of the client queue */
    struct list buckets[CLIENT_BUCKETS];
};

/* One more user of @calls, which leaves with client_calls_leave(). */
void client_calls_join(struct client_calls *calls);

/* NULL: no call of the client at @address is counted, and none of its decisions waits. */
struct client *client_calls_find(struct client_calls *calls, const struct address *address);

/* Count one more call of the client at @address. NULL: no memory, nothing is counted. */
struct client *client_calls_begin(struct client_calls *calls, const struct address *address);

/* A call of @client has ended. @client may be gone afterwards. */
void client_calls_end(struct client_calls *calls, struct client *client);

/* Send the waiters of @client at the end of the loop iteration. */
void client_calls_make_due(struct client_calls *calls, struct client *client);

/* Free @client if nothing of it is left. */
void client_calls_let_go(struct client_calls *calls, struct client *client);

#endif /* SLUICE_STORE_CLIENT_CALLS_H */
