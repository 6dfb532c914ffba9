/* Settlements: script calls whose result no request waits for.
 *
 * Each request has one message. It is sent at once while few are in flight, else when replies have
 * come: so the settlements of a client that ends many requests at once do not delay the decisions
 * behind them in the link until they fail. A message that waits takes along others that settle the
 * same charges of identical requests.
 *
 * What gives slots back goes before what renews other slots, and before a decision on its key, so
 * that a client that has read its answer finds its slot free. It ends the renewals of its own
 * slots, those that wait and those that would be sent again: they would take the slot anew. */

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
    REDIS_SETTLEMENTS_FREE = 16,    /* in flight, beside as many as decisions are */
    REDIS_SETTLEMENTS_RESERVED = 4, /* of these: not for renewals while nothing else waits */
    REDIS_SETTLEMENT_BUCKET_BITS = 10,
    REDIS_SETTLEMENT_BUCKETS = 1 << REDIS_SETTLEMENT_BUCKET_BITS,
    REDIS_SETTLEMENT_SHARES = 1024,
};

/* What a message does. */
enum redis_settlement_kind {
    REDIS_GIVES_BACK, /* a slot, at least */
    REDIS_RENEWS,     /* slots alone */
    REDIS_CORRECTS,   /* costs alone */
    REDIS_SETTLEMENT_KINDS,
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
    struct redis_settlement_list lists[REDIS_SETTLEMENT_KINDS];
    unsigned n_sent;     /* of those that waited */
    struct hash_key key; /* secret, so that clients cannot choose messages that collide */
    struct list buckets[REDIS_SETTLEMENT_BUCKETS]; /* those that take others along, by their hash */
    struct list
        given_back[REDIS_SETTLEMENT_BUCKETS]; /* struct redis_slot, by the hash of its key */
};

/* The slots whose renewal waits or is in flight: of a store, or of all nodes of a cluster. */
struct redis_renewals {
    size_t n;
    struct list buckets[REDIS_SETTLEMENT_BUCKETS]; /* struct redis_slot, by its number */
};

void redis_renewals_init(struct redis_renewals *renewals);

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

/* Of @settlements those that give a slot back are about to be sent: it is renewed no more. */
void redis_renewals_end(struct redis_store *store, const struct settlement *settlements, size_t n);

/* @decision is about to be sent: send what waits and gives back a slot that it may take, one for
 * each of its charges. */
void redis_settlements_send_before(struct redis_store *store, const struct decision *decision);

/* A request of @store has ended: send what waits, as far as there is room. While the link is down
 * all of it is lost. */
void redis_settlements_send_waiting(struct redis_store *store);

#endif /* SLUICE_STORE_REDIS_REDIS_SETTLEMENT_QUEUE_H */
