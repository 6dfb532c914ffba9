#include "proxy/server/worker_config.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "limit/limit.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/upstream/upstream_group.h"
#include "proxy/upstream/upstream_server.h"

enum {
    LOOK_US = 1000 * 1000,
    UPLOAD_CHECK_US = 50 * 1000,
    DOWNLOAD_CHECK_US = 250 * 1000,
    RENEWALS_PER_LEASE = 4,     /* on average; none comes later than after a third of the lease */
    RENEW_EACH_US = 16 * 1000,  /* at least, however short the phases of renewals are */
    RENEW_AGAIN_US = 50 * 1000, /* while renewals are due that could not be sent */
};

/* --- slots --- */

/* Each slot is renewed when a third of its lease has passed at the latest, with what a timer is
 * late, so two renewals may be lost: see slot_holders_renew(). */
static uint64_t renewal_us(const struct policy *policy)
{
    uint64_t shortest_us = 0;
    for (size_t i = 0; i < policy->n_limits; i++) {
        const struct limit *limit = &policy->limits[i];
        const uint64_t lease_us = limit_us(limit, limit->params.lease);
        if (limit->algorithm->has_slots && (shortest_us == 0 || lease_us < shortest_us)) {
            shortest_us = lease_us;
        }
    }
    return shortest_us / RENEWALS_PER_LEASE;
}

static uint64_t phase_us_of(const struct worker_config *worker_config)
{
    const uint64_t phase_us = worker_config->renew_us / SLOT_PHASES;
    return phase_us > RENEW_EACH_US ? phase_us : RENEW_EACH_US;
}

static void on_renewal(void *context)
{
    struct worker_config *worker_config = context;
    const bool are_left =
        slot_holders_renew(&worker_config->config.slot_holders, worker_config->config.store,
                           clock_monotonic_us(), worker_config->renew_us);
    const uint64_t phase_us = phase_us_of(worker_config);
    slot_holders_tick(&worker_config->config.slot_holders,
                      are_left && phase_us > RENEW_AGAIN_US ? RENEW_AGAIN_US : phase_us);
}

/* --- life --- */

/* The interval of client checks: at most the shortest timeout that they watch. */
static uint64_t look_us(const struct timeouts_section *timeouts)
{
    const uint64_t shortest_us =
        timeouts->idle_us < timeouts->head_us ? timeouts->idle_us : timeouts->head_us;
    return shortest_us < LOOK_US ? shortest_us : LOOK_US;
}

static void init_timers(struct worker_config *worker_config, struct loop *loop)
{
    struct exchange_config *config = &worker_config->config;
    const struct timeouts_section *timeouts = &config->policy->timeouts;
    timeout_queue_init(&config->head_timeouts, loop, timeouts->head_us);
    timeout_queue_init(&config->idle_timeouts, loop, timeouts->idle_us);
    timeout_queue_init(&config->tunnel_timeouts, loop, timeouts->tunnel_us);
    timeout_queue_init(&config->client_check_timeouts, loop, look_us(timeouts));
    timeout_queue_init(&config->upload_check_timeouts, loop, UPLOAD_CHECK_US);
    const uint64_t check_us = look_us(timeouts);
    timeout_queue_init(&config->download_check_timeouts, loop,
                       check_us < DOWNLOAD_CHECK_US ? check_us : DOWNLOAD_CHECK_US);
    slot_holders_init(&config->slot_holders, loop, on_renewal, worker_config,
                      phase_us_of(worker_config));
}

/* The group of the upstream @name in @before; NULL: there is none. */
static struct upstream_group *find_group(const struct worker_config *before, struct span name)
{
    for (size_t i = 0; before != NULL && i < before->config.n_upstreams; i++) {
        if (span_equals(before->config.upstreams[i]->spec->name, name)) {
            return before->config.upstreams[i];
        }
    }
    return NULL;
}

