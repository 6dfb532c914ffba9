/* Happy path: everything is made before the thread starts; the thread runs the loop until it is drained.
 *
 * Draining: listeners accept what is queued and close, idle connections close (new ones after a moment, since
 * their first request is on its way), the others end with their answer; after timeouts.drain what is left is
 * cut. */

#include "proxy/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "proxy/downstream.h"
#include "proxy/exchange.h"
#include "proxy/linger.h"
#include "proxy/settlement.h"

enum {
    /* Beyond the largest head that is accepted: what we add to it on its way. */
    HEAD_ROOM_BYTES = 12 * 1024,
    HEAD_BLOCKS_KEPT = 1024,
    BODY_BLOCKS_KEPT = 128,
    EXCHANGES_KEPT = 1024,
    DOWNSTREAMS_KEPT = 1024,
    GRACE_US = 1000 * 1000, /* more than a round trip to anywhere */
    LOOK_US = 1000 * 1000,
};

struct span worker_date(struct worker *worker)
{
    const uint64_t wall_us = clock_wall_us();
    if (wall_us / 1000000 != worker->date_second) {
        worker->date_second = wall_us / 1000000;
        message_write_date(worker->date, wall_us);
    }
    return span_of(worker->date, sizeof(worker->date));
}

void worker_new_request_id(struct worker *worker, uint8_t id[16])
{
    /* Counting up in the second half: the first stays the worker's. */
    for (size_t i = sizeof(worker->request_id); i-- > 8 && ++worker->request_id[i] == 0;) {
    }
    memcpy(id, worker->request_id, sizeof(worker->request_id));
}

/* --- slots --- */

uint64_t worker_new_slots(struct worker *worker)
{
    worker->next_slot += LIMITS_PER_ROUTE_MAX;
    return worker->next_slot;
}

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
    struct worker *worker = context;
    for (struct list *node = worker->slot_holders.next; node != &worker->slot_holders;
         node = node->next) {
        const struct exchange *exchange = CONTAINER_OF(node, struct exchange, slot_node);
        settlement_renew(&exchange->admission, worker->store);
    }
    timer_arm(&worker->renew_timer, worker->renew_us);
}

/* --- draining --- */

static void stop_if_done(struct worker *worker)
{
    if (worker->draining && list_is_empty(&worker->open)) {
        for (size_t i = 0; i < worker->n_upstreams; i++) {
            upstream_group_close_idle(&worker->upstreams[i]); /* others may wait for their places */
        }
        loop_stop(worker->loop);
    }
}

void worker_on_downstream_gone(struct worker *worker)
{
    stop_if_done(worker);
}

static void on_drain_timeout(void *context)
{
    struct worker *worker = context;
    unsigned n_cut = 0;
    while (!list_is_empty(&worker->open)) {
        downstream_close(CONTAINER_OF(worker->open.next, struct downstream, node));
        n_cut++;
    }
    log_warn("proxy.worker", "drain timed out", "worker=%u connections_cut=%u", worker->number,
             n_cut);
    stop_if_done(worker);
}

static void close_listeners(struct worker *worker)
{
    for (size_t i = 0; i < worker->n_listeners; i++) {
        listener_close(&worker->listeners[i].listener);
    }
    worker->n_listeners = 0;
}

static void begin_drain(struct worker *worker)
{
    close_listeners(worker); /* what was queued is accepted, and served */
    worker->draining = true;
    timer_arm(&worker->drain_timer, worker->policy->timeouts.drain_us);
    struct list *node = worker->open.next;
    while (node != &worker->open) {
        struct list *next = node->next;
        downstream_drain(CONTAINER_OF(node, struct downstream, node));
        node = next;
    }
    stop_if_done(worker);
}

static void on_wake(void *context)
{
    struct worker *worker = context;
    if (atomic_load(&worker->drain_wanted) && !worker->draining) {
        begin_drain(worker);
    }
    for (size_t i = 0; i < worker->n_upstreams; i++) {
        if (worker->upstreams[i].is_limited) {
            upstream_group_on_wake(&worker->upstreams[i]);
        }
    }
}

void worker_drain(struct worker *worker)
{
    atomic_store(&worker->drain_wanted, true);
    wakeup_signal(&worker->wakeup);
}

/* --- life --- */

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    const struct worker_listener *listener = context;
    entrance_accept(listener->worker, listener->section, fd, peer);
}

/* No look may come later than what it looks for. */
static uint64_t look_us(const struct timeouts_section *timeouts)
{
    const uint64_t shortest_us =
        timeouts->idle_us < timeouts->head_us ? timeouts->idle_us : timeouts->head_us;
    return shortest_us < LOOK_US ? shortest_us : LOOK_US;
}

static enum status init_loop(struct worker *worker)
{
    const struct timeouts_section *timeouts = &worker->policy->timeouts;
    enum status status = loop_new(&worker->loop);
    if (status == STATUS_OK) {
        status = wakeup_init(&worker->wakeup, worker->loop, on_wake, worker);
    }
    if (status == STATUS_OK) {
        status = resolver_new(worker->loop, worker->shared->options->resolver, &worker->resolver);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->head_timeouts, worker->loop, timeouts->head_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->idle_timeouts, worker->loop, timeouts->idle_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->tunnel_timeouts, worker->loop, timeouts->tunnel_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->look_timeouts, worker->loop, look_us(timeouts));
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->linger_timeouts, worker->loop, LINGER_PAUSE_US);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->grace_timeouts, worker->loop, GRACE_US);
    }
    if (status == STATUS_OK) {
        status = timer_init(&worker->drain_timer, worker->loop, on_drain_timeout, worker);
    }
    if (status == STATUS_OK) {
        status = timer_init(&worker->renew_timer, worker->loop, on_renewal, worker);
    }
    if (status == STATUS_OK) {
        status = precise_timers_init(&worker->holds, worker->loop, worker->policy->max.held);
    }
    if (status == STATUS_OK && worker->renew_us > 0) {
        timer_arm(&worker->renew_timer, worker->renew_us);
    }
    return status;
}

