/* A regime: one policy in force at one worker, with what that worker has made of it: its store, the servers of
 * its upstreams, its timeouts.
 *
 * An exchange keeps the regime that it began under to its end, whatever policy the next one finds. Everything
 * here is for the worker's own thread. */

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
#include "proxy/stock.h"
#include "proxy/upstream_group.h"
#include "store/store.h"

struct worker;

struct regime {
    struct worker *worker;
    unsigned n_users; /* requests, and connections with bytes of one */
    struct edition *edition;
    const struct policy *policy; /* the edition's */
    struct stock *stock;
    struct store *store;               /* what decides */
    bool store_is_shared;              /* and is not this worker's to free */
    struct upstream_group **upstreams; /* by index of the policy's */
    size_t n_upstreams;                /* that are open */

    struct timeout_queue head_timeouts;   /* policy's timeouts.head */
    struct timeout_queue idle_timeouts;   /* policy's timeouts.idle, of a body that does not move */
    struct timeout_queue tunnel_timeouts; /* policy's timeouts.tunnel */
    struct timeout_queue look_timeouts;   /* between looks at a client that is waited for */

    struct list slot_holders; /* exchanges that hold slots of concurrency limits */
    struct timer renew_timer; /* renews their leases; armed where the policy has such limits */
    uint64_t renew_us;        /* how often; 0: never */
};

/* STATUS_NO_MEMORY, STATUS_IO: nothing is left. */
MUST_USE enum status regime_new(struct worker *worker, struct edition *edition,
                                struct regime **regime);

/* Nobody is under it any more. NULL is a no-op. */
void regime_free(struct regime *regime);

/* Another worker has something for one of its upstreams. */
void regime_on_wake(struct regime *regime);

/* It makes no requests any more: its idle connections to servers are of no use to it. */
void regime_close_idle(struct regime *regime);

/* One user more. */
static inline struct regime *regime_join(struct regime *regime)
{
    regime->n_users++;
    return regime;
}

/* One less. NULL is a no-op. */
static inline void regime_leave(struct regime *regime)
{
    if (regime != NULL) {
        regime->n_users--;
    }
}

#endif /* SLUICE_PROXY_REGIME_H */