static enum status init_upstream(struct worker_config *worker_config,
                                 const struct worker_config *before, size_t i)
{
    const struct policy *policy = worker_config->config.policy;
    struct upstream_process *process = worker_config->generation->upstreams[i];
    struct upstream_group *group = find_group(before, policy->upstreams[i].name);
    if (group != NULL && group->process == process) {
        worker_config->config.upstreams[i] = upstream_group_join(group);
        return STATUS_OK;
    }
    return upstream_group_new(worker_config->set->env, policy, i, process, group,
                              &worker_config->config.upstreams[i]);
}

static enum status init_upstreams(struct worker_config *worker_config,
                                  const struct worker_config *before)
{
    const struct policy *policy = worker_config->config.policy;
    worker_config->config.upstreams =
        calloc(policy->n_upstreams + 1, sizeof(worker_config->config.upstreams[0]));
    if (worker_config->config.upstreams == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status = init_upstream(worker_config, before, i);
        if (status != STATUS_OK) {
            return status;
        }
        worker_config->config.n_upstreams++;
    }
    return STATUS_OK;
}

static enum status init_pools(struct worker_config *worker_config,
                              const struct worker_config *before)
{
    const size_t bytes = exchange_bytes(worker_config->config.policy);
    if (before != NULL &&
        buffer_pools_fits(before->config.pools, worker_config->config.policy, bytes)) {
        worker_config->config.pools = buffer_pools_acquire(before->config.pools);
        return STATUS_OK;
    }
    worker_config->config.pools = buffer_pools_new(worker_config->config.policy, bytes);
    return worker_config->config.pools == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status init(struct worker_config *worker_config, const struct worker_config *before)
{
    struct proxy_env *env = worker_config->set->env;
    enum status status = init_pools(worker_config, before);
    init_timers(worker_config, env->loop);
    if (status == STATUS_OK) {
        status = init_upstreams(worker_config, before);
    }
    if (status == STATUS_OK) {
        status = store_stack_open(env, worker_config->generation,
                                  before != NULL ? before->stack : NULL, &worker_config->stack);
    }
    if (status == STATUS_OK) {
        worker_config->config.store = worker_config->stack->store;
    }
    return status;
}

static void on_death(struct loop_task *task)
{
    worker_config_free(CONTAINER_OF(task, struct worker_config, config.death));
}

enum status worker_config_new(struct worker_config_set *set, struct config_generation *generation,
                              struct worker_config **worker_config)
{
    struct worker_config *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->set = set;
    created->config.env = set->env;
    created->generation = config_generation_acquire(generation);
    created->config.policy = generation->policy;
    created->renew_us = renewal_us(generation->policy);
    list_init(&created->node);
    key_hashes_init(&created->config.key_hashes);
    loop_task_init(&created->config.death, on_death);
    const enum status status = init(created, set->in_force);
    if (status != STATUS_OK) {
        worker_config_free(created);
        return status;
    }
    *worker_config = created;
    return STATUS_OK;
}

bool worker_config_is_ready(const struct worker_config *worker_config)
{
    for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
        if (!upstream_group_is_ready(worker_config->config.upstreams[i])) {
            return false;
        }
    }
    return store_is_ready(worker_config->config.store);
}

/* --- in force --- */

static bool has_group(const struct worker_config *worker_config, const struct upstream_group *group)
{
    for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
        if (worker_config->config.upstreams[i] == group) {
            return true;
        }
    }
    return false;
}

static void retire(struct worker_config *before, const struct worker_config *worker_config)
{
    for (size_t i = 0; i < before->config.n_upstreams; i++) {
        if (!has_group(worker_config, before->config.upstreams[i])) {
            upstream_group_retire(before->config.upstreams[i]);
        }
    }
    before->config.is_over = true;
    if (before->config.n_users == 0) {
        loop_at_iteration_end(before->config.env->loop, &before->config.death);
    }
}

