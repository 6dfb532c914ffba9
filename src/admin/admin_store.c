/* The stores that the admin API asks: one for each policy, since a reload may
 * come while one is asked. */

#include <stdlib.h>

#include "admin/connection_parts.h"
#include "admin/internal.h"
#include "store/store.h"

static struct admin_store *store_at(struct list *node)
{
    return CONTAINER_OF(node, struct admin_store, node);
}

static bool is_asked_at(const struct admin_door *door, const struct policy *policy)
{
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        const struct admin_connection *connection =
            CONTAINER_OF(node, struct admin_connection, node);
        if (connection->has_request && connection->request.policy == policy) {
            return true;
        }
    }
    return false;
}

/* Whether a request is under way that began under @policy. */
static bool is_asked(const struct admin *admin, const struct policy *policy)
{
    const struct list *const heads[] = {&admin->doors, &admin->leaving};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        for (struct list *node = heads[i]->next; node != heads[i]; node = node->next) {
            if (is_asked_at(CONTAINER_OF(node, struct admin_door, node), policy)) {
                return true;
            }
        }
    }
    return false;
}

static void drop(struct admin *admin, struct admin_store *store)
{
    list_remove(&store->node);
    admin->options.free_store(admin->options.context, store->policy, store->store);
    free(store);
}

/* But for the latest: what was begun by a request that has gone may still be under way there. */
static void drop_unasked(struct admin *admin)
{
    struct list *node = admin->stores.next->next;
    while (!list_is_empty(&admin->stores) && node != &admin->stores) {
        struct admin_store *store = store_at(node);
        node = node->next;
        if (store->policy != admin->policy && !is_asked(admin, store->policy)) {
            drop(admin, store);
        }
    }
}

static struct admin_store *make(struct admin *admin, const struct policy *policy)
{
    struct admin_store *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->policy = policy;
    if (admin->options.make_store(admin->options.context, policy, admin->loop, &made->store) !=
        STATUS_OK) {
        free(made);
        return NULL;
    }
    list_push_front(&admin->stores, &made->node);
    return made;
}

struct store *admin_store(struct admin *admin, const struct policy *policy)
{
    for (struct list *node = admin->stores.next; node != &admin->stores; node = node->next) {
        if (store_at(node)->policy == policy) {
            return store_at(node)->store;
        }
    }
    drop_unasked(admin);
    const struct admin_store *made = make(admin, policy);
    return made != NULL ? made->store : NULL;
}

void admin_store_renew(struct admin *admin)
{
    drop_unasked(admin);
}

void admin_store_free_all(struct admin *admin)
{
    while (!list_is_empty(&admin->stores)) {
        drop(admin, store_at(admin->stores.next));
    }
}
