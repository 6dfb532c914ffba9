/* The policies that are served: the one in force, those before it that requests are still under,
 * and what each has of the stores. Any thread. */

#ifndef SLUICE_APP_SERVED_H
#define SLUICE_APP_SERVED_H

#include "app/stores.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server.h"

struct served {
    struct list node; /* in stores->served */
    struct stores *stores;
    struct policy *policy;   /* owned */
    struct store_plan *plan; /* joined */
    unsigned n_users;        /* with the stores' lock */
};

/* @policy, which is owned from now on, for one user: the server's edition. @before is what is in
 * force, or NULL. STATUS_NO_MEMORY: @policy stays the caller's. */
MUST_USE enum status served_new(struct stores *stores, struct policy *policy,
                                const struct served *before, struct served **served);

/* What the server gets; it releases it. */
struct server_edition served_edition(struct served *served);

/* One user more, or less; with the last it goes. */
void served_join(struct served *served);
void served_leave(struct served *served);

/* --- the one in force --- */

/* @served, for which the server has a user, is in force. */
void served_come(struct served *served);

/* The policy in force, which stays until it is given back. */
const struct policy *served_take(struct stores *stores);
void served_give(struct stores *stores, const struct policy *policy);

/* The store of @policy, which was taken, for a thread that is no worker; the policy stays with it
 * until served_free_store(). As server_edition.make_store(). */
MUST_USE enum status served_make_store(struct stores *stores, const struct policy *policy,
                                       struct loop *loop, struct store **store);
void served_free_store(struct stores *stores, const struct policy *policy, struct store *store);

#endif /* SLUICE_APP_SERVED_H */
