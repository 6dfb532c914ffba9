/* Settlements: script calls whose result no request waits for.
 *
 * Each request has one message. It is sent at once while few are in flight, else when replies have
 * come: so the settlements of a client that ends many requests at once do not delay the decisions
 * behind them in the link until they fail. A message that waits takes along others that settle the
 * same charges of identical requests. */

#ifndef SLUICE_STORE_REDIS_REDIS_SETTLEMENT_QUEUE_H
#define SLUICE_STORE_REDIS_REDIS_SETTLEMENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"
#include "store/store.h"

struct redis_store;

enum {
    REDIS_SETTLEMENTS_FREE = 16, /* in flight, beside as many as decisions are */
    REDIS_SETTLEMENT_BUCKETS = 1024,
    REDIS_SETTLEMENT_SHARES = 1024,
};

/* The messages of one client, or of those with the same hash; not initialised while there are
 * none. Each list has the oldest first. */
struct redis_settlement_share {
    struct list raises; /* that charge more than was: a charge that is late lets requests pass */
    struct list others;
    struct list turn; /* in the turns of its list */
    unsigned n;
};

struct redis_settlement_list {
    struct list turns; /* shares with messages; each sends one in turn */
    size_t n;          /* messages */
    /* By the hash of their client, which may have as many messages as there are free places. The
     * last one has those of clients that are not known, without such a bound. */
    struct redis_settlement_share shares[REDIS_SETTLEMENT_SHARES + 1];
};

/* The messages of one link that wait. While there are any, requests are in flight, whose replies
 * send them. */
struct redis_settlement_queue {
    struct redis_settlement_list slots;       /* three for each correction: see take_next() */
    struct redis_settlement_list corrections; /* of costs alone */
    unsigned n_sent;                          /* of those that waited */
    struct hash_key key; /* secret, so that clients cannot choose messages that collide */
    struct list buckets[REDIS_SETTLEMENT_BUCKETS]; /* those that take others along, by their hash */
};

/* @queue is all zero. */
void redis_settlement_queue_init(struct redis_settlement_queue *queue);

/* Whether all messages of a request may wait that has @settlement: in a cluster each of its
 * settlements may be one, in the queue of one node. */
MUST_USE bool redis_settlement_has_room(struct redis_store *store,
                                        const struct settlement *settlement);

/* A settlement message: the encoded settlements of one request, or of several. */
struct redis_settlement;

/* Encode @n settlements in a new message, which keeps no pointer to them; free() it if it need not
 * be sent. NULL: no memory, or a key is too long. */
MUST_USE struct redis_settlement *
redis_settlement_write(struct redis_store *store, const struct settlement *settlements, size_t n);

/* Send @message, which is the store's from now on, let it wait, or count it as lost. NULL counts as
 * lost. */
void redis_settlement_send(struct redis_store *store, struct redis_settlement *message);

/* A request of @store has ended: send what waits, as far as there is room. While the link is down
 * all of it is lost. */
void redis_settlements_send_waiting(struct redis_store *store);

#endif /* SLUICE_STORE_REDIS_REDIS_SETTLEMENT_QUEUE_H */
