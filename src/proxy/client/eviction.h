/* Chooses which client connection is closed to make room for a new one when all workers together
 * have too many.
 *
 * Candidates are the connections of clients that are neither trusted proxies nor on a unix socket.
 * They are grouped by client: an IPv4 address, or an IPv6 /48, the most that one customer may
 * have. Connections that have not named their client yet, by a PROXY header, are a group that has
 * silent connections alone. A connection publishes the time from which it may be evicted. The
 * published time may be stale and the connection in use, so its worker checks again before it
 * closes the connection. The victim comes from the first kind that has any:
 *
 *   1. A silent connection, which has not sent a byte of a request for EVICTION_GRACE_US: the
 *      oldest one of the client with the most silent connections.
 *   2. A connection of the client with the most connections: the one that has waited for its
 *      client longest, at least EVICTION_GRACE_US. If there is none and the client has two
 *      connections or more: its oldest silent one. If there is none and it has 16 or more: the one
 *      that has waited longest, or one that pipelines requests. Clients with fewer connections
 *      than the new connection's client give none of these.
 *
 * A victim in use stays a candidate unless it is due: its client has 16 connections or more, and
 * more than twice as many as the new connection's client. A due victim closes after the answer
 * under way. Its slot is given away before that, for at most EVICTIONS_DEFERRED_MAX victims at a
 * time. So a client gains no slot from a client with about as many connections, however fast it
 * opens new ones. Nor does it take the last pending slots, which are reserved for due victims.
 *
 * One lock is taken when a connection opens, sends its first byte, and closes, and for each
 * victim, but not for requests. The search for a victim looks at EVICTION_SCAN_MAX connections at
 * most. */

#ifndef SLUICE_PROXY_CLIENT_EVICTION_H
#define SLUICE_PROXY_CLIENT_EVICTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/list.h"

/* What kind of connection was evicted. */
enum eviction_kind {
    EVICTED_SILENT, /* had not sent a byte of a request */
    EVICTED_IDLE,   /* had its answers, or closes after the one under way: no request follows */
    EVICTED_HEAD,   /* had not finished the head of a request */
    EVICTED_BODY,   /* had not sent the body that is buffered before a server is chosen */
    EVICTION_KINDS,
    EVICTED_NONE = EVICTION_KINDS, /* it is in use */
};

/* Value of evictable_from_us while a request is under way. */
#define EVICTION_NEVER UINT64_MAX
/* The same, while the end of its answer is written, or while it pipelines: the next request comes
 * before the answer. */
#define EVICTION_AFTER_ANSWER (EVICTION_NEVER - 1)

enum {
    EVICTION_GRACE_US = 100 * 1000, /* before a new or idle connection may be evicted */
    /* The same for one that waits for its client in a request: for a head from its first byte, for
     * a body that no server waits for from its head, for a PROXY header from accept. */
    EVICTION_REQUEST_GRACE_US = 1000 * 1000,
    EVICTION_SCAN_MAX = 1024,
    EVICTIONS_PENDING_MAX = 96,  /* victims that are not closed yet */
    EVICTIONS_NOT_DUE_MAX = 64,  /* no victim that is not due is chosen while so many are pending */
    EVICTIONS_DEFERRED_MAX = 32, /* of those, victims in use that close after their answer */
};

struct eviction_client;

/* Member of a connection. */
struct eviction_candidate {
    struct list node;               /* in a list of its client, or in a worker's list of victims */
    struct eviction_client *client; /* NULL: not a candidate, or a victim */
    struct list *victims;           /* of the worker that has the connection */
    _Atomic uint64_t evictable_from_us; /* monotonic; a hint for other threads */
    bool has_spoken;
    bool is_victim;   /* pending: in the list of its worker, or deferred */
    bool is_due;      /* chosen: it closes after its answer if it is in use */
    bool is_deferred; /* a victim that closes after its answer */
    bool gave_slot;   /* chosen: it no longer counts in n_slots */
};

