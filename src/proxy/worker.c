/* Happy path: everything is made before the thread starts; the thread runs
 * the loop until it is drained.
 *
 * Draining: listeners leave, and whom they accept yet is served; idle connections close (new ones
 * after a moment, since their first request is on its way), the others end with their answer; after
 * timeouts.drain what is left is cut. Then the stores have a second to hear what became of them. */

#include "proxy/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/log_output.h"
#include "proxy/downstream.h"
#include "proxy/linger.h"
#include "proxy/worker_listeners.h"

enum {
    BODY_BLOCKS_KEPT = 128,
    DOWNSTREAMS_KEPT = 1024,
    GRACE_US = 1000 * 1000, /* more than a round trip to anywhere */
    BEAT_US = 1000 * 1000,
};

struct span worker_date(struct worker *worker)
{
    const uint64_t wall_s = clock_wall_s();
    if (wall_s != worker->date_second) {
        worker->date_second = wall_s;
        message_write_date(worker->date, wall_s * 1000000);
    }
    return span_of(worker->date, sizeof(worker->date));
}

/* --- slots --- */

uint64_t worker_new_slots(struct worker *worker)
{
    worker->next_slot += LIMITS_PER_ROUTE_MAX;
    return worker->next_slot;
}

/* --- the pulse --- */

static void beat(void *context)
{
    struct worker *worker = context;
    atomic_store_explicit(&worker->beat_us, clock_monotonic_us(), memory_order_relaxed);
    timer_arm(&worker->beat_timer, BEAT_US);
}

/* --- draining --- */

/* The last requests are answered, but Redis may not know yet what became of them. */
static void stop_when_settled(void *context)
{
    struct worker *worker = context;
    if (store_stacks_are_settled(worker) || clock_monotonic_us() >= worker->settled_by_us) {
        loop_stop(worker->loop);
    } else {
        timer_arm(&worker->settle_timer, STORE_SETTLE_LOOK_US);
    }
}

static void stop_if_done(struct worker *worker)
{
    if (worker->draining && list_is_empty(&worker->open) && list_is_empty(&worker->listeners)) {
        regime_close_idle(worker); /* others may wait for their places */
        timer_disarm(&worker->drain_timer);
        worker->settled_by_us = clock_monotonic_us() + STORE_SETTLE_WAIT_US;
        stop_when_settled(worker);
    }
}

void worker_on_downstream_gone(struct worker *worker)
{
    stop_if_done(worker);
}

void worker_on_listener_gone(struct worker *worker)
{
    worker_change_on_listener_gone(worker);
    stop_if_done(worker);
}

static void on_drain_timeout(void *context)
{
    struct worker *worker = context;
    unsigned n_cut = 0;
    worker_listeners_close(worker);
    while (!list_is_empty(&worker->open)) {
        downstream_cut(CONTAINER_OF(worker->open.next, struct downstream, node));
        n_cut++;
    }
    log_warn("proxy.worker", "drain timed out", "worker=%u connections_cut=%u", worker->number,
             n_cut);
    stop_if_done(worker);
}

static void begin_drain(struct worker *worker)
{
    worker->draining = true;
    worker_listeners_leave(worker);
    worker_change_abandon(worker);
    timer_arm(&worker->drain_timer, worker->regime->policy->timeouts.drain_us);
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
    entrance_on_wake(worker);
    worker_change_on_wake(worker);
    regime_on_wake(worker);
}

void worker_drain(struct worker *worker)
{
    atomic_store(&worker->drain_wanted, true);
    wakeup_signal(&worker->wakeup);
}

/* --- life --- */

static enum status init_loop(struct worker *worker, const struct policy *policy)
{
    enum status status = loop_new(&worker->loop);
    outbox_init(&worker->outbox, worker->loop);
    if (status == STATUS_OK) {
        status = wakeup_init(&worker->wakeup, worker->loop, on_wake, worker);
    }
    if (status == STATUS_OK) {
        status = resolver_new(worker->loop, worker->shared->options->resolver, &worker->resolver);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->rest_timeouts, worker->loop, policy->timeouts.idle_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&worker->first_timeouts, worker->loop, worker_first_us(policy));
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
        status = timer_init(&worker->settle_timer, worker->loop, stop_when_settled, worker);
    }
    if (status == STATUS_OK) {
        status = dying_stacks_init(worker);
    }
    if (status == STATUS_OK) {
        status = timer_init(&worker->beat_timer, worker->loop, beat, worker);
    }
    if (status == STATUS_OK) {
        status = precise_timers_init(&worker->holds, worker->loop, policy->max.held);
    }
    if (status == STATUS_OK) {
        status = worker_change_init(worker);
    }
    return status;
}

