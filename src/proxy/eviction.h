/* Which connection from a client gives way to a new one when there are too many, in all workers.
 *
 * Candidates are the connections of clients that are neither trusted proxies nor on a unix socket.
 * They are kept by client: an IPv4 address, or an IPv6 /48, which is what one customer may have at
 * most. A connection publishes when it may be evicted; its worker checks that again before it
 * closes it, so what was published may be late. The victim is, of the first kind that has any:
 *
 *   1. a silent one, which has not sent a byte of a request for EVICTION_GRACE_US: of the client
 *      with the most silent connections its oldest;
 *   2. of the client with the most connections the one that has waited for its client longest, at
 *      least EVICTION_GRACE_US; or else its oldest silent one, if it has two connections or more;
 *      or else, if it has 16 or more, the one that has waited longest.
 *
 * One lock, taken when a connection comes, sends its first byte, and goes, and for each victim: not
 * for requests. The search for a victim looks at EVICTION_LOOKS_MAX connections at most. */

#ifndef SLUICE_PROXY_EVICTION_H
#define SLUICE_PROXY_EVICTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"

/* What kind of connection was evicted. */
enum eviction_kind {
    EVICTED_SILENT, /* had not sent a byte of a request */
    EVICTED_IDLE,   /* had its answers, and waited for the next request */
    EVICTED_HEAD,   /* had not finished the head of a request */
    EVICTION_KINDS,
    EVICTED_NONE = EVICTION_KINDS, /* it is in use */
};

/* Value of evictable_from_us while a request is under way. */
#define EVICTION_NEVER UINT64_MAX

enum {
    EVICTION_GRACE_US = 100 * 1000, /* a new or idle connection has before it may be evicted */
    EVICTION_HEAD_GRACE_US = 1000 * 1000, /* a head has from its first byte */
    EVICTION_LOOKS_MAX = 1024,
    EVICTIONS_PENDING_MAX = 64, /* victims that other workers have not closed yet */
};

struct eviction_client;

/* Member of a connection. */
struct eviction_candidate {
    struct list node;               /* in a list of its client, or in a worker's list of victims */
    struct eviction_client *client; /* NULL: not a candidate, or a victim */
    struct list *victims;           /* of the worker that has the connection */
    _Atomic uint64_t evictable_from_us; /* monotonic; a hint for other threads */
    bool has_spoken;
    bool is_victim; /* of another worker, in its list */
};

/* How clients are ranked. */
enum eviction_rank {
    RANK_BY_SILENT, /* by silent connections; has only clients with some */
    RANK_BY_ALL,
    EVICTION_RANKS,
};

/* A binary heap; the client with the most is the first. */
struct eviction_heap {
    struct eviction_client **clients; /* room for n_room of struct eviction */
    size_t n;
};

struct eviction {
    pthread_mutex_t lock;
    struct hash_key key;
    struct eviction_client **slots; /* of a hash table, chained */
    size_t n_slots;                 /* a power of two, or 0 */
    size_t n_clients;
    size_t n_room;
    struct eviction_heap heaps[EVICTION_RANKS];
    struct list skipped;       /* clients out of RANK_BY_ALL: nothing to evict just now */
    uint64_t skipped_until_us; /* monotonic */
    atomic_uint n_pending;     /* victims in lists of workers */
};

void eviction_init(struct eviction *eviction);

/* No candidates are left, and no other thread uses it. */
void eviction_close(struct eviction *eviction);

/* Of a connection that is not a candidate, yet or at all. @victims: the list of its worker. */
void eviction_candidate_init(struct eviction_candidate *candidate, struct list *victims);

/* A connection of the client at @address is a candidate: silent, or @candidate->has_spoken. Without
 * memory it is none, and is never evicted. */
void eviction_add(struct eviction *eviction, struct eviction_candidate *candidate,
                  const struct address *address, uint64_t evictable_from_us);

/* The first byte of a request has come. No candidate: a no-op. */
void eviction_note_spoken(struct eviction *eviction, struct eviction_candidate *candidate);

/* The connection closes. No candidate: a no-op. */
void eviction_remove(struct eviction *eviction, struct eviction_candidate *candidate);

/* Choose a victim: it is no longer a candidate. Gives the victims of its worker. If that is not
 * @own_victims the victim was put into them, and the caller wakes that worker; else it is
 * *own_victim. NULL: none may be evicted, or too many victims are pending. */
MUST_USE struct list *eviction_choose(struct eviction *eviction, const struct list *own_victims,
                                      uint64_t now_us, struct eviction_candidate **own_victim);

/* Take the next of @victims, the list of the calling worker. NULL: there is none. */
MUST_USE struct eviction_candidate *eviction_next_victim(struct eviction *eviction,
                                                         struct list *victims);

/* How many victims other workers have not closed yet. */
static inline unsigned eviction_n_pending(const struct eviction *eviction)
{
    return atomic_load_explicit(&eviction->n_pending, memory_order_relaxed);
}

/* By the worker of the connection: it may be evicted from @from_us on. */
static inline void eviction_publish(struct eviction_candidate *candidate, uint64_t from_us)
{
    atomic_store_explicit(&candidate->evictable_from_us, from_us, memory_order_relaxed);
}

#endif /* SLUICE_PROXY_EVICTION_H */
