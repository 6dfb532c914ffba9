/* The bans of the process, and the thread that synchronizes them with Redis. */

#ifndef SLUICE_APP_SERVE_BAN_SYNC_H
#define SLUICE_APP_SERVE_BAN_SYNC_H

#include <pthread.h>
#include <stdbool.h>

#include "app/serve/stores.h"
#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/bans.h"
#include "store/replica_sync.h"

struct ban_sync {
    struct bans *bans;       /* owned */
    struct store_plan *plan; /* joined; the Redis that is watched; NULL: none yet */
    struct loop *loop;       /* owned, as all that follows; NULL: the policy names no Redis */
    struct replica_sync *sync;
    struct wakeup stop;
    pthread_t thread;
    bool is_running;
};

/* Create the bans. If @plan, which belongs to @policy, names Redis, start watching them there.
 * STATUS_NO_MEMORY, STATUS_IO: everything was released. */
MUST_USE enum status ban_sync_open(struct ban_sync *sync, struct store_plan *plan,
                                   const struct policy *policy);

/* Another policy is in force: watch the Redis of its @plan, if it is another one. Known bans are
 * kept. Returns as ban_sync_open(); on failure no Redis is watched any more. */
MUST_USE enum status ban_sync_follow(struct ban_sync *sync, struct store_plan *plan,
                                     const struct policy *policy);

/* Free all; the bans are no longer in use. */
void ban_sync_close(struct ban_sync *sync);

#endif /* SLUICE_APP_SERVE_BAN_SYNC_H */
