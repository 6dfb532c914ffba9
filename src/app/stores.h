/* The stores that a policy asks for: one embedded store for the process, and over it, where the policy names
 * Redis, a stack for each worker. */

#ifndef SLUICE_APP_STORES_H
#define SLUICE_APP_STORES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "store/ban_watch.h"
#include "store/redis_process.h"
#include "store/store.h"

struct loop;
struct resolver_options;
struct store_meters;

struct stores {
    const struct policy *policy;             /* borrowed */
    const struct resolver_options *resolver; /* borrowed */
    struct store *memory;
    struct redis_process redis; /* what the workers' Redis stores share */
};

/* @resolver: where names of Redis are asked for. STATUS_NO_MEMORY. */
MUST_USE enum status stores_init(struct stores *stores, const struct policy *policy,
                                 const struct resolver_options *resolver);

/* No store that stores_make() made may be left. */
void stores_close(struct stores *stores);

/* For struct server_options; @context is the struct stores, @meters may be NULL. */
MUST_USE enum status stores_make(void *context, struct loop *loop, struct store_meters *meters,
                                 struct store **store, bool *is_shared);

/* What asks the Redis of @policy, and nothing over it, as somebody who is no proxy: no other knows of it. It waits
 * for answers as long as the policy says, and at least @deadline_us. STATUS_NO_MEMORY. */
MUST_USE enum status stores_make_shared(const struct policy *policy,
                                        const struct resolver_options *resolver,
                                        uint64_t deadline_us, struct loop *loop,
                                        struct store **store);

/* Keep @bans as they are in the Redis that the policy names, within @loop. STATUS_NO_MEMORY. */
MUST_USE enum status stores_watch_bans(struct stores *stores, struct loop *loop, struct bans *bans,
                                       struct ban_watch **watch);

#endif /* SLUICE_APP_STORES_H */
