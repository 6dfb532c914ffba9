/* Happy path: created ─► the thread runs its own loop until it is woken to stop ─► joined.
 *
 * A reload restarts what it changes alone. With another store that is all. With the same store the
 * loop and the syncs stay, so that nothing is forgotten: the thread is joined, the tenants follow
 * the policy, and another thread runs the loop. */

#include "app/serve/reload.h"

#include <string.h>

#include "base/log.h"
#include "policy/compare.h"
#include "policy/key.h"
#include "policy/policy.h"

static const char MODULE[] = "app.replicas";

static void on_stop(void *context)
{
    const struct replicas *replicas = context;
    loop_stop(replicas->loop);
}

static void *run(void *context)
{
    const struct replicas *replicas = context;
    if (loop_run(replicas->loop) != STATUS_OK) {
        log_error(MODULE,
                  "bans and tenants are not synchronized any more: those that are known hold", "%s",
                  "");
    }
    return NULL;
}

static enum status start_thread(struct replicas *replicas)
{
    replicas->is_running = pthread_create(&replicas->thread, NULL, run, replicas) == 0;
    return replicas->is_running ? STATUS_OK : STATUS_NO_MEMORY;
}

static void join_thread(struct replicas *replicas)
{
    if (replicas->is_running) {
        wakeup_signal(&replicas->stop);
        pthread_join(replicas->thread, NULL);
        replicas->is_running = false;
    }
}

static void stop(struct replicas *replicas)
{
    join_thread(replicas);
    if (replicas->loop != NULL) {
        replica_sync_free(replicas->bans_sync);
        replica_sync_free(replicas->tenants_sync);
        wakeup_close(&replicas->stop);
        loop_free(replicas->loop);
        replicas->bans_sync = NULL;
        replicas->tenants_sync = NULL;
        replicas->loop = NULL;
    }
}

static enum status sync_bans(struct replicas *replicas)
{
    return stores_sync(replicas->plan, replicas->loop, &BANS_TABLE, bans_replica(replicas->bans),
                       replicas->bans, &replicas->bans_sync);
}

/* As the policy in force wants it. Its keys may be others than those of the former one. */
static enum status sync_tenants(struct replicas *replicas)
{
    enum status status = STATUS_OK;
    if (!replicas->active->policy->has_tenants) {
        replica_sync_free(replicas->tenants_sync);
        replicas->tenants_sync = NULL;
    } else if (replicas->tenants_sync != NULL) {
        replica_sync_read_all(replicas->tenants_sync);
    } else {
        status = stores_sync(replicas->plan, replicas->loop, &TENANTS_TABLE,
                             tenants_replica(replicas->tenants), replicas->tenants,
                             &replicas->tenants_sync);
    }
    return status;
}

static enum status start(struct replicas *replicas)
{
    replicas->stop.fd = -1;
    enum status status = loop_new(&replicas->loop);
    if (status == STATUS_OK) {
        status = wakeup_init(&replicas->stop, replicas->loop, on_stop, replicas);
    }
    if (status == STATUS_OK) {
        status = sync_bans(replicas);
    }
    if (status == STATUS_OK) {
        status = sync_tenants(replicas);
    }
    if (status == STATUS_OK) {
        status = start_thread(replicas);
    }
    if (status != STATUS_OK) {
        stop(replicas);
    }
    return status;
}

static void leave_plan(struct replicas *replicas)
{
    stop(replicas);
    if (replicas->plan != NULL) {
        store_plan_leave(replicas->plan);
        replicas->plan = NULL;
    }
}

/* --- keys of tenants --- */

static bool resolve_tenant(void *context, struct span field, struct tenant_key *key)
{
    struct key_given given;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (!policy_parse_tenant(context, field, &given, &problem)) {
        return false;
    }
    memcpy(key->hash, given.hash, sizeof(key->hash));
    memcpy(key->identity, given.identity, given.len);
    key->len = given.len;
    return true;
}

static void follow_policy(struct replicas *replicas, struct active_policy *active)
{
    if (active != NULL) {
        active_policy_acquire(active);
        tenants_set_resolver(replicas->tenants, resolve_tenant, active->policy);
    } else {
        tenants_set_resolver(replicas->tenants, NULL, NULL);
    }
    if (replicas->active != NULL) {
        active_policy_release(replicas->active);
    }
    replicas->active = active;
}

/* --- life --- */

/* The store of @active is not asked yet, or was asked in another way. */
static enum status follow_store(struct replicas *replicas, struct active_policy *active)
{
    struct store_plan *plan = store_plan_join(active->plan); /* before the former one is left */
    const bool is_same_redis =
        replicas->plan != NULL && compare_redis(&replicas->plan->section, &plan->section);
    leave_plan(replicas);
    if (!is_same_redis) {
        replica_life(bans_replica(replicas->bans))->len = 0; /* bans of another are not lost here */
    }
    replicas->plan = plan;
    follow_policy(replicas, active);
    return plan->section.kind == STORE_REDIS ? start(replicas) : STATUS_OK;
}

/* The store stays as it is. */
static enum status follow_tenants(struct replicas *replicas, struct active_policy *active)
{
    join_thread(replicas);
    follow_policy(replicas, active);
    enum status status = sync_tenants(replicas);
    if (status == STATUS_OK) {
        status = start_thread(replicas);
    }
    if (status != STATUS_OK) {
        stop(replicas);
    }
    return status;
}

enum status replicas_follow(struct replicas *replicas, struct active_policy *active)
{
    const bool is_redis = active->plan->section.kind == STORE_REDIS;
    const bool has_tenants = active->policy->has_tenants || replicas->tenants_sync != NULL;
    bans_set_max(replicas->bans, active->policy->max.bans);
    if (replicas->plan != active->plan || is_redis != replicas->is_running) {
        return follow_store(replicas, active);
    }
    if (is_redis && has_tenants) {
        return follow_tenants(replicas, active);
    }
    follow_policy(replicas, active);
    return STATUS_OK;
}

enum status replicas_open(struct replicas *replicas, struct active_policy *active)
{
    *replicas = (struct replicas){.bans = NULL};
    enum status status = bans_new(active->policy->max.bans, &replicas->bans);
    if (status == STATUS_OK) {
        status = tenants_new(TENANTS_MAX, &replicas->tenants);
    }
    if (status == STATUS_OK) {
        status = replicas_follow(replicas, active);
    }
    if (status != STATUS_OK) {
        log_error(MODULE, "no memory for bans and tenants", "%s", "");
        replicas_close(replicas);
    }
    return status;
}

void replicas_close(struct replicas *replicas)
{
    leave_plan(replicas);
    if (replicas->tenants != NULL) {
        follow_policy(replicas, NULL);
    }
    tenants_free(replicas->tenants);
    bans_free(replicas->bans);
    replicas->tenants = NULL;
    replicas->bans = NULL;
}
