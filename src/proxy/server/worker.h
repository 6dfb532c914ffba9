/* A worker: one thread with its own loop, listening sockets, upstream connections, store and
 * memory. */

#ifndef SLUICE_PROXY_SERVER_WORKER_H
#define SLUICE_PROXY_SERVER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/log_output.h"
#include "base/memory.h"
#include "base/status.h"
#include "net/loop.h"
#include "policy/policy.h"
#include "proxy/client/client_env.h"
#include "proxy/client/connection_limits.h"
#include "proxy/core/proxy_env.h"
#include "proxy/core/via.h"
#include "proxy/log/access_log.h"
#include "proxy/server/config_generation.h"
#include "proxy/server/listening.h"
#include "proxy/server/worker_config.h"
#include "proxy/server/worker_listeners.h"
#include "proxy/server_options.h"
#include "store/store.h"

/* Shared by all workers of a process. */
struct worker_shared {
    const struct server_options *options;       /* borrowed */
    struct connection_limits connection_limits; /* of connections from clients */
    struct body_budget body_budget;             /* of the buffers of request bodies */
    struct via via;                             /* the name of this process in Via */
    size_t n_pipes;                             /* of each worker */
    int change_fd; /* an eventfd, signalled when a worker answers an order; -1: it has no reader */
};

/* How a worker changes to another policy.
 *
 *   offered ─► PREPARE ─► made ─► ready, or timed out ─► ITERATION ─► leaving ─► turned
 *                 └ no memory: failed                  └──► DROP
 *   (leaving: until the listeners that the new policy does not name have left)
 *
 * The server's thread gives one order at a time to all workers, and each worker answers. No worker
 * is ordered to turn before all have made what they need: after that nothing can fail. No worker
 * is offered the next policy before all have left the old addresses, so an address that a later
 * policy names again is free. */

enum worker_order {
    WORKER_NO_ORDER,
    WORKER_PREPARE, /* make what the offer's policy needs */
    WORKER_SWITCH,  /* switch to it */
    WORKER_DROP,    /* drop what was made for it */
};

enum worker_answer {
    WORKER_IS_SILENT, /* it has not carried out the order yet */
    WORKER_HAS_MADE,  /* what the policy needs is made: links and names are waited for */
    WORKER_IS_READY,
    WORKER_FAILED, /* no memory: nothing was made */
    WORKER_SWITCHED,
    WORKER_DROPPED,
};

/* What a worker is given for a policy. */
struct worker_offer {
    struct config_generation *generation; /* a reference for the worker; NULL: there is no offer */
    struct log_output *log; /* the access log; NULL: off. Borrowed while the policy is in force */
    struct listening_offer listeners[LISTENERS_MAX]; /* the worker's once it has turned */
    size_t n_listeners;                              /* 0 from then on */
    /* By number of the upstream, owned; worker_make_tls() makes them, and the worker releases them;
     * NULL: none. */
    struct tls_client_context **clients;
};

struct worker_change {
    atomic_int order;             /* enum worker_order; the server's */
    atomic_int answer;            /* enum worker_answer; the worker's */
    struct worker_offer offer;    /* written by the server while there is no order */
    struct worker_config *coming; /* this and what follows are the worker's; NULL: none */
    struct timer look_timer;      /* while it prepares */
    bool is_turning;              /* it has turned, but old listeners have not all left yet */
};

/* Value of heartbeat_us before the thread starts, and after it has ended. */
#define WORKER_HAS_NO_PULSE UINT64_MAX

struct worker {
    struct proxy_env env;      /* of its connections and exchanges */
    struct client_env clients; /* its connections from clients */
    struct worker_shared *shared;
    struct worker_config_set worker_configs; /* of the policies that its exchanges are under */
    struct worker_listeners listeners;

    struct access_log log;
    atomic_bool drain_wanted;
    struct worker_change change; /* to another policy */
    struct timer drain_timer;    /* when it fires, what is left is cut */
    struct timer settle_timer;
    uint64_t settled_by_us; /* until when the end of the drain waits for settlements */
    struct timer heartbeat_timer;
    _Atomic uint64_t heartbeat_us; /* when the loop ran last, to the second; monotonic */
    pthread_t thread;
};

/* Make everything that needs memory or a socket, but do not start the thread. The sockets of
 * @offer are taken over. On failure nothing is left. */
MUST_USE enum status worker_init(struct worker *worker, struct worker_shared *shared,
                                 unsigned number, struct worker_offer *offer);

/* Make what the listeners and upstreams of @offer need for TLS, in the thread of the server,
 * because decoding certificates takes long. STATUS_INVALID: OpenSSL refuses them, which is logged;
 * STATUS_NO_MEMORY. What was made is left in @offer. */
MUST_USE enum status worker_make_tls(struct worker *worker, struct worker_offer *offer);

/* Release the clients of @offer, whose generation is still there. */
void worker_drop_clients(struct worker_offer *offer);

/* Start the thread. STATUS_NO_MEMORY: the system cannot create it. */
MUST_USE enum status worker_start(struct worker *worker);

/* Any thread: stop accepting, let requests end within timeouts.drain, then end the thread. */
void worker_drain(struct worker *worker);

/* Wait for the thread to end. */
void worker_join(struct worker *worker);

/* Free everything of a worker whose thread has ended or was never started. */
void worker_close(struct worker *worker);

/* --- for the server --- */

/* Give @order and wake the worker. WORKER_SWITCH: only after the worker has made what it needs.
 * WORKER_DROP: at any time; a PREPARE that is not carried out yet is cancelled. Do not rely on an
 * answer of a draining worker. */
void worker_change_order(struct worker *worker, enum worker_order order);
enum worker_answer worker_change_answer(const struct worker *worker);

#endif /* SLUICE_PROXY_SERVER_WORKER_H */
