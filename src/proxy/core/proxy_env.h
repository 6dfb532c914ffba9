/* The environment that all connections and exchanges of a worker share. The worker owns it and
 * outlives them. */

#ifndef SLUICE_PROXY_CORE_PROXY_ENV_H
#define SLUICE_PROXY_CORE_PROXY_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/memory.h"
#include "http/head_builder.h"
#include "net/loop.h"
#include "net/outbox.h"
#include "net/pipe.h"
#include "net/precise_timer.h"
#include "policy/policy.h"
#include "proxy/core/body_buffer.h"
#include "proxy/core/client_counts.h"
#include "store/bans.h"
#include "store/tenants.h"

struct access_log;
struct exchange_config;
struct jwt_verifier;
struct resolver;
struct tls_worker;
struct upstream_descriptors;
struct via;
struct worker_meters;

struct proxy_env {
    unsigned number; /* of the worker, from 1 */
    struct loop *loop;
    struct wakeup wakeup; /* for other threads to wake the worker */
    struct resolver *resolver;
    struct tls_worker *tls;        /* NULL: no policy has needed TLS yet */
    struct jwt_verifier *verifier; /* of tokens; NULL: no policy has needed it yet */
    struct worker_meters *meters;
    struct access_log *log;
    const struct via *via;          /* the process's name in Via */
    struct exchange_config *config; /* for new requests */
    bool is_draining; /* no new requests: connections close after the current answer */

    struct outbox outbox;     /* short answers and requests, written at the end of an iteration */
    struct pool body_blocks;  /* for bodies: IO_BLOCK_BYTES */
    struct pool small_blocks; /* for bodies that are consumed slowly: SMALL_BLOCK_BYTES */
    struct pipe_pool pipes;   /* for long bodies */
    struct body_buffers body_buffers; /* starts of request bodies */

    struct random_stream request_ids;
    uint64_t date_second; /* the second that `date` shows */
    char date[MESSAGE_DATE_BYTES];
    uint64_t next_slot;                      /* see proxy_env_new_slots(); starts at random */
    struct bans_view bans;                   /* keys that operators have banned or exempted */
    struct tenants_view tenants;             /* keys that have a plan */
    struct precise_timers holds;             /* of held exchanges, at most max.held */
    struct client_counts held_clients;       /* held exchanges per client */
    struct client_counts abandoning_clients; /* abandoned requests per client */
    struct list upstream_groups;             /* struct upstream_group of this worker */
    struct upstream_descriptors *upstream_descriptors; /* of all workers */
    struct list abandoned_requests; /* struct abandoned_request: see abandoned_request.h */
    struct histogram decision_us;   /* from the call of the store to its answer */
};

/* The first of LIMITS_PER_ROUTE_MAX unique slot numbers for a decision; never 0. */
static inline uint64_t proxy_env_new_slots(struct proxy_env *env)
{
    env->next_slot += LIMITS_PER_ROUTE_MAX;
    return env->next_slot;
}

/* --- buffer pools --- */

/* The buffer pools of a worker: pools of blocks whose sizes depend on the policy. Policies with the
 * same sizes share one set. */
struct buffer_pools {
    unsigned n_users;
    struct pool head_blocks;   /* heads of requests, and heads to send; one page is often enough */
    struct pool answer_blocks; /* heads of responses with the start of the body, which fills them */
    struct pool large_heads;   /* for a response's head that exceeds those blocks */
    struct pool exchanges;     /* struct exchange with its fields and arena */
};

/* Create pools with one user, which calls buffer_pools_release(). An exchange under @policy takes
 * @exchange_bytes. NULL: no memory. */
struct buffer_pools *buffer_pools_new(const struct policy *policy, size_t exchange_bytes);

/* Whether @policy, with exchanges of @exchange_bytes, needs exactly the sizes of @pools. */
bool buffer_pools_fits(const struct buffer_pools *pools, const struct policy *policy,
                       size_t exchange_bytes);

/* Add or remove a user. Removing the last one frees the pools; all blocks must have been returned.
 * Releasing NULL is a no-op. */
struct buffer_pools *buffer_pools_acquire(struct buffer_pools *pools);
void buffer_pools_release(struct buffer_pools *pools);

#endif /* SLUICE_PROXY_CORE_PROXY_ENV_H */
