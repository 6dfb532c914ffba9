#include "app/serve/active_policy.h"

#include <stdlib.h>

#include "base/status.h"

enum status active_policy_new(struct stores *stores, struct policy *policy,
                              const struct active_policy *before, struct active_policy **active)
{
    struct active_policy *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->stores = stores;
    made->n_users = 1;
    made->plan = store_plan_open(stores, &policy->store, before != NULL ? before->plan : NULL);
    if (made->plan == NULL) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    made->policy = policy;
    pthread_mutex_lock(&stores->lock);
    list_push_back(&stores->active, &made->node);
    pthread_mutex_unlock(&stores->lock);
    *active = made;
    return STATUS_OK;
}

void active_policy_acquire(struct active_policy *active)
{
    pthread_mutex_lock(&active->stores->lock);
    active->n_users++;
    pthread_mutex_unlock(&active->stores->lock);
}

void active_policy_release(struct active_policy *active)
{
    struct stores *stores = active->stores;
    pthread_mutex_lock(&stores->lock);
    const bool was_last = --active->n_users == 0;
    if (was_last) {
        list_remove(&active->node);
    }
    pthread_mutex_unlock(&stores->lock);
    if (was_last) {
        store_plan_leave(active->plan);
        policy_free(active->policy);
        free(active);
    }
}

static void release(void *context)
{
    active_policy_release(context);
}

static enum status make_store(void *context, struct loop *loop, struct store_meters *meters,
                              struct store **store, bool *is_shared)
{
    struct active_policy *active = context;
    return stores_make(active->plan, active->policy, loop, meters, store, is_shared);
}

struct server_generation active_policy_generation(struct active_policy *active)
{
    return (struct server_generation){
        .policy = active->policy,
        .store = active->plan,
        .make_store = make_store,
        .release = release,
        .context = active,
    };
}

void active_policy_publish(struct active_policy *active)
{
    pthread_mutex_lock(&active->stores->lock);
    active->stores->in_force = active;
    pthread_mutex_unlock(&active->stores->lock);
}

/* --- references --- */

const struct policy *active_policy_borrow(struct stores *stores)
{
    pthread_mutex_lock(&stores->lock);
    struct active_policy *active = stores->in_force;
    active->n_users++;
    pthread_mutex_unlock(&stores->lock);
    return active->policy;
}

/* A caller has borrowed it, so it exists. */
static struct active_policy *find(struct stores *stores, const struct policy *policy)
{
    pthread_mutex_lock(&stores->lock);
    struct active_policy *found = NULL;
    for (struct list *node = stores->active.next; node != &stores->active && found == NULL;
         node = node->next) {
        struct active_policy *active = CONTAINER_OF(node, struct active_policy, node);
        found = active->policy == policy ? active : NULL;
    }
    pthread_mutex_unlock(&stores->lock);
    if (found == NULL) {
        panic("a policy was taken that is not served");
    }
    return found;
}

void active_policy_return(struct stores *stores, const struct policy *policy)
{
    active_policy_release(find(stores, policy));
}

enum status active_policy_make_store(struct stores *stores, const struct policy *policy,
                                     struct loop *loop, struct store **store)
{
    struct active_policy *active = find(stores, policy);
    bool is_shared;
    const enum status status = stores_make(active->plan, policy, loop, NULL, store, &is_shared);
    if (status == STATUS_OK) {
        pthread_mutex_lock(&stores->lock);
        active->n_users++;
        pthread_mutex_unlock(&stores->lock);
    }
    return status;
}

void active_policy_free_store(struct stores *stores, const struct policy *policy,
                              struct store *store)
{
    struct active_policy *active = find(stores, policy);
    if (active->plan->section.kind != STORE_MEMORY) {
        store_free(store);
    }
    active_policy_release(active);
}
