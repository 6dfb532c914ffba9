#include "proxy/regime.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "limit/limit.h"
#include "proxy/exchange.h"
#include "proxy/settlement.h"
#include "proxy/worker.h"

enum { LOOK_US = 1000 * 1000 };

/* --- slots --- */

/* Three times a lease: two renewals may be lost. */
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
    return shortest_us / 3;
}

static void on_renewal(void *context)
{
    struct regime *regime = context;
    for (struct list *node = regime->slot_holders.next; node != &regime->slot_holders;
         node = node->next) {
        const struct exchange *exchange = CONTAINER_OF(node, struct exchange, slot_node);
        settlement_renew(&exchange->admission, regime->store);
    }
    timer_arm(&regime->renew_timer, regime->renew_us);
}

/* --- life --- */

/* No look may come later than what it looks for. */
static uint64_t look_us(const struct timeouts_section *timeouts)
{
    const uint64_t shortest_us =
        timeouts->idle_us < timeouts->head_us ? timeouts->idle_us : timeouts->head_us;
    return shortest_us < LOOK_US ? shortest_us : LOOK_US;
}

static enum status init_timers(struct regime *regime, struct loop *loop)
{
    const struct timeouts_section *timeouts = &regime->policy->timeouts;
    enum status status = timeout_queue_init(&regime->head_timeouts, loop, timeouts->head_us);
    if (status == STATUS_OK) {
        status = timeout_queue_init(&regime->idle_timeouts, loop, timeouts->idle_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&regime->tunnel_timeouts, loop, timeouts->tunnel_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&regime->look_timeouts, loop, look_us(timeouts));
    }
    if (status == STATUS_OK) {
        status = timer_init(&regime->renew_timer, loop, on_renewal, regime);
    }
    if (status == STATUS_OK && regime->renew_us > 0) {
        timer_arm(&regime->renew_timer, regime->renew_us);
    }
    return status;
}

/* What @before has of the upstream of that name; NULL: nothing. */
static struct upstream_group *find_group(const struct regime *before, struct span name)
{
    for (size_t i = 0; before != NULL && i < before->n_upstreams; i++) {
        if (span_equals(before->upstreams[i]->spec->name, name)) {
            return before->upstreams[i];
        }
    }
    return NULL;
}

static enum status init_upstream(struct regime *regime, const struct regime *before, size_t i)
{
    const struct policy *policy = regime->policy;
    struct upstream_process *process = regime->edition->upstreams[i];
    struct upstream_group *group = find_group(before, policy->upstreams[i].name);
    if (group != NULL && group->process == process) {
        regime->upstreams[i] = upstream_group_join(group);
        return STATUS_OK;
    }
    return upstream_group_new(regime->worker, policy, i, process, group, &regime->upstreams[i]);
}

static enum status init_upstreams(struct regime *regime, const struct regime *before)
{
    const struct policy *policy = regime->policy;
    regime->upstreams = calloc(policy->n_upstreams + 1, sizeof(regime->upstreams[0]));
    if (regime->upstreams == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status = init_upstream(regime, before, i);
        if (status != STATUS_OK) {
            return status;
        }
        regime->n_upstreams++;
    }
    return STATUS_OK;
}

static enum status init_stock(struct regime *regime, const struct regime *before)
{
    if (before != NULL && stock_fits(before->stock, regime->policy)) {
        regime->stock = stock_join(before->stock);
        return STATUS_OK;
    }
    regime->stock = stock_new(regime->policy);
    return regime->stock == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status init(struct regime *regime, const struct regime *before)
{
    struct worker *worker = regime->worker;
    enum status status = init_stock(regime, before);
    if (status == STATUS_OK) {
        status = init_timers(regime, worker->loop);
    }
    if (status == STATUS_OK) {
        status = init_upstreams(regime, before);
    }
    if (status == STATUS_OK) {
        status = store_stack_open(worker, regime->edition, before != NULL ? before->stack : NULL,
                                  &regime->stack);
    }
    if (status == STATUS_OK) {
        regime->store = regime->stack->store;
    }
    return status;
}

static void on_death(struct loop_task *task)
{
    regime_free(CONTAINER_OF(task, struct regime, death));
}

enum status regime_new(struct worker *worker, struct edition *edition, struct regime **regime)
{
    struct regime *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->worker = worker;
    created->edition = edition_join(edition);
    created->policy = edition->policy;
    created->renew_us = renewal_us(edition->policy);
    list_init(&created->node);
    list_init(&created->slot_holders);
    key_hashes_init(&created->key_hashes);
    loop_task_init(&created->death, on_death);
    const enum status status = init(created, worker->regime);
    if (status != STATUS_OK) {
        regime_free(created);
        return status;
    }
    *regime = created;
    return STATUS_OK;
}

bool regime_is_ready(const struct regime *regime)
{
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        if (!upstream_group_is_ready(regime->upstreams[i])) {
            return false;
        }
    }
    return store_is_ready(regime->store);
}

