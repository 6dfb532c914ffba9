/* The stores that a policy asks for: one embedded store for the process, and over it, where the
 * policy names Redis, a stack for each worker. */

#ifndef SLUICE_APP_STORES_H
#define SLUICE_APP_STORES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "policy/policy.h"
#include "store/ban_watch.h"
#include "store/redis_process.h"
#include "store/store.h"

struct loop;
struct resolver_options;
struct store_meters;

struct served;

/* What the process has for all policies. */
struct stores {
    const struct resolver_options *resolver; /* borrowed */
    struct store *memory;
    struct redis_process redis; /* what the workers' Redis stores share */
    pthread_mutex_t lock;       /* of what follows, and of what is served */
    struct list served;         /* struct served */
    struct served *in_force;    /* among them */
};

/* Where counters live and how they are asked, as policies say it that say the same of it. It has
 * copies of all texts: a link to Redis outlives the policy that it was made under. */
struct store_plan {
    struct stores *stores;
    struct arena arena;
    struct store_section section; /* but for what each policy has of its own: the secret */
    atomic_uint n_users;
};

/* @section says how large the embedded store is; @resolver where names of Redis are
 * asked for. STATUS_NO_MEMORY. */
MUST_USE enum status stores_init(struct stores *stores, const struct store_section *section,
                                 const struct resolver_options *resolver);

/* No store that stores_make() made may be left, and nothing is served. */
void stores_close(struct stores *stores);

/* What can be obeyed of @section at once: what becomes of keys when the embedded store is full. */
void stores_obey(struct stores *stores, const struct store_section *section);

/* That of @section, for one user: @before if that says the same, else a
 * new one. NULL: no memory. */
struct store_plan *store_plan_open(struct stores *stores, const struct store_section *section,
                                   struct store_plan *before);
struct store_plan *store_plan_join(struct store_plan *plan);
void store_plan_leave(struct store_plan *plan);

/* The store of one thread, with the limits of @policy, whose plan it is; @meters may be NULL. As
 * server_edition.make_store(). */
MUST_USE enum status stores_make(struct store_plan *plan, const struct policy *policy,
                                 struct loop *loop, struct store_meters *meters,
                                 struct store **store, bool *is_shared);

/* What asks the Redis of @policy, and nothing over it, as somebody who is no proxy: no
 * other knows of it. It waits for answers as long as the policy says, and at least
 * @deadline_us. STATUS_NO_MEMORY. */
MUST_USE enum status stores_make_shared(const struct policy *policy,
                                        const struct resolver_options *resolver,
                                        uint64_t deadline_us, struct loop *loop,
                                        struct store **store);

/* Keep @bans as they are in the Redis that @plan names, within @loop. STATUS_NO_MEMORY. */
MUST_USE enum status stores_watch_bans(struct store_plan *plan, struct loop *loop,
                                       struct bans *bans, struct ban_watch **watch);

#endif /* SLUICE_APP_STORES_H */
