/* Happy path: listeners are opened before the thread starts; the thread runs the loop
 * until it is stopped. Only that thread uses the loop: other threads signal it through its
 * eventfd. */

#include "admin/admin.h"

#include <jansson.h>
#include <stdlib.h>

#include "admin/internal.h"
#include "base/clock.h"
#include "proxy/recording.h"
#include "proxy/reload_requests.h"
#include "tls/tls_stream.h"

/* --- the stores that requests query: one per policy, since a reload may happen meanwhile --- */

static struct admin_store *store_at(struct list *node)
{
    return CONTAINER_OF(node, struct admin_store, node);
}

/* Whether a request that began under @policy is in progress. */
static bool is_asked(const struct admin *admin, const struct policy *policy)
{
    const struct list *const heads[] = {&admin->admin_listeners, &admin->leaving};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        for (struct list *node = heads[i]->next; node != heads[i]; node = node->next) {
            if (admin_connections_have_request(CONTAINER_OF(node, struct admin_listener, node),
                                               policy)) {
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

static void free_stores(struct admin *admin)
{
    while (!list_is_empty(&admin->stores)) {
        drop(admin, store_at(admin->stores.next));
    }
}

/* --- life --- */

static void on_stop(void *context)
{
    struct admin *admin = context;
    loop_stop(admin->loop);
}

/* Go by the policy in force from now on, where it is another. One whose tokens cannot be read
 * leaves things as they are. */
static void renew(struct admin *admin)
{
    const struct admin_options *options = &admin->options;
    const struct policy *policy = options->take_policy(options->context);
    struct access_rules rules;
    const bool is_new = policy != admin->policy;
    if (!is_new || access_rules_load(&policy->admin, &rules) != STATUS_OK) {
        if (is_new) {
            log_error("admin", "the admin API keeps its tokens and addresses", "%s", "");
        }
        options->give_policy(options->context, policy);
        return;
    }
    (void)!admin_listeners_renew(admin, policy); /* failures were logged */
    admin->rules = rules;
    admin_viewers_send(admin, SPAN("")); /* their token may hold no longer */
    options->give_policy(options->context, admin->policy);
    admin->policy = policy;
    drop_unasked(admin);
}

static void on_reloaded(void *context)
{
    struct admin *admin = context;
    renew(admin);
    reload_on_ended(admin);
}

enum status admin_new(const struct admin_options *options, struct admin **admin)
{
    struct admin *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    json_object_seed(0); /* before other threads make objects */
    created->options = *options;
    created->started_us = clock_monotonic_us();
    created->stop.fd = -1;
    created->reloaded.fd = -1;
    list_init(&created->reloads);
    list_init(&created->admin_listeners);
    list_init(&created->leaving);
    list_init(&created->stores);
    created->policy = options->take_policy(options->context);
    enum status status = access_rules_load(&created->policy->admin, &created->rules);
    if (status == STATUS_OK) {
        status = loop_new(&created->loop);
    }
    if (status == STATUS_OK) {
        child_set_init(&created->children, created->loop);
        status = wakeup_init(&created->stop, created->loop, on_stop, created);
    }
    if (status == STATUS_OK) {
        status = wakeup_init(&created->reloaded, created->loop, on_reloaded, created);
    }
    if (status == STATUS_OK) {
        admin_history_start(created);
        status = admin_listeners_renew(created, created->policy);
    }
    if (status != STATUS_OK) {
        admin_free(created);
        return status;
    }
    *admin = created;
    return STATUS_OK;
}

static void *run(void *context)
{
    struct admin *admin = context;
    if (loop_run(admin->loop) != STATUS_OK) {
        log_error("admin", "the event loop failed", "hint=\"the proxy serves on; restart it\"");
    }
    return NULL;
}

enum status admin_start(struct admin *admin)
{
    admin_listeners_log(admin); /* before another thread uses them */
    reload_requests_listen(admin->options.requests, &admin->reloaded);
    admin->is_running = pthread_create(&admin->thread, NULL, run, admin) == 0;
    return admin->is_running ? STATUS_OK : STATUS_NO_MEMORY;
}

void admin_stop(struct admin *admin)
{
    reload_requests_listen(admin->options.requests, NULL);
    if (admin->is_running) {
        wakeup_signal(&admin->stop);
        pthread_join(admin->thread, NULL);
        admin->is_running = false;
    }
}

void admin_free(struct admin *admin)
{
    if (admin == NULL) {
        return;
    }
    admin_listeners_close(admin); /* abandons the children of requests */
    child_set_close(&admin->children);
    recording_forget();
    timer_close(&admin->each_second);
    admin_history_forget_text(admin);
    history_close(&admin->history);
    tls_worker_free(admin->tls);
    free_stores(admin);
    wakeup_close(&admin->stop);
    wakeup_close(&admin->reloaded);
    loop_free(admin->loop);
    admin->options.give_policy(admin->options.context, admin->policy);
    free(admin);
}
