/* The active policies: the one in force, and earlier ones that requests still use, each with its
 * share of the stores. Any thread. */

#ifndef SLUICE_APP_SERVE_ACTIVE_POLICY_H
#define SLUICE_APP_SERVE_ACTIVE_POLICY_H

#include "app/serve/stores.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server.h"

struct active_policy {
    struct list node; /* in stores->active */
    struct stores *stores;
    struct policy *policy;   /* owned */
    struct store_plan *plan; /* joined */
    unsigned n_users;        /* under the stores' lock */
};

/* Make an active policy of @policy, which it takes over, with one user: the server's configuration
 * generation. @before is the policy in force, or NULL. STATUS_NO_MEMORY: @policy stays the
 * caller's. */
MUST_USE enum status active_policy_new(struct stores *stores, struct policy *policy,
                                       const struct active_policy *before,
                                       struct active_policy **active);

/* The configuration generation for the server, which releases it. */
struct server_generation active_policy_generation(struct active_policy *active);

/* Add or remove one user; the last release frees it. */
void active_policy_acquire(struct active_policy *active);
void active_policy_release(struct active_policy *active);

/* --- the one in force --- */

/* Put @active, of which the server is a user, in force. */
void active_policy_publish(struct active_policy *active);

/* The policy in force; it is valid until active_policy_return(). */
const struct policy *active_policy_borrow(struct stores *stores);
void active_policy_return(struct stores *stores, const struct policy *policy);

/* Make the store of @policy, which was borrowed, for a thread that is not a worker. The store keeps
 * the policy until active_policy_free_store(). Returns as server_generation.make_store(). */
MUST_USE enum status active_policy_make_store(struct stores *stores, const struct policy *policy,
                                              struct loop *loop, struct store **store);
void active_policy_free_store(struct stores *stores, const struct policy *policy,
                              struct store *store);

#endif /* SLUICE_APP_SERVE_ACTIVE_POLICY_H */