void worker_config_begin(struct worker_config *worker_config)
{
    struct worker_config_set *set = worker_config->set;
    struct worker_config *before = set->in_force;
    set->in_force = worker_config;
    set->env->config = &worker_config->config;
    set->env->body_buffers.max_bytes = worker_config->config.policy->max.buffered_bytes;
    list_push_back(&set->all, &worker_config->node);
    if (before != NULL) {
        retire(before, worker_config);
    }
    for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
        if (upstream_group_begin(worker_config->config.upstreams[i], worker_config->config.policy,
                                 i) != STATUS_OK) {
            log_error("proxy.worker", "no memory for health checks: none are made", "upstream=%.*s",
                      SPAN_ARGS(worker_config->config.upstreams[i]->spec->name));
        }
    }
}

void worker_config_set_on_wake(struct worker_config_set *set)
{
    for (struct list *node = set->all.next; node != &set->all; node = node->next) {
        const struct worker_config *worker_config = CONTAINER_OF(node, struct worker_config, node);
        for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
            if (worker_config->config.upstreams[i]->is_limited) {
                upstream_group_on_wake(worker_config->config.upstreams[i]);
            }
        }
    }
}

void worker_config_set_close_idle(struct worker_config_set *set)
{
    for (struct list *node = set->all.next; node != &set->all; node = node->next) {
        const struct worker_config *worker_config = CONTAINER_OF(node, struct worker_config, node);
        for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
            upstream_group_close_idle(worker_config->config.upstreams[i]);
        }
    }
}

/* --- the end --- */

/* @group borrows from a policy that goes: let it borrow from that of another worker configuration
 * that uses it. */
static void lend_to(struct upstream_group *group, const struct worker_config_set *set)
{
    for (struct list *node = set->all.prev; node != &set->all; node = node->prev) {
        const struct worker_config *worker_config = CONTAINER_OF(node, struct worker_config, node);
        for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
            if (worker_config->config.upstreams[i] == group) {
                upstream_group_refer_to(group, worker_config->config.policy, i);
                return;
            }
        }
    }
}

static void leave_group(const struct worker_config *worker_config, size_t i)
{
    struct upstream_group *group = worker_config->config.upstreams[i];
    if (group->n_users > 1 && group->spec == &worker_config->config.policy->upstreams[i]) {
        lend_to(group, worker_config->set);
    }
    upstream_group_leave(group);
}

void worker_config_free(struct worker_config *worker_config)
{
    if (worker_config == NULL) {
        return;
    }
    assert(worker_config->config.n_users == 0);
    list_remove(&worker_config->node);
    loop_task_cancel(&worker_config->config.death);
    for (size_t i = 0; i < worker_config->config.n_upstreams; i++) {
        leave_group(worker_config, i);
    }
    free(worker_config->config.upstreams);
    store_stack_leave(&worker_config->set->dying_stacks, worker_config->stack,
                      worker_config->generation);
    slot_holders_close(&worker_config->config.slot_holders);
    timeout_queue_close(&worker_config->config.head_timeouts);
    timeout_queue_close(&worker_config->config.idle_timeouts);
    timeout_queue_close(&worker_config->config.tunnel_timeouts);
    timeout_queue_close(&worker_config->config.client_check_timeouts);
    timeout_queue_close(&worker_config->config.upload_check_timeouts);
    timeout_queue_close(&worker_config->config.download_check_timeouts);
    buffer_pools_release(worker_config->config.pools);
    config_generation_release(worker_config->generation);
    free(worker_config);
}

/* --- all of a worker's --- */

void worker_config_set_init(struct worker_config_set *set, struct proxy_env *env)
{
    *set = (struct worker_config_set){.env = env};
    list_init(&set->all);
    list_init(&set->dying_stacks.stacks);
}

void worker_config_set_close(struct worker_config_set *set)
{
    while (!list_is_empty(&set->all)) {
        worker_config_free(CONTAINER_OF(set->all.next, struct worker_config, node));
    }
    set->in_force = NULL;
    set->env->config = NULL;
    dying_stacks_close(&set->dying_stacks);
}

bool worker_config_set_is_settled(const struct worker_config_set *set)
{
    for (struct list *node = set->all.next; node != &set->all; node = node->next) {
        if (!store_is_settled(CONTAINER_OF(node, struct worker_config, node)->config.store)) {
            return false;
        }
    }
    return dying_stacks_are_settled(&set->dying_stacks);
}
