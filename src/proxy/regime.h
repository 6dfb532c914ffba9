/* A regime: one policy in force at one worker, with what that worker has made of it: its store, the
 * servers of its upstreams, its timeouts.
 *
 * An exchange keeps the regime that it began under to its end, whatever policy the next one finds.
 * Everything here is for the worker's own thread. */

#ifndef SLUICE_PROXY_REGIME_H
#define SLUICE_PROXY_REGIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/loop.h"
#include "policy/policy.h"
#include "proxy/edition.h"
#include "proxy/key_hashes.h"
#include "proxy/stock.h"
#include "proxy/store_stack.h"
#include "proxy/upstream_group.h"
#include "store/store.h"

struct worker;

struct regime {
    struct worker *worker;
    struct list node; /* in worker->regimes */
    unsigned n_users; /* requests, and connections with bytes of one */
    bool is_over;     /* the next one is in force: this goes with its last user */
    struct loop_task death;
    struct edition *edition;     /* joined */
    const struct policy *policy; /* the edition's */
    struct stock *stock;
    struct store_stack *stack;
    struct store *store;               /* the stack's: what decides */
    struct upstream_group **upstreams; /* by index of the policy's; joined */
    size_t n_upstreams;                /* that are open */

    struct timeout_queue head_timeouts;   /* policy's timeouts.head */
    struct timeout_queue idle_timeouts;   /* policy's timeouts.idle, of a body that does not move */
    struct timeout_queue tunnel_timeouts; /* policy's timeouts.tunnel */
    struct timeout_queue look_timeouts;   /* between looks at a client that is waited for */

    struct key_hashes key_hashes; /* under the policy's secret */

    struct list slot_holders; /* exchanges that hold slots of concurrency limits */
    struct timer renew_timer; /* renews their leases; armed where the policy has such limits */
    uint64_t renew_us;        /* how often; 0: never */
};

/* Make everything, so that it could be in force at once; what the one that is in force has as well
 * is taken over. STATUS_NO_MEMORY, STATUS_IO: nothing is left. */
MUST_USE enum status regime_new(struct worker *worker, struct edition *edition,
                                struct regime **regime);

/* Whether its store and its servers can be asked, or cannot for longer
 * than is worth waiting for. */
bool regime_is_ready(const struct regime *regime);

/* It is in force from now on, in place of worker->regime. */
void regime_begin(struct regime *regime);

/* Nobody is under it any more, or ever was. NULL is a no-op. */
void regime_free(struct regime *regime);

/* The loop has ended: none is in force any more. */
void regime_free_all(struct worker *worker);

/* Its last user has gone, and it is over. */
void regime_end(struct regime *regime);

/* Another worker has something for one of @worker's upstreams, under whatever policy. */
void regime_on_wake(struct worker *worker);

/* @worker makes no requests any more: its idle connections to servers are of no use to it. */
void regime_close_idle(struct worker *worker);

/* One user more. */
static inline struct regime *regime_join(struct regime *regime)
{
    regime->n_users++;
    return regime;
}

/* One less. NULL is a no-op. */
static inline void regime_leave(struct regime *regime)
{
    if (regime != NULL && --regime->n_users == 0 && UNLIKELY(regime->is_over)) {
        regime_end(regime);
    }
}

#endif /* SLUICE_PROXY_REGIME_H */
