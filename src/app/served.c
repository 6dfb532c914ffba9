#include "app/served.h"

#include <assert.h>
#include <stdlib.h>

enum status served_new(struct stores *stores, struct policy *policy, const struct served *before,
                       struct served **served)
{
    struct served *made = calloc(1, sizeof(*made));
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
    list_push_back(&stores->served, &made->node);
    pthread_mutex_unlock(&stores->lock);
    *served = made;
    return STATUS_OK;
}

void served_join(struct served *served)
{
    pthread_mutex_lock(&served->stores->lock);
    served->n_users++;
    pthread_mutex_unlock(&served->stores->lock);
}

void served_leave(struct served *served)
{
    struct stores *stores = served->stores;
    pthread_mutex_lock(&stores->lock);
    const bool was_last = --served->n_users == 0;
    if (was_last) {
        list_remove(&served->node);
    }
    pthread_mutex_unlock(&stores->lock);
    if (was_last) {
        store_plan_leave(served->plan);
        policy_free(served->policy);
        free(served);
    }
}

static void release(void *context)
{
    served_leave(context);
}

static enum status make_store(void *context, struct loop *loop, struct store_meters *meters,
                              struct store **store, bool *is_shared)
{
    struct served *served = context;
    return stores_make(served->plan, served->policy, loop, meters, store, is_shared);
}

struct server_edition served_edition(struct served *served)
{
    return (struct server_edition){
        .policy = served->policy,
        .store = served->plan,
        .make_store = make_store,
        .release = release,
        .context = served,
    };
}

void served_come(struct served *served)
{
    pthread_mutex_lock(&served->stores->lock);
    served->stores->in_force = served;
    pthread_mutex_unlock(&served->stores->lock);
}

/* --- takers --- */

const struct policy *served_take(struct stores *stores)
{
    pthread_mutex_lock(&stores->lock);
    struct served *served = stores->in_force;
    served->n_users++;
    pthread_mutex_unlock(&stores->lock);
    return served->policy;
}

/* Somebody has taken it, so it is there. */
static struct served *find(struct stores *stores, const struct policy *policy)
{
    pthread_mutex_lock(&stores->lock);
    struct list *node = stores->served.next;
    while (CONTAINER_OF(node, struct served, node)->policy != policy) {
        node = node->next;
        assert(node != &stores->served);
    }
    pthread_mutex_unlock(&stores->lock);
    return CONTAINER_OF(node, struct served, node);
}

void served_give(struct stores *stores, const struct policy *policy)
{
    served_leave(find(stores, policy));
}

enum status served_make_store(struct stores *stores, const struct policy *policy, struct loop *loop,
                              struct store **store)
{
    struct served *served = find(stores, policy);
    bool is_shared;
    const enum status status = stores_make(served->plan, policy, loop, NULL, store, &is_shared);
    if (status == STATUS_OK) {
        pthread_mutex_lock(&stores->lock);
        served->n_users++;
        pthread_mutex_unlock(&stores->lock);
    }
    return status;
}

void served_free_store(struct stores *stores, const struct policy *policy, struct store *store)
{
    struct served *served = find(stores, policy);
    if (served->plan->section.kind != STORE_MEMORY) {
        store_free(store);
    }
    served_leave(served);
}
