/* Happy path: doors are opened before the thread starts; the thread runs the loop until it is stopped. The loop is
 * nobody else's: what other threads want of it, they say through its eventfd. */

#include "admin/admin.h"

#include <jansson.h>
#include <stdlib.h>

#include "admin/internal.h"
#include "store/store.h"

static void on_stop(void *context)
{
    struct admin *admin = context;
    loop_stop(admin->loop);
}

static enum status open_doors(struct admin *admin)
{
    const struct admin_section *section = &admin->policy->admin;
    for (size_t i = 0; i < section->n_listeners; i++) {
        const enum status status = admin_door_open(&admin->doors[i], admin, &section->listeners[i]);
        if (status != STATUS_OK) {
            return status;
        }
        admin->n_doors++;
    }
    return STATUS_OK;
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
    created->policy = options->take_policy(options->context);
    enum status status = access_rules_load(&created->policy->admin, &created->rules);
    if (status == STATUS_OK) {
        status = loop_new(&created->loop);
    }
    if (status == STATUS_OK) {
        status = wakeup_init(&created->stop, created->loop, on_stop, created);
    }
    if (status == STATUS_OK) {
        status = open_doors(created);
    }
    if (status != STATUS_OK) {
        admin_free(created);
        return status;
    }
    *admin = created;
    return STATUS_OK;
}

struct store *admin_store(struct admin *admin, const struct policy *policy)
{
    const struct admin_options *options = &admin->options;
    (void)policy; /* there is one */
    if (admin->store == NULL && options->make_store(options->context, admin->loop, &admin->store,
                                                    &admin->store_is_shared) != STATUS_OK) {
        admin->store = NULL;
    }
    return admin->store;
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
    admin->is_running = pthread_create(&admin->thread, NULL, run, admin) == 0;
    for (size_t i = 0; i < admin->n_doors && admin->is_running; i++) {
        admin_door_log(&admin->doors[i]);
    }
    return admin->is_running ? STATUS_OK : STATUS_NO_MEMORY;
}

void admin_stop(struct admin *admin)
{
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
    for (size_t i = 0; i < admin->n_doors; i++) {
        admin_door_close(&admin->doors[i]);
    }
    if (!admin->store_is_shared) {
        store_free(admin->store);
    }
    wakeup_close(&admin->stop);
    loop_free(admin->loop);
    admin->options.give_policy(admin->options.context, admin->policy);
    free(admin);
}
