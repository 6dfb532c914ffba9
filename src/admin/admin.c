/* Happy path: doors are opened before the thread starts; the thread runs the loop
 * until it is stopped. The loop is nobody else's: what other threads want of it, they
 * say through its eventfd. */

#include "admin/admin.h"

#include <jansson.h>
#include <stdlib.h>

#include "admin/internal.h"
#include "admin/reload_resource.h"
#include "proxy/reload_desk.h"

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
    (void)!admin_doors_renew(admin, policy); /* what failed was told */
    admin->rules = rules;
    options->give_policy(options->context, admin->policy);
    admin->policy = policy;
    admin_store_renew(admin);
}

static void on_reloaded(void *context)
{
    struct admin *admin = context;
    renew(admin);
    reload_resource_on_ended(admin);
}

enum status admin_new(const struct admin_options *options, struct admin **admin)
{
    struct admin *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    json_object_seed(0); /* before other threads make objects */
    created->options = *options;
    created->stop.fd = -1;
    created->reloaded.fd = -1;
    list_init(&created->reloads);
    list_init(&created->doors);
    list_init(&created->leaving);
    list_init(&created->stores);
    created->policy = options->take_policy(options->context);
    enum status status = access_rules_load(&created->policy->admin, &created->rules);
    if (status == STATUS_OK) {
        status = loop_new(&created->loop);
    }
    if (status == STATUS_OK) {
        status = wakeup_init(&created->stop, created->loop, on_stop, created);
    }
    if (status == STATUS_OK) {
        status = wakeup_init(&created->reloaded, created->loop, on_reloaded, created);
    }
    if (status == STATUS_OK) {
        status = admin_doors_renew(created, created->policy);
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
    admin_doors_log(admin); /* while they are nobody else's */
    reload_desk_listen(admin->options.desk, &admin->reloaded);
    admin->is_running = pthread_create(&admin->thread, NULL, run, admin) == 0;
    return admin->is_running ? STATUS_OK : STATUS_NO_MEMORY;
}

void admin_stop(struct admin *admin)
{
    reload_desk_listen(admin->options.desk, NULL);
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
    admin_doors_close(admin);
    admin_store_free_all(admin);
    wakeup_close(&admin->stop);
    wakeup_close(&admin->reloaded);
    loop_free(admin->loop);
    admin->options.give_policy(admin->options.context, admin->policy);
    free(admin);
}
