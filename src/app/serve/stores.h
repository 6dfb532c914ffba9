/* The stores that a policy asks for: one embedded store for the process, and over it, where the
 * policy names Redis, a stack for each worker. */

#ifndef SLUICE_APP_SERVE_STORES_H
#define SLUICE_APP_SERVE_STORES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/status.h"
#include "net/resolver.h"
#include "policy/policy.h"
#include "store/redis_process.h"
#include "store/replica_sync.h"
#include "store/store.h"

struct loop;
struct store_meters;

struct active_policy;

/* The resources of the process that all policies share. */
struct stores {
    const struct resolver_options *resolver; /* borrowed */
    struct store *memory;
    struct redis_process redis;     /* shared by the workers' Redis stores */
    pthread_mutex_t lock;           /* of what follows, and of the active policies */
    struct list active;             /* struct active_policy */
    struct active_policy *in_force; /* one of them */
};

/* The store settings of a policy, shared by policies with equal settings. It holds copies of all
 * texts, since a Redis link outlives the policy under which it was made. */
struct store_plan {
    struct stores *stores;
    struct arena arena;
    struct store_section section; /* without the secret, which each policy has for itself */
    atomic_uint n_users;
};

/* @section gives the size of the embedded store; @resolver is used for names of Redis servers.
 * STATUS_NO_MEMORY. */
MUST_USE enum status stores_init(struct stores *stores, const struct store_section *section,
                                 const struct resolver_options *resolver);

/* Free all. No store of stores_make() and no active policy may be left. */
void stores_close(struct stores *stores);

/* Apply the setting of @section that can change at once: the handling of keys when the embedded
 * store is full. */
void stores_obey(struct stores *stores, const struct store_section *section);

/* The plan for @section, with one more user: @before if its settings are equal, else a new one.
 * NULL: no memory. */
struct store_plan *store_plan_open(struct stores *stores, const struct store_section *section,
                                   struct store_plan *before);
struct store_plan *store_plan_join(struct store_plan *plan);
void store_plan_leave(struct store_plan *plan);

/* Make the store of one thread, with the limits of @policy, to which @plan belongs; @meters may be
 * NULL. Returns as server_generation.make_store(). */
MUST_USE enum status stores_make(struct store_plan *plan, const struct policy *policy,
                                 struct loop *loop, struct store_meters *meters,
                                 struct store **store, bool *is_shared);

/* Make a plain store over the Redis of @policy for a process that is not a proxy: it is not in the
 * instance registry. It waits for answers for the policy's time, but at least @deadline_us.
 * STATUS_NO_MEMORY. */
MUST_USE enum status stores_make_shared(const struct policy *policy,
                                        const struct resolver_options *resolver,
                                        uint64_t deadline_us, struct loop *loop,
                                        struct store **store);

/* Synchronize @replica of @table with the Redis that @plan names, in @loop. @context is that of the
 * table. STATUS_NO_MEMORY. */
MUST_USE enum status stores_sync(struct store_plan *plan, struct loop *loop,
                                 const struct replica_table *table, struct replica *replica,
                                 void *context, struct replica_sync **sync);

/* The resolver options and name servers of a policy. */
struct name_servers {
    struct resolver_address addresses[NAME_SERVERS_MAX];
    struct resolver_options options; /* refers to the addresses */
};

void name_servers_init(struct name_servers *servers, const struct policy *policy);

#endif /* SLUICE_APP_SERVE_STORES_H */