static void init_pools(struct worker *worker)
{
    pool_init(&worker->body_blocks, IO_BLOCK_BYTES, BODY_BLOCKS_KEPT);
    pool_init(&worker->small_blocks, SMALL_BLOCK_BYTES, BODY_BLOCKS_KEPT);
    pipe_pool_init(&worker->pipes, worker->shared->n_pipes);
    pool_init(&worker->downstreams, sizeof(struct downstream), DOWNSTREAMS_KEPT);
}

/* @n_left of the offer's sockets are not ours yet. */
static enum status init(struct worker *worker, const struct worker_offer *offer, size_t *n_left)
{
    const struct policy *policy = offer->edition->policy;
    struct regime *regime;
    enum status status = init_loop(worker, policy);
    if (status == STATUS_OK) {
        status = access_log_init(&worker->log, worker->loop, offer->log, &policy->log);
    }
    if (status == STATUS_OK) {
        status = regime_new(worker, offer->edition, &regime);
    }
    if (status == STATUS_OK) {
        regime_begin(regime);
        *n_left = 0;
        status = worker_listeners_set(worker, offer->listeners, offer->n_listeners);
    }
    return status;
}

enum status worker_init(struct worker *worker, struct worker_shared *shared, unsigned number,
                        const struct worker_offer *offer)
{
    size_t n_left = offer->n_listeners;
    *worker = (struct worker){
        .shared = shared,
        .number = number,
        .meters = meters_of_worker(shared->options->meters, number - 1),
        .wakeup = {.fd = -1},
    };
    list_init(&worker->open);
    list_init(&worker->victims);
    client_counts_init(&worker->held_clients);
    bans_view_init(&worker->bans, shared->options->bans);
    list_init(&worker->regimes);
    list_init(&worker->dying_stacks.stacks);
    list_init(&worker->listeners);
    histogram_init(&worker->decision_us);
    atomic_init(&worker->drain_wanted, false);
    atomic_init(&worker->beat_us, WORKER_HAS_NO_PULSE);
    random_stream_init(&worker->request_ids);
    hash_random(&worker->next_slot, sizeof(worker->next_slot));
    worker->next_slot = worker->next_slot >> 1 | 1; /* so that no number is, or comes round to, 0 */
    init_pools(worker);
    const enum status status =
        worker->meters != NULL ? init(worker, offer, &n_left) : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        worker_offer_close(offer, n_left);
        worker_close(worker);
    }
    return status;
}

static void *run(void *context)
{
    struct worker *worker = context;
    beat(worker);
    if (loop_run(worker->loop) != STATUS_OK) {
        log_error("proxy.worker", "the event loop failed", "worker=%u", worker->number);
        log_output_flush();
        abort(); /* a proxy with a worker that serves nobody would lose a share of the traffic */
    }
    atomic_store_explicit(&worker->beat_us, WORKER_HAS_NO_PULSE, memory_order_relaxed);
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
    worker_listeners_close(worker);
    worker_change_close(worker);
    bans_view_close(&worker->bans);
    regime_free_all(worker);
    dying_stacks_close(worker);
    access_log_close(&worker->log);
    timer_close(&worker->drain_timer);
    timer_close(&worker->settle_timer);
    timer_close(&worker->beat_timer);
    precise_timers_close(&worker->holds);
    client_counts_close(&worker->held_clients);
    timeout_queue_close(&worker->rest_timeouts);
    timeout_queue_close(&worker->first_timeouts);
    timeout_queue_close(&worker->linger_timeouts);
    timeout_queue_close(&worker->grace_timeouts);
    resolver_free(worker->resolver);
    wakeup_close(&worker->wakeup);
    loop_free(worker->loop);
    pool_close(&worker->body_blocks);
    pool_close(&worker->small_blocks);
    pipe_pool_close(&worker->pipes);
    pool_close(&worker->downstreams);
}