static void init_pools(struct worker *worker)
{
    const struct max_section *max = &worker->policy->max;
    const size_t out_head_bytes = max->head_bytes + HEAD_ROOM_BYTES + worker->policy->set_bytes_max;
    pool_init(&worker->head_blocks, out_head_bytes, HEAD_BLOCKS_KEPT);
    pool_init(&worker->answer_blocks, out_head_bytes, HEAD_BLOCKS_KEPT);
    pool_init(&worker->body_blocks, IO_BLOCK_BYTES, BODY_BLOCKS_KEPT);
    pool_init(&worker->small_blocks, SMALL_BLOCK_BYTES, BODY_BLOCKS_KEPT);
    pool_init(&worker->exchanges, exchange_bytes(max->headers), EXCHANGES_KEPT);
    pool_init(&worker->downstreams, sizeof(struct downstream), DOWNSTREAMS_KEPT);
}

static enum status init_upstreams(struct worker *worker)
{
    const struct policy *policy = worker->policy;
    worker->upstreams = calloc(policy->n_upstreams + 1, sizeof(worker->upstreams[0]));
    if (worker->upstreams == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status =
            upstream_group_init(&worker->upstreams[i], worker, &worker->shared->upstreams[i]);
        if (status != STATUS_OK) {
            return status;
        }
        worker->n_upstreams++;
    }
    return STATUS_OK;
}

/* *n_taken of @fds are ours from then on. */
static enum status init_listeners(struct worker *worker, const int *fds, size_t *n_taken)
{
    worker->listeners = calloc(worker->policy->n_listeners, sizeof(worker->listeners[0]));
    if (worker->listeners == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < worker->policy->n_listeners; i++) {
        struct worker_listener *listener = &worker->listeners[i];
        listener->worker = worker;
        listener->section = &worker->policy->listeners[i];
        (*n_taken)++;
        const enum status status =
            listener_open(&listener->listener, worker->loop, fds[i], on_accept, listener);
        if (status != STATUS_OK) {
            return status;
        }
        worker->n_listeners++;
    }
    return STATUS_OK;
}

enum status worker_init(struct worker *worker, struct worker_shared *shared, unsigned number,
                        const int *listener_fds)
{
    size_t n_taken = 0;
    *worker = (struct worker){
        .shared = shared,
        .policy = shared->policy,
        .number = number,
        .wakeup = {.fd = -1},
    };
    list_init(&worker->open);
    histogram_init(&worker->decision_us);
    atomic_init(&worker->drain_wanted, false);
    list_init(&worker->slot_holders);
    worker->renew_us = renewal_us(shared->policy);
    hash_random(worker->request_id, sizeof(worker->request_id));
    hash_random(&worker->next_slot, sizeof(worker->next_slot));
    worker->next_slot = worker->next_slot >> 1 | 1; /* so that no number is, or comes round to, 0 */
    init_pools(worker);
    enum status status = init_loop(worker);
    if (status == STATUS_OK) {
        status =
            access_log_init(&worker->log, worker->loop, shared->log_fd, worker->policy->log.format);
    }
    if (status == STATUS_OK) {
        status = init_upstreams(worker);
    }
    if (status == STATUS_OK) {
        const struct server_options *options = shared->options;
        status = options->make_store(options->context, worker->loop, &worker->store,
                                     &worker->store_is_shared);
    }
    if (status == STATUS_OK) {
        status = init_listeners(worker, listener_fds, &n_taken);
    }
    if (status != STATUS_OK) {
        for (; n_taken < worker->policy->n_listeners; n_taken++) {
            close(listener_fds[n_taken]);
        }
        worker_close(worker);
    }
    return status;
}

static void *run(void *context)
{
    struct worker *worker = context;
    if (loop_run(worker->loop) != STATUS_OK) {
        log_error("proxy.worker", "the event loop failed", "worker=%u", worker->number);
        abort(); /* a proxy with a worker that serves nobody would lose a share of the traffic */
    }
    return NULL;
}

enum status worker_start(struct worker *worker)
{
    return pthread_create(&worker->thread, NULL, run, worker) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

void worker_join(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
}

void worker_close(struct worker *worker)
{
    assert(list_is_empty(&worker->open));
    close_listeners(worker);
    free(worker->listeners);
    if (!worker->store_is_shared) {
        store_free(worker->store);
    }
    for (size_t i = 0; i < worker->n_upstreams; i++) {
        upstream_group_close(&worker->upstreams[i]);
    }
    free(worker->upstreams);
    access_log_close(&worker->log);
    timer_close(&worker->drain_timer);
    timer_close(&worker->renew_timer);
    precise_timers_close(&worker->holds);
    timeout_queue_close(&worker->head_timeouts);
    timeout_queue_close(&worker->idle_timeouts);
    timeout_queue_close(&worker->tunnel_timeouts);
    timeout_queue_close(&worker->look_timeouts);
    timeout_queue_close(&worker->linger_timeouts);
    timeout_queue_close(&worker->grace_timeouts);
    resolver_free(worker->resolver);
    wakeup_close(&worker->wakeup);
    loop_free(worker->loop);
    pool_close(&worker->head_blocks);
    pool_close(&worker->answer_blocks);
    pool_close(&worker->body_blocks);
    pool_close(&worker->small_blocks);
    pool_close(&worker->exchanges);
    pool_close(&worker->downstreams);
}
