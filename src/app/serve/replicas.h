/* The bans and the tenants of the process, and the thread that synchronizes them with Redis. */

#ifndef SLUICE_APP_SERVE_REPLICAS_H
#define SLUICE_APP_SERVE_REPLICAS_H

#include <pthread.h>
#include <stdbool.h>

#include "app/serve/active_policy.h"
#include "app/serve/stores.h"
#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/bans.h"
#include "store/replica_sync.h"
#include "store/tenants.h"

struct replicas {
    struct bans *bans;            /* owned, as the tenants */
    struct tenants *tenants;      /* their keys are those of the policy in force */
    struct active_policy *active; /* acquired; the policy in force; NULL: none yet */
    struct store_plan *plan;      /* joined; the Redis that is asked; NULL: none yet */
    struct loop *loop;            /* owned, as all that follows; NULL: the policy names no Redis */
    struct replica_sync *bans_sync;
    struct replica_sync *tenants_sync; /* NULL: no limit looks for tenants */
    struct wakeup stop;
    pthread_t thread;
    bool is_running;
};

/* Create bans and tenants. If @active names Redis, start to synchronize them. STATUS_NO_MEMORY,
 * STATUS_IO: everything was released. */
MUST_USE enum status replicas_open(struct replicas *replicas, struct active_policy *active);

/* @active is in force: synchronize with its Redis, and look for the keys of its limits. What is
 * known is kept. Returns as replicas_open(); on failure nothing is synchronized any more. */
MUST_USE enum status replicas_follow(struct replicas *replicas, struct active_policy *active);

/* Free all; bans and tenants are no longer in use. */
void replicas_close(struct replicas *replicas);

#endif /* SLUICE_APP_SERVE_REPLICAS_H */
