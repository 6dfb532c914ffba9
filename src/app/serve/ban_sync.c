/* Happy path: created ─► the thread runs its own loop until it is woken to stop ─► joined. */

#include "app/serve/ban_sync.h"

#include "base/log.h"

static void on_stop(void *context)
{
    const struct ban_sync *sync = context;
    loop_stop(sync->loop);
}

static void *run(void *context)
{
    const struct ban_sync *sync = context;
    if (loop_run(sync->loop) != STATUS_OK) {
        log_error("app.ban_sync", "bans are not watched any more: those that are known hold", "%s",
                  "");
    }
    return NULL;
}

static void stop(struct ban_sync *sync)
{
    if (sync->is_running) {
        wakeup_signal(&sync->stop);
        pthread_join(sync->thread, NULL);
        sync->is_running = false;
    }
    if (sync->loop != NULL) {
        replica_sync_free(sync->sync);
        wakeup_close(&sync->stop);
        loop_free(sync->loop);
        sync->sync = NULL;
        sync->loop = NULL;
    }
}

static enum status start(struct ban_sync *sync)
{
    sync->stop.fd = -1;
    enum status status = loop_new(&sync->loop);
    if (status == STATUS_OK) {
        status = wakeup_init(&sync->stop, sync->loop, on_stop, sync);
    }
    if (status == STATUS_OK) {
        status = stores_sync_bans(sync->plan, sync->loop, sync->bans, &sync->sync);
    }
    if (status == STATUS_OK && pthread_create(&sync->thread, NULL, run, sync) != 0) {
        status = STATUS_NO_MEMORY;
    }
    sync->is_running = status == STATUS_OK;
    if (status != STATUS_OK) {
        stop(sync);
    }
    return status;
}

static void leave_plan(struct ban_sync *sync)
{
    stop(sync);
    if (sync->plan != NULL) {
        store_plan_leave(sync->plan);
        sync->plan = NULL;
    }
}

enum status ban_sync_follow(struct ban_sync *sync, struct store_plan *plan,
                            const struct policy *policy)
{
    bans_set_max(sync->bans, policy->max.bans);
    if (sync->plan == plan && (sync->is_running || plan->section.kind != STORE_REDIS)) {
        return STATUS_OK;
    }
    leave_plan(sync);
    sync->plan = store_plan_join(plan);
    return plan->section.kind == STORE_REDIS ? start(sync) : STATUS_OK;
}

enum status ban_sync_open(struct ban_sync *sync, struct store_plan *plan,
                          const struct policy *policy)
{
    *sync = (struct ban_sync){.bans = NULL};
    enum status status = bans_new(policy->max.bans, &sync->bans);
    if (status == STATUS_OK) {
        status = ban_sync_follow(sync, plan, policy);
    }
    if (status != STATUS_OK) {
        log_error("app.ban_sync", "no memory for bans", "%s", "");
        ban_sync_close(sync);
    }
    return status;
}

void ban_sync_close(struct ban_sync *sync)
{
    leave_plan(sync);
    bans_free(sync->bans);
    sync->bans = NULL;
}
