/* Happy path: everything is made before the thread starts; the thread runs the loop until it is
 * drained.
 *
 * Draining: listeners leave, and connections that they still accept are served. Idle connections
 * close, new ones after a grace period, since their first request is on its way. The others close
 * after their answer. After timeouts.drain what is left is cut. Abandoned requests, whose clients
 * have left, are not waited for. Then the stores have a second to settle the last requests. */

#include "proxy/server/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/log_output.h"
#include "proxy/client/client_env.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/upstream/upstream_group.h"
#include "tls/tls_client.h"
#include "tls/tls_stream.h"

enum {
    BODY_BLOCKS_KEPT = 128,
    HEARTBEAT_US = 1000 * 1000,
    READY_LOOK_US = 5 * 1000, /* interval of the checks whether a configuration is ready */
};

/* --- the heartbeat --- */

static void heartbeat(void *context)
{
    struct worker *worker = context;
    atomic_store_explicit(&worker->heartbeat_us, clock_monotonic_us(), memory_order_relaxed);
    timer_arm(&worker->heartbeat_timer, HEARTBEAT_US);
}

/* --- the change to another policy: answers --- */

static void answer(struct worker *worker, enum worker_answer what)
{
    const uint64_t one = 1;
    atomic_store_explicit(&worker->change.answer, (int)what, memory_order_release);
    if (worker->shared->change_fd >= 0) {
        (void)!write(worker->shared->change_fd, &one, sizeof(one));
    }
}

/* --- preparing --- */

static void look_if_ready(void *context)
{
    struct worker *worker = context;
    if (worker_config_is_ready(worker->change.coming)) {
        answer(worker, WORKER_IS_READY);
    } else {
        timer_arm(&worker->change.look_timer, READY_LOOK_US);
    }
}

