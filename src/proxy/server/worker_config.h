/* A worker configuration: what a worker makes of one configuration generation, and frees after its
 * last exchange has ended. It is used in the worker's own thread only. */

#ifndef SLUICE_PROXY_SERVER_WORKER_CONFIG_H
#define SLUICE_PROXY_SERVER_WORKER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/loop.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/server/config_generation.h"
#include "proxy/server/store_stack.h"

/* All worker configurations of a worker. */
struct worker_config_set {
    struct proxy_env *env;
    struct worker_config *in_force; /* that of env->config; NULL: none yet */
    struct list all; /* struct worker_config: last the one in force, before it those with users */
    struct dying_stacks dying_stacks;
};

struct worker_config {
    struct exchange_config config; /* what its exchanges use */
    struct worker_config_set *set;
    struct list node;                     /* in set->all */
    struct config_generation *generation; /* a reference */
    struct store_stack *stack;            /* of config.store */
    uint64_t renew_us;                    /* the period of renewals of slots; 0: never */
};

/* Make everything that it needs to come into force at once. What the one in force also has is
 * shared with it. STATUS_NO_MEMORY, STATUS_IO: nothing is left. */
MUST_USE enum status worker_config_new(struct worker_config_set *set,
                                       struct config_generation *generation,
                                       struct worker_config **worker_config);

/* True when waiting longer would not help: its store and its servers can be asked, or cannot for
 * longer than is worth waiting for. */
bool worker_config_is_ready(const struct worker_config *worker_config);

/* Put it in force, in place of set->in_force. */
void worker_config_begin(struct worker_config *worker_config);

/* Free it. It has no users. NULL is a no-op. */
void worker_config_free(struct worker_config *worker_config);

/* --- the set --- */

/* The set is empty. Call dying_stacks_init() for it once the loop exists. */
void worker_config_set_init(struct worker_config_set *set, struct proxy_env *env);

/* The loop has ended: free all worker configurations. */
void worker_config_set_close(struct worker_config_set *set);

/* Another worker has something for an upstream of any of the configurations. */
void worker_config_set_on_wake(struct worker_config_set *set);

/* The worker makes no more requests: close its idle connections to servers. */
void worker_config_set_close_idle(struct worker_config_set *set);

/* Whether all stores are settled, also those that no policy names any more. */
bool worker_config_set_is_settled(const struct worker_config_set *set);

#endif /* SLUICE_PROXY_SERVER_WORKER_CONFIG_H */