/* --- in force --- */

static bool has_group(const struct regime *regime, const struct upstream_group *group)
{
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        if (regime->upstreams[i] == group) {
            return true;
        }
    }
    return false;
}

static void retire(struct regime *before, const struct regime *regime)
{
    for (size_t i = 0; i < before->n_upstreams; i++) {
        if (!has_group(regime, before->upstreams[i])) {
            upstream_group_retire(before->upstreams[i]);
        }
    }
    before->is_over = true;
    if (before->n_users == 0) {
        regime_end(before);
    }
}

void regime_begin(struct regime *regime)
{
    struct worker *worker = regime->worker;
    struct regime *before = worker->regime;
    worker->regime = regime;
    list_push_back(&worker->regimes, &regime->node);
    if (before != NULL) {
        retire(before, regime);
    }
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        if (upstream_group_begin(regime->upstreams[i], regime->policy, i) != STATUS_OK) {
            log_error("proxy.worker", "no memory for health checks: none are made", "upstream=%.*s",
                      SPAN_ARGS(regime->upstreams[i]->spec->name));
        }
    }
}

void regime_on_wake(struct worker *worker)
{
    for (struct list *node = worker->regimes.next; node != &worker->regimes; node = node->next) {
        const struct regime *regime = CONTAINER_OF(node, struct regime, node);
        for (size_t i = 0; i < regime->n_upstreams; i++) {
            if (regime->upstreams[i]->is_limited) {
                upstream_group_on_wake(regime->upstreams[i]);
            }
        }
    }
}

void regime_close_idle(struct worker *worker)
{
    for (struct list *node = worker->regimes.next; node != &worker->regimes; node = node->next) {
        const struct regime *regime = CONTAINER_OF(node, struct regime, node);
        for (size_t i = 0; i < regime->n_upstreams; i++) {
            upstream_group_close_idle(regime->upstreams[i]);
        }
    }
}

/* --- the end --- */

void regime_end(struct regime *regime)
{
    loop_at_turn_end(regime->worker->loop, &regime->death);
}

/* @group borrows from @regime's policy, or from that of another regime that it
 * is in: of one that stays. */
static void lend_to(struct upstream_group *group, const struct worker *worker)
{
    for (struct list *node = worker->regimes.prev; node != &worker->regimes; node = node->prev) {
        const struct regime *regime = CONTAINER_OF(node, struct regime, node);
        for (size_t i = 0; i < regime->n_upstreams; i++) {
            if (regime->upstreams[i] == group) {
                upstream_group_refer_to(group, regime->policy, i);
                return;
            }
        }
    }
}

static void leave_group(const struct regime *regime, size_t i)
{
    struct upstream_group *group = regime->upstreams[i];
    if (group->n_users > 1 && group->spec == &regime->policy->upstreams[i]) {
        lend_to(group, regime->worker);
    }
    upstream_group_leave(group);
}

void regime_free(struct regime *regime)
{
    if (regime == NULL) {
        return;
    }
    assert(regime->n_users == 0);
    list_remove(&regime->node);
    loop_task_cancel(&regime->death);
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        leave_group(regime, i);
    }
    free(regime->upstreams);
    store_stack_leave(regime->worker, regime->stack, regime->edition);
    timer_close(&regime->renew_timer);
    timeout_queue_close(&regime->head_timeouts);
    timeout_queue_close(&regime->idle_timeouts);
    timeout_queue_close(&regime->tunnel_timeouts);
    timeout_queue_close(&regime->look_timeouts);
    stock_leave(regime->stock);
    edition_leave(regime->edition);
    free(regime);
}

void regime_free_all(struct worker *worker)
{
    while (!list_is_empty(&worker->regimes)) {
        regime_free(CONTAINER_OF(worker->regimes.next, struct regime, node));
    }
    worker->regime = NULL;
}
