/* A worker: one thread with its own loop, listening sockets, upstream
 * connections, store and memory. */

#ifndef SLUICE_PROXY_WORKER_H
#define SLUICE_PROXY_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/random_stream.h"
#include "base/status.h"
#include "http/message.h"
#include "net/loop.h"
#include "net/outbox.h"
#include "net/pipe.h"
#include "net/precise_timer.h"
#include "net/resolver.h"
#include "policy/policy.h"
#include "proxy/access_log.h"
#include "proxy/edition.h"
#include "proxy/entrance.h"
#include "proxy/meters.h"
#include "proxy/regime.h"
#include "proxy/server.h"
#include "proxy/store_stack.h"
#include "proxy/via.h"
#include "proxy/worker_change.h"
#include "store/bans.h"
#include "store/store.h"

/* What all workers of a process share. */
struct worker_shared {
    const struct server_options *options; /* borrowed */
    struct entrance entrance;             /* of connections from clients */
    struct via via;                       /* who we are to ourselves */
    size_t n_pipes;                       /* that each may have */
    int change_fd; /* an eventfd: an order to a worker's change is answered; -1: nobody looks */
};

/* Value of beat_us before the thread starts, and after it has ended. */
#define WORKER_HAS_NO_PULSE UINT64_MAX

struct worker {
    struct worker_shared *shared;
    struct regime *regime;        /* the policy that a request finds which begins now */
    unsigned number;              /* from 1 */
    struct worker_meters *meters; /* where it counts; the process's */
    struct loop *loop;
    struct resolver *resolver;
    struct list
        regimes; /* struct regime: the one in force last, before it those that somebody is under */
    struct dying_stacks dying_stacks;
    struct list listeners; /* struct worker_listener */

    struct outbox outbox;     /* short answers and requests, written at the end of a turn */
    struct pool body_blocks;  /* for bodies: IO_BLOCK_BYTES */
    struct pool small_blocks; /* for bodies that nobody takes as fast: SMALL_BLOCK_BYTES */
    struct pipe_pool pipes;   /* for long bodies */
    struct pool downstreams;  /* struct downstream */
    struct timeout_queue rest_timeouts;   /* of connections between requests: timeouts.idle */
    struct timeout_queue first_timeouts;  /* of new ones: timeouts.head, or idle if that is less */
    struct timeout_queue linger_timeouts; /* of a connection that is closed in stages */
    struct timeout_queue grace_timeouts;  /* of one that is new when the drain begins */

    struct precise_timers holds;       /* of exchanges that are held, at most max.held */
    struct client_counts held_clients; /* how many of those each client has */
    struct bans_view bans;             /* whom operators have banned and exempted */
    uint64_t next_slot;                /* of concurrency limits: random at start, then counted up */

    struct histogram decision_us; /* from asking the store to its answer */
    struct access_log log;
    struct list open; /* struct downstream, oldest first */
    struct list
        victims; /* connections that other workers have chosen to be closed: see eviction.h */
    struct wakeup wakeup; /* another thread wants something: see drain_wanted, change */
    atomic_bool drain_wanted;
    struct worker_change change; /* to another policy */
    struct log_gate refusal_gates[ENTRANCE_REFUSALS];
    struct log_gate eviction_gate;
    bool draining;            /* no new requests; connections end with their answer */
    struct timer drain_timer; /* what is not done by then is cut */
    struct timer settle_timer;
    uint64_t settled_by_us; /* how long the end of the drain waits for settlements */
    struct random_stream request_ids;
    uint64_t date_second; /* that `date` shows */
    char date[MESSAGE_DATE_BYTES];
    struct timer beat_timer;
    _Atomic uint64_t beat_us; /* when the loop turned last, to the second; monotonic */
    pthread_t thread;
};

/* Make everything that needs memory or a socket, but do not run. The sockets of @offer are taken
 * over. On failure nothing is left. */
MUST_USE enum status worker_init(struct worker *worker, struct worker_shared *shared,
                                 unsigned number, const struct worker_offer *offer);

/* Start the thread. STATUS_NO_MEMORY: the system gives none. */
MUST_USE enum status worker_start(struct worker *worker);

/* Any thread: stop accepting, let requests end within timeouts.drain, then
 * return from the thread. */
void worker_drain(struct worker *worker);

/* Wait for the thread to end. */
void worker_join(struct worker *worker);

/* Free everything of a worker whose thread has ended or was never started. */
void worker_close(struct worker *worker);

/* A connection from a client has been closed and given back; a draining worker may be done. */
void worker_on_downstream_gone(struct worker *worker);

/* A listener has left. */
void worker_on_listener_gone(struct worker *worker);

/* How long a new connection has for the head of its first request, from accept. */
static inline uint64_t worker_first_us(const struct policy *policy)
{
    const struct timeouts_section *timeouts = &policy->timeouts;
    return timeouts->head_us < timeouts->idle_us ? timeouts->head_us : timeouts->idle_us;
}

/* The first of LIMITS_PER_ROUTE_MAX slot numbers that nobody else has; never 0. */
uint64_t worker_new_slots(struct worker *worker);

/* The Date of now, formatted once a second. */
struct span worker_date(struct worker *worker);

#endif /* SLUICE_PROXY_WORKER_H */