/* What @policy needs for tokens. */
static enum status make_verifier(struct worker *worker, const struct policy *policy)
{
    if (policy->n_providers > 0 && worker->env.verifier == NULL) {
        worker->env.verifier = jwt_verifier_new(jwt_failures_of_process());
        return worker->env.verifier != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

/* Make the worker configuration of @offer, which has clients; they are dropped. */
static enum status make_config(struct worker *worker, struct worker_offer *offer,
                               struct worker_config **made)
{
    enum status status = make_verifier(worker, offer->generation->policy);
    if (status == STATUS_OK) {
        status = worker_config_new(&worker->worker_configs, offer->generation, made);
    }
    for (size_t i = 0; status == STATUS_OK && i < (*made)->config.n_upstreams; i++) {
        if (offer->clients[i] != NULL) {
            upstream_group_secure((*made)->config.upstreams[i], offer->clients[i]);
        }
    }
    worker_drop_clients(offer);
    return status;
}

static void prepare(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    if (make_config(worker, &change->offer, &change->coming) != STATUS_OK) {
        change->coming = NULL;
        answer(worker, WORKER_FAILED);
        return;
    }
    answer(worker, WORKER_HAS_MADE);
    look_if_ready(worker);
}

static void drop_coming(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    worker_config_free(change->coming);
    change->coming = NULL;
    worker_drop_clients(&change->offer); /* if it was not made */
    config_generation_release(change->offer.generation);
    change->offer.generation = NULL;
}

static void drop_change(struct worker *worker)
{
    timer_disarm(&worker->change.look_timer);
    drop_coming(worker);
}

/* --- turning --- */

/* Requests under way write their lines to the new log too. */
static void turn_log(struct worker *worker, const struct worker_offer *offer)
{
    const uint32_t sample_sum = worker->log.sample_sum;
    access_log_close(&worker->log);
    const enum status status = access_log_init(&worker->log, worker->env.loop, offer->log,
                                               &offer->generation->policy->log);
    worker->log.sample_sum = sample_sum;
    if (status != STATUS_OK) {
        log_error("proxy.worker", "no memory for the access log: it is off", "worker=%u",
                  worker->env.number);
    }
}

/* Answer once all listeners that the new policy does not name have left. */
static void answer_if_turned(struct worker *worker)
{
    if (worker->change.is_turning && !worker_listeners_are_leaving(&worker->listeners)) {
        worker->change.is_turning = false;
        answer(worker, WORKER_SWITCHED);
    }
}

/* Whether the databases of @policy, if it has some, are those of @next, which came into force
 * behind it. */
static bool shares_databases(const struct policy *policy, const struct policy *next)
{
    bool shares = true;
    for (size_t i = 0; i < policy->geo.n_files && shares; i++) {
        shares = false;
        for (size_t j = 0; j < next->geo.n_files && !shares; j++) {
            shares = policy->geo.files[i].database == next->geo.files[j].database;
        }
    }
    return shares;
}

/* Returns how many connections are cut. */
static unsigned cut_requests_under(struct worker *worker, const struct worker_config *worker_config)
{
    unsigned n_cut = 0;
    struct list *node = worker->clients.open.next;
    while (node != &worker->clients.open) {
        struct client_connection *connection = CONTAINER_OF(node, struct client_connection, node);
        node = node->next;
        n_cut += connection->ops->on_new_configuration(connection, &worker_config->config);
    }
    return n_cut;
}

/* Cut the requests under the oldest configurations if there are more than WORKER_CONFIGS_MAX, or
 * more than WORKER_DATABASES_MAX versions of the databases of addresses, which are large: they are
 * not waited for any longer. */
static void bound_worker_configs(struct worker *worker)
{
    struct list *all = &worker->worker_configs.all;
    unsigned n_worker_configs = 0;
    unsigned n_databases = 1;
    unsigned n_cut = 0;
    const struct policy *next = NULL;
    for (struct list *node = all->prev; node != all; node = node->prev) {
        const struct worker_config *worker_config = CONTAINER_OF(node, struct worker_config, node);
        const struct policy *policy = worker_config->config.policy;
        n_databases += next != NULL && !shares_databases(policy, next);
        next = policy;
        if (++n_worker_configs > WORKER_CONFIGS_MAX || n_databases > WORKER_DATABASES_MAX) {
            n_cut += cut_requests_under(worker, worker_config);
        }
    }
    if (n_cut > 0) {
        log_warn("proxy.worker", "requests under old policies or databases of addresses are cut",
                 "worker=%u policies=%d databases=%d connections_cut=%u", worker->env.number,
                 WORKER_CONFIGS_MAX, WORKER_DATABASES_MAX, n_cut);
    }
}

static void turn(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    const struct policy *policy = change->coming->config.policy;
    const struct worker_offer *offer = &change->offer;
    timer_disarm(&change->look_timer);
    worker_config_begin(change->coming);
    change->coming = NULL;
    client_env_set_timeouts(&worker->clients, &policy->timeouts);
    if (precise_timers_set_max(&worker->env.holds, policy->max.held) != STATUS_OK) {
        log_error("proxy.worker", "no memory for max.held: as many are held as before", "worker=%u",
                  worker->env.number);
    }
    turn_log(worker, offer);
    if (worker_listeners_set(&worker->listeners, offer->listeners, offer->n_listeners) !=
        STATUS_OK) {
        log_error("proxy.worker", "no memory to listen: a worker does not on all addresses",
                  "worker=%u", worker->env.number);
    }
    bound_worker_configs(worker);
    config_generation_release(offer->generation);
    change->offer.generation = NULL;
    change->offer.n_listeners = 0; /* the worker owns the sockets now */
    change->is_turning = true;
    answer_if_turned(worker);
}

/* --- orders --- */

/* Carry out the order, if there is one. */
static void obey(struct worker *worker)
{
    struct worker_change *change = &worker->change;
    const int order =
        atomic_exchange_explicit(&change->order, WORKER_NO_ORDER, memory_order_acquire);
    switch ((enum worker_order)order) {
    case WORKER_NO_ORDER:
        return;
    case WORKER_PREPARE:
        if (!worker->env.is_draining) {
            prepare(worker);
        }
        return;
    case WORKER_SWITCH:
        if (change->coming != NULL) {
            turn(worker);
        }
        return;
    case WORKER_DROP:
        drop_change(worker);
        answer(worker, WORKER_DROPPED);
        return;
    }
}

void worker_change_order(struct worker *worker, enum worker_order order)
{
    atomic_store_explicit(&worker->change.answer, WORKER_IS_SILENT, memory_order_relaxed);
    atomic_store_explicit(&worker->change.order, (int)order, memory_order_release);
    wakeup_signal(&worker->env.wakeup);
}

enum worker_answer worker_change_answer(const struct worker *worker)
{
    return (enum worker_answer)atomic_load_explicit(&worker->change.answer, memory_order_acquire);
}

/* --- draining --- */

/* The last requests are answered, but the store may not have their settlements yet. */
static void stop_when_settled(void *context)
{
    struct worker *worker = context;
    if (worker_config_set_is_settled(&worker->worker_configs) ||
        clock_monotonic_us() >= worker->settled_by_us) {
        loop_stop(worker->env.loop);
    } else {
        timer_arm(&worker->settle_timer, STORE_SETTLE_LOOK_US);
    }
}

static void stop_if_done(struct worker *worker)
{
    if (worker->env.is_draining && client_env_is_empty(&worker->clients) &&
        list_is_empty(&worker->listeners.all)) {
        abandoned_requests_end(&worker->env);
        /* Other workers may wait for the slots of these connections. */
        worker_config_set_close_idle(&worker->worker_configs);
        timer_disarm(&worker->drain_timer);
        worker->settled_by_us = clock_monotonic_us() + STORE_SETTLE_WAIT_US;
        stop_when_settled(worker);
    }
}

static void on_connection_gone(struct client_env *clients)
{
    stop_if_done(CONTAINER_OF(clients, struct worker, clients));
}

static void on_listener_gone(struct worker_listeners *listeners)
{
    struct worker *worker = CONTAINER_OF(listeners, struct worker, listeners);
    answer_if_turned(worker);
    stop_if_done(worker);
}

static const struct worker_listeners_ops LISTENERS = {.on_gone = on_listener_gone};

static void on_drain_timeout(void *context)
{
    struct worker *worker = context;
    unsigned n_cut = 0;
    worker_listeners_close(&worker->listeners);
    while (!list_is_empty(&worker->clients.open)) {
        struct client_connection *connection =
            CONTAINER_OF(worker->clients.open.next, struct client_connection, node);
        connection->ops->close(connection);
        n_cut++;
    }
    log_warn("proxy.worker", "drain timed out", "worker=%u connections_cut=%u", worker->env.number,
             n_cut);
    stop_if_done(worker);
}

static void begin_drain(struct worker *worker)
{
    worker->env.is_draining = true;
    worker_listeners_leave(&worker->listeners);
    drop_change(worker); /* the policy does not change any more */
    timer_arm(&worker->drain_timer, worker->env.config->policy->timeouts.drain_us);
    struct list *node = worker->clients.open.next;
    while (node != &worker->clients.open) {
        struct client_connection *connection = CONTAINER_OF(node, struct client_connection, node);
        node = node->next;
        connection->ops->drain(connection);
    }
    stop_if_done(worker);
}

static void on_wake(void *context)
{
    struct worker *worker = context;
    if (atomic_load(&worker->drain_wanted) && !worker->env.is_draining) {
        begin_drain(worker);
    }
    connection_limits_on_wake(&worker->clients);
    obey(worker);
    worker_config_set_on_wake(&worker->worker_configs);
}

void worker_drain(struct worker *worker)
{
    atomic_store(&worker->drain_wanted, true);
    wakeup_signal(&worker->env.wakeup);
}

/* --- TLS --- */

static enum status make_tls_worker(struct worker *worker)
{
    return worker->env.tls != NULL ? STATUS_OK : tls_worker_new(worker->env.loop, &worker->env.tls);
}

/* What the listener @section or the upstream @name needs. */
static enum status report_tls(enum status status, const char *of, struct span name,
                              const struct certificate_problem *problem)
{
    if (status != STATUS_OK) {
        log_error("proxy.worker", "no TLS", "%s=%.*s err=\"%s\"", of, SPAN_ARGS(name),
                  status == STATUS_INVALID ? problem->text : status_text(status));
    }
    return status;
}

static enum status make_server(struct worker *worker, const struct listener_section *section,
                               struct listening_offer *offer)
{
    struct certificate_problem problem = {.text = ""};
    enum status status = make_tls_worker(worker);
    if (status == STATUS_OK) {
        status = tls_server_new(tls_worker_library(worker->env.tls), section->tls_config,
                                &offer->tls, &problem);
    }
    return report_tls(status, "address", section->endpoint.text, &problem);
}

static enum status make_client(struct worker *worker, const struct upstream_spec *spec,
                               struct tls_client_context **client)
{
    struct certificate_problem problem = {.text = ""};
    enum status status = make_tls_worker(worker);
    if (status == STATUS_OK) {
        status = tls_client_context_new(tls_worker_library(worker->env.tls), spec->tls, client,
                                        &problem);
    }
    return report_tls(status, "upstream", spec->name, &problem);
}

enum status worker_make_tls(struct worker *worker, struct worker_offer *offer)
{
    const struct policy *policy = offer->generation->policy;
    enum status status = STATUS_OK;
    offer->clients = calloc(policy->n_upstreams + 1, sizeof(struct tls_client_context *));
    if (offer->clients == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < offer->n_listeners && status == STATUS_OK; i++) {
        if (policy->listeners[i].tls_config != NULL) {
            status = make_server(worker, &policy->listeners[i], &offer->listeners[i]);
        }
    }
    for (size_t i = 0; i < policy->n_upstreams && status == STATUS_OK; i++) {
        if (policy->upstreams[i].tls != NULL) {
            status = make_client(worker, &policy->upstreams[i], &offer->clients[i]);
        }
    }
    return status;
}

void worker_drop_clients(struct worker_offer *offer)
{
    for (size_t i = 0; offer->clients != NULL && i < offer->generation->policy->n_upstreams; i++) {
        tls_client_context_release(offer->clients[i]);
    }
    free(offer->clients);
    offer->clients = NULL;
}

/* --- life --- */

static void init_timers(struct worker *worker, const struct policy *policy)
{
    struct loop *loop = worker->env.loop;
    outbox_init(&worker->env.outbox, loop);
    body_buffers_init(&worker->env.body_buffers, &worker->shared->body_budget,
                      &worker->env.meters->buffered_bytes, loop);
    client_env_open(&worker->clients, &policy->timeouts);
    dying_stacks_init(&worker->worker_configs.dying_stacks, loop);
    timer_init(&worker->drain_timer, loop, on_drain_timeout, worker);
    timer_init(&worker->settle_timer, loop, stop_when_settled, worker);
    timer_init(&worker->heartbeat_timer, loop, heartbeat, worker);
    timer_init(&worker->change.look_timer, loop, look_if_ready, worker);
}

static enum status init_loop(struct worker *worker, const struct policy *policy)
{
    enum status status = loop_new(&worker->env.loop);
    if (status == STATUS_OK) {
        init_timers(worker, policy);
        status = wakeup_init(&worker->env.wakeup, worker->env.loop, on_wake, worker);
    }
    if (status == STATUS_OK) {
        status = resolver_new(worker->env.loop, worker->shared->options->resolver,
                              &worker->env.resolver);
    }
    if (status == STATUS_OK) {
        status = precise_timers_init(&worker->env.holds, worker->env.loop, policy->max.held);
    }
    return status;
}

static void init_pools(struct worker *worker)
{
    pool_init(&worker->env.body_blocks, IO_BLOCK_BYTES, BODY_BLOCKS_KEPT);
    pool_init(&worker->env.small_blocks, SMALL_BLOCK_BYTES, BODY_BLOCKS_KEPT);
    pipe_pool_init(&worker->env.pipes, worker->shared->n_pipes);
    downstream_init_pools(&worker->clients);
}

/* *n_left: how many of the offer's sockets the worker does not own yet. */
static enum status init(struct worker *worker, struct worker_offer *offer, size_t *n_left)
{
    const struct policy *policy = offer->generation->policy;
    struct worker_config *worker_config;
    enum status status = init_loop(worker, policy);
    if (status == STATUS_OK) {
        status = access_log_init(&worker->log, worker->env.loop, offer->log, &policy->log);
    }
    if (status == STATUS_OK) {
        status = worker_make_tls(worker, offer);
    }
    if (status == STATUS_OK) {
        status = make_config(worker, offer, &worker_config);
    }
    if (status == STATUS_OK) {
        worker_config_begin(worker_config);
        *n_left = 0;
        status = worker_listeners_set(&worker->listeners, offer->listeners, offer->n_listeners);
    }
    return status;
}

enum status worker_init(struct worker *worker, struct worker_shared *shared, unsigned number,
                        struct worker_offer *offer)
{
    size_t n_left = offer->n_listeners;
    *worker = (struct worker){
        .shared = shared,
        .env =
            {
                .number = number,
                .meters = meters_of_worker(shared->options->meters, number - 1),
                .log = &worker->log,
                .via = &shared->via,
                .upstream_descriptors = &shared->connection_limits.upstream_descriptors,
                .wakeup = {.fd = -1},
            },
    };
    client_env_init(&worker->clients, on_connection_gone, &worker->env, &shared->connection_limits);
    list_init(&worker->env.upstream_groups);
    list_init(&worker->env.abandoned_requests);
    client_counts_init(&worker->env.held_clients);
    client_counts_init(&worker->env.abandoning_clients);
    bans_view_init(&worker->env.bans, shared->options->bans);
    tenants_view_init(&worker->env.tenants, shared->options->tenants);
    worker_config_set_init(&worker->worker_configs, &worker->env);
    worker_listeners_init(&worker->listeners, &LISTENERS, &worker->clients);
    atomic_init(&worker->change.order, WORKER_NO_ORDER);
    atomic_init(&worker->change.answer, WORKER_SWITCHED);
    histogram_init(&worker->env.decision_us);
    atomic_init(&worker->drain_wanted, false);
    atomic_init(&worker->heartbeat_us, WORKER_HAS_NO_PULSE);
    random_stream_init(&worker->env.request_ids);
    hash_random(&worker->env.next_slot, sizeof(worker->env.next_slot));
    /* Slot numbers begin above 0 and do not wrap to 0. */
    worker->env.next_slot = worker->env.next_slot >> 1 | 1;
    init_pools(worker);
    const enum status status =
        worker->env.meters != NULL ? init(worker, offer, &n_left) : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        listening_close_offers(offer->listeners, n_left);
        worker_drop_clients(offer);
        worker_close(worker);
    }
    return status;
}

static void *run(void *context)
{
    struct worker *worker = context;
    heartbeat(worker);
    if (loop_run(worker->env.loop) != STATUS_OK) {
        log_error("proxy.worker", "the event loop failed", "worker=%u", worker->env.number);
        log_output_flush();
        abort(); /* a worker that does not serve would lose its share of the traffic */
    }
    atomic_store_explicit(&worker->heartbeat_us, WORKER_HAS_NO_PULSE, memory_order_relaxed);
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
    worker_listeners_close(&worker->listeners);
    drop_coming(worker);
    timer_close(&worker->change.look_timer);
    bans_view_close(&worker->env.bans);
    tenants_view_close(&worker->env.tenants);
    worker_config_set_close(&worker->worker_configs);
    access_log_close(&worker->log);
    timer_close(&worker->drain_timer);
    timer_close(&worker->settle_timer);
    timer_close(&worker->heartbeat_timer);
    body_buffers_close(&worker->env.body_buffers);
    precise_timers_close(&worker->env.holds);
    client_env_close(&worker->clients);
    client_counts_close(&worker->env.held_clients);
    client_counts_close(&worker->env.abandoning_clients);
    tls_worker_free(worker->env.tls);
    jwt_verifier_free(worker->env.verifier);
    resolver_free(worker->env.resolver);
    wakeup_close(&worker->env.wakeup);
    loop_free(worker->env.loop);
    pool_close(&worker->env.body_blocks);
    pool_close(&worker->env.small_blocks);
    pipe_pool_close(&worker->env.pipes);
}
