#include "proxy/worker_change.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/downstream.h"
#include "proxy/worker.h"
#include "proxy/worker_listeners.h"

enum { LOOK_US = 5 * 1000 }; /* how often a worker looks whether what it makes is ready */

/* --- answers --- */

static void answer(struct worker *worker, enum worker_answer what)
{
    const uint64_t one = 1;
    atomic_store_explicit(&worker->change.answer, (int)what, memory_order_release);
    if (worker->shared->change_fd >= 0) {
        (void)!write(worker->shared->change_fd, &one, sizeof(one));
    }
}

/* --- preparing --- */

static void look(void *context)
{
    struct worker *worker = context;
    if (regime_is_ready(worker->change.coming)) {
        answer(worker, WORKER_IS_READY);
    } else {
        timer_arm(&worker->change.look_timer, LOOK_US);
    }
}

static void prepare(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    if (regime_new(worker, change->offer.edition, &change->coming) != STATUS_OK) {
        change->coming = NULL;
        answer(worker, WORKER_FAILED);
        return;
    }
    answer(worker, WORKER_HAS_MADE);
    look(worker);
}

static void drop(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    timer_disarm(&change->look_timer);
    regime_free(change->coming);
    change->coming = NULL;
    edition_leave(change->offer.edition);
    change->offer.edition = NULL;
}

/* --- turning --- */

/* The lines of what is under way go where all go from now on. */
static void turn_log(struct worker *worker, const struct worker_offer *offer)
{
    const uint32_t sample_sum = worker->log.sample_sum;
    access_log_close(&worker->log);
    const enum status status =
        access_log_init(&worker->log, worker->loop, offer->log, &offer->edition->policy->log);
    worker->log.sample_sum = sample_sum;
    if (status != STATUS_OK) {
        log_error("proxy.worker", "no memory for the access log: it is off", "worker=%u",
                  worker->number);
    }
}

/* Requests that began so many policies ago are not waited for any longer. */
static void bound_regimes(struct worker *worker)
{
    struct list *node;
    unsigned n_regimes = 0;
    unsigned n_cut = 0;
    for (node = worker->regimes.next; node != &worker->regimes; node = node->next) {
        n_regimes++;
    }
    if (n_regimes <= REGIMES_MAX) {
        return;
    }
    const struct regime *oldest = CONTAINER_OF(worker->regimes.next, struct regime, node);
    node = worker->open.next;
    while (node != &worker->open) {
        struct downstream *downstream = CONTAINER_OF(node, struct downstream, node);
        node = node->next;
        if (downstream->regime == oldest) {
            downstream_cut(downstream);
            n_cut++;
        }
    }
    log_warn("proxy.worker", "requests that began too many policies ago are cut",
             "worker=%u policies=%d connections_cut=%u", worker->number, REGIMES_MAX, n_cut);
}

static void turn(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    const struct policy *policy = change->coming->policy;
    const struct worker_offer *offer = &change->offer;
    timer_disarm(&change->look_timer);
    regime_begin(change->coming);
    change->coming = NULL;
    timeout_queue_set_length(&worker->rest_timeouts, policy->timeouts.idle_us,
                             clock_monotonic_us());
    timeout_queue_set_length(&worker->first_timeouts, worker_first_us(policy),
                             clock_monotonic_us());
    if (precise_timers_set_max(&worker->holds, policy->max.held) != STATUS_OK) {
        log_error("proxy.worker", "no memory for max.held: as many are held as before", "worker=%u",
                  worker->number);
    }
    turn_log(worker, offer);
    if (worker_listeners_set(worker, offer->listeners, offer->n_listeners) != STATUS_OK) {
        log_error("proxy.worker", "no memory to listen: a worker does not on all addresses",
                  "worker=%u", worker->number);
    }
    bound_regimes(worker);
    edition_leave(offer->edition);
    change->offer.edition = NULL;
    change->offer.n_listeners = 0; /* they are ours */
    change->is_turning = true;
    worker_change_on_listener_gone(worker);
}

void worker_change_on_listener_gone(struct worker *worker)
{
    if (worker->change.is_turning && !worker_listeners_are_leaving(worker)) {
        worker->change.is_turning = false;
        answer(worker, WORKER_TURNED);
    }
}

/* --- orders --- */

void worker_change_on_wake(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    const int order =
        atomic_exchange_explicit(&change->order, WORKER_NO_ORDER, memory_order_acquire);
    switch ((enum worker_order)order) {
    case WORKER_NO_ORDER:
        return;
    case WORKER_PREPARE:
        if (!worker->draining) {
            prepare(worker);
        }
        return;
    case WORKER_TURN:
        if (change->coming != NULL) {
            turn(worker);
        }
        return;
    case WORKER_DROP:
        drop(worker);
        answer(worker, WORKER_DROPPED);
        return;
    }
}

void worker_change_abandon(struct worker *worker)
{
    drop(worker);
}

void worker_change_order(struct worker *worker, enum worker_order order)
{
    atomic_store_explicit(&worker->change.answer, WORKER_IS_SILENT, memory_order_relaxed);
    atomic_store_explicit(&worker->change.order, (int)order, memory_order_release);
    wakeup_signal(&worker->wakeup);
}

enum worker_answer worker_change_answer(const struct worker *worker)
{
    return (enum worker_answer)atomic_load_explicit(&worker->change.answer, memory_order_acquire);
}

/* --- life --- */

enum status worker_change_init(struct worker *worker)
{
    atomic_init(&worker->change.order, WORKER_NO_ORDER);
    atomic_init(&worker->change.answer, WORKER_TURNED);
    return timer_init(&worker->change.look_timer, worker->loop, look, worker);
}

void worker_change_close(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    regime_free(change->coming);
    change->coming = NULL;
    edition_leave(change->offer.edition);
    change->offer.edition = NULL;
    timer_close(&change->look_timer);
}

void worker_offer_close(const struct worker_offer *offer, size_t n_left)
{
    for (size_t i = offer->n_listeners - n_left; i < offer->n_listeners; i++) {
        if (offer->listeners[i].fd >= 0) {
            close(offer->listeners[i].fd);
        }
    }
}
