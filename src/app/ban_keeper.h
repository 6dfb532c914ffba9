/* The bans of the process, and the thread that keeps them as they are in Redis. */

#ifndef SLUICE_APP_BAN_KEEPER_H
#define SLUICE_APP_BAN_KEEPER_H

#include <pthread.h>
#include <stdbool.h>

#include "app/stores.h"
#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/ban_watch.h"
#include "store/bans.h"

struct ban_keeper {
    struct bans *bans;       /* owned */
    struct store_plan *plan; /* joined: where they are watched; NULL: nowhere yet */
    struct loop *loop;       /* owned, as all that follows; NULL: the policy names no Redis */
    struct ban_watch *watch;
    struct wakeup stop;
    pthread_t thread;
    bool is_running;
};

/* Make the bans, and where @plan, which is @policy's, names Redis, begin to watch them there.
 * STATUS_NO_MEMORY, STATUS_IO: nothing is left. */
MUST_USE enum status ban_keeper_open(struct ban_keeper *keeper, struct store_plan *plan,
                                     const struct policy *policy);

/* Another policy holds: watch where that one says, if that is another place. What is known stays.
 * As ban_keeper_open(); on failure nothing is watched any more. */
MUST_USE enum status ban_keeper_follow(struct ban_keeper *keeper, struct store_plan *plan,
                                       const struct policy *policy);

/* Nobody looks at the bans any more. */
void ban_keeper_close(struct ban_keeper *keeper);

#endif /* SLUICE_APP_BAN_KEEPER_H */