/* How clients are ranked. */
enum eviction_rank {
    RANK_BY_SILENT, /* by silent connections; clients with none are left out */
    RANK_BY_ALL,
    EVICTION_RANKS,
};

/* A binary heap: the client with the most connections of the rank comes first. */
struct eviction_heap {
    struct eviction_client **clients; /* room for n_room of struct eviction */
    size_t n;
};

struct eviction {
    atomic_uint n_slots; /* connections that have a slot: all but those chosen as victims */
    pthread_mutex_t lock;
    void *clients; /* a tree of struct eviction_client, see tsearch(3) */
    size_t n_clients;
    size_t n_room; /* in each heap */
    struct eviction_heap heaps[EVICTION_RANKS];
    struct list skipped;       /* clients taken out of RANK_BY_ALL: nothing to evict for now */
    uint64_t skipped_until_us; /* monotonic */
    atomic_uint n_pending;     /* victims that are not closed yet */
    unsigned n_deferred;       /* victims among them that are deferred */
};

void eviction_init(struct eviction *eviction);

/* No candidates are left, and no other thread uses it. */
void eviction_close(struct eviction *eviction);

/* The connection is no candidate before eviction_add(). @victims: the list of its worker. */
void eviction_candidate_init(struct eviction_candidate *candidate, struct list *victims);

/* Make a connection of the client at @address a candidate: silent, unless @candidate->has_spoken.
 * ADDRESS_NONE: its client is not known yet, and it counts by none; it is silent.
 * Without memory it becomes none, and is never evicted. If it gave its slot it has one again. */
void eviction_add(struct eviction *eviction, struct eviction_candidate *candidate,
                  const struct address *address, uint64_t evictable_from_us);

/* The first byte of a request has come. Also allowed for a connection that is no candidate. */
void eviction_note_spoken(struct eviction *eviction, struct eviction_candidate *candidate);

/* The connection closes. A no-op if it is neither a candidate nor a victim. */
void eviction_remove(struct eviction *eviction, struct eviction_candidate *candidate);

/* Choose a victim to make room for a connection of the client at @newcomer; it is no longer a
 * candidate, and gives its slot. @newcomer NULL: the client is not known, and no victim is due.
 * Returns the list of victims of its worker. If that is @own_victims, the victim is *own_victim. If
 * not, the victim was put into the list, and the caller wakes that worker. NULL: none may be
 * evicted, or too many victims are pending. */
MUST_USE struct list *eviction_choose(struct eviction *eviction, const struct address *newcomer,
                                      const struct list *own_victims, uint64_t now_us,
                                      struct eviction_candidate **own_victim);

/* @candidate was chosen and is in use. True: it is due, and pending until eviction_remove().
 * False: it is not due, or too many are deferred. */
MUST_USE bool eviction_defer(struct eviction *eviction, struct eviction_candidate *candidate);

/* Take the next of @victims, the list of the calling worker. NULL: there is none. */
MUST_USE struct eviction_candidate *eviction_next_victim(struct eviction *eviction,
                                                         struct list *victims);

/* A chosen connection stays: it has a slot again. A no-op if it did not give its slot. */
void eviction_take_slot_again(struct eviction *eviction, struct eviction_candidate *candidate);

/* How many victims are not closed yet: victims of other workers, and deferred ones. */
static inline unsigned eviction_n_pending(const struct eviction *eviction)
{
    return atomic_load_explicit(&eviction->n_pending, memory_order_relaxed);
}

/* Called by the connection's worker: the connection may be evicted from @from_us on. */
static inline void eviction_publish(struct eviction_candidate *candidate, uint64_t from_us)
{
    atomic_store_explicit(&candidate->evictable_from_us, from_us, memory_order_relaxed);
}

#endif /* SLUICE_PROXY_CLIENT_EVICTION_H */
