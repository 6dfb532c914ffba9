/* Happy path: made ─► the thread turns a loop of its own until it is woken to stop ─► joined. */

#include "app/ban_keeper.h"

#include "base/log.h"

static void on_stop(void *context)
{
    const struct ban_keeper *keeper = context;
    loop_stop(keeper->loop);
}

static void *run(void *context)
{
    const struct ban_keeper *keeper = context;
    if (loop_run(keeper->loop) != STATUS_OK) {
        log_error("app.ban_keeper", "bans are not watched any more: those that are known hold",
                  "%s", "");
    }
    return NULL;
}

static void stop(struct ban_keeper *keeper)
{
    if (keeper->is_running) {
        wakeup_signal(&keeper->stop);
        pthread_join(keeper->thread, NULL);
        keeper->is_running = false;
    }
    if (keeper->loop != NULL) {
        ban_watch_free(keeper->watch);
        wakeup_close(&keeper->stop);
        loop_free(keeper->loop);
        keeper->watch = NULL;
        keeper->loop = NULL;
    }
}

static enum status start(struct ban_keeper *keeper)
{
    keeper->stop.fd = -1;
    enum status status = loop_new(&keeper->loop);
    if (status == STATUS_OK) {
        status = wakeup_init(&keeper->stop, keeper->loop, on_stop, keeper);
    }
    if (status == STATUS_OK) {
        status = stores_watch_bans(keeper->plan, keeper->loop, keeper->bans, &keeper->watch);
    }
    if (status == STATUS_OK && pthread_create(&keeper->thread, NULL, run, keeper) != 0) {
        status = STATUS_NO_MEMORY;
    }
    keeper->is_running = status == STATUS_OK;
    if (status != STATUS_OK) {
        stop(keeper);
    }
    return status;
}

static void leave_plan(struct ban_keeper *keeper)
{
    stop(keeper);
    if (keeper->plan != NULL) {
        store_plan_leave(keeper->plan);
        keeper->plan = NULL;
    }
}

enum status ban_keeper_follow(struct ban_keeper *keeper, struct store_plan *plan,
                              const struct policy *policy)
{
    bans_set_max(keeper->bans, policy->max.bans);
    if (keeper->plan == plan && (keeper->is_running || plan->section.kind != STORE_REDIS)) {
        return STATUS_OK;
    }
    leave_plan(keeper);
    keeper->plan = store_plan_join(plan);
    return plan->section.kind == STORE_REDIS ? start(keeper) : STATUS_OK;
}

enum status ban_keeper_open(struct ban_keeper *keeper, struct store_plan *plan,
                            const struct policy *policy)
{
    *keeper = (struct ban_keeper){.bans = NULL};
    enum status status = bans_new(policy->max.bans, &keeper->bans);
    if (status == STATUS_OK) {
        status = ban_keeper_follow(keeper, plan, policy);
    }
    if (status != STATUS_OK) {
        log_error("app.ban_keeper", "no memory for bans", "%s", "");
        ban_keeper_close(keeper);
    }
    return status;
}

void ban_keeper_close(struct ban_keeper *keeper)
{
    leave_plan(keeper);
    bans_free(keeper->bans);
    keeper->bans = NULL;
}
