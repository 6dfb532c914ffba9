#include "proxy/regime.h"

#include <assert.h>
#include <stdlib.h>

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

static enum status init_upstreams(struct regime *regime)
{
    const struct policy *policy = regime->policy;
    regime->upstreams = calloc(policy->n_upstreams + 1, sizeof(regime->upstreams[0]));
    if (regime->upstreams == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status = upstream_group_new(
            regime->worker, policy, &regime->edition->upstreams[i], &regime->upstreams[i]);
        if (status != STATUS_OK) {
            return status;
        }
        regime->n_upstreams++;
    }
    return STATUS_OK;
}

static enum status init(struct regime *regime)
{
    const struct server_options *options = regime->edition->options;
    struct loop *loop = regime->worker->loop;
    regime->stock = stock_new(regime->policy);
    enum status status = regime->stock == NULL ? STATUS_NO_MEMORY : init_timers(regime, loop);
    if (status == STATUS_OK) {
        status = init_upstreams(regime);
    }
    if (status == STATUS_OK) {
        status = options->make_store(options->context, loop, &regime->worker->meters->store,
                                     &regime->store, &regime->store_is_shared);
    }
    return status;
}

enum status regime_new(struct worker *worker, struct edition *edition, struct regime **regime)
{
    struct regime *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->worker = worker;
    created->edition = edition;
    created->policy = edition->policy;
    created->renew_us = renewal_us(edition->policy);
    list_init(&created->slot_holders);
    const enum status status = init(created);
    if (status != STATUS_OK) {
        regime_free(created);
        return status;
    }
    *regime = created;
    return STATUS_OK;
}

void regime_on_wake(struct regime *regime)
{
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        if (regime->upstreams[i]->is_limited) {
            upstream_group_on_wake(regime->upstreams[i]);
        }
    }
}

void regime_close_idle(struct regime *regime)
{
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        upstream_group_close_idle(regime->upstreams[i]);
    }
}

void regime_free(struct regime *regime)
{
    if (regime == NULL) {
        return;
    }
    assert(regime->n_users == 0);
    if (!regime->store_is_shared) {
        store_free(regime->store);
    }
    for (size_t i = 0; i < regime->n_upstreams; i++) {
        upstream_group_free(regime->upstreams[i]);
    }
    free(regime->upstreams);
    timer_close(&regime->renew_timer);
    timeout_queue_close(&regime->head_timeouts);
    timeout_queue_close(&regime->idle_timeouts);
    timeout_queue_close(&regime->tunnel_timeouts);
    timeout_queue_close(&regime->look_timeouts);
    stock_leave(regime->stock);
    free(regime);
}
