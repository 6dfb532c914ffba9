#include "proxy/server.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/log.h"
#include "proxy/log/access_log.h"
#include "proxy/server/server_inner.h"

/* --- what a policy needs of the process --- */

/* Whether @before writes to the destination that @log names. */
static bool has_log(const struct server_resources *before, const struct log_section *log)
{
    if (before->log == NULL || log->format == LOG_FORMAT_OFF) {
        return false;
    }
    const struct log_section *old = &before->generation->policy->log;
    return old->target == log->target && span_equals(old->path, log->path);
}

static enum status open_or_keep_log(struct server_resources *resources,
                                    const struct server_resources *before)
{
    const struct log_section *log = &resources->generation->policy->log;
    if (has_log(before, log)) {
        resources->log = before->log;
        return STATUS_OK;
    }
    return log_destination_open(log, &resources->log);
}

enum status server_resources_open(struct server_resources *resources,
                                  const struct server_generation *generation,
                                  const struct server_resources *before)
{
    *resources = (struct server_resources){.generation = NULL};
    enum status status =
        config_generation_new(generation, before->generation, &resources->generation);
    if (status != STATUS_OK) {
        log_error("proxy.server", "no memory for the policy", "%s", "");
        return status;
    }
    status = listening_open(&resources->listening, generation->policy, &before->listening);
    if (status == STATUS_OK) {
        status = open_or_keep_log(resources, before);
    }
    if (status != STATUS_OK) {
        server_resources_discard(resources, before);
    }
    return status;
}

void server_resources_discard(struct server_resources *resources,
                              const struct server_resources *before)
{
    listening_discard(&resources->listening);
    if (resources->log != before->log) {
        log_output_close(resources->log);
    }
    if (resources->generation != NULL) {
        config_generation_discard(resources->generation);
    }
    *resources = (struct server_resources){.generation = NULL};
}

enum status server_resources_offer(struct server_resources *resources, bool all,
                                   struct worker_offer *offer)
{
    const struct policy *policy = resources->generation->policy;
    offer->log = resources->log;
    offer->n_listeners = policy->n_listeners;
    return listening_offer(&resources->listening, policy, all, offer->listeners);
}

/* --- life --- */

/* The cores that this process may run on. */
static long count_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores)
                                                            : sysconf(_SC_NPROCESSORS_ONLN);
}

static unsigned count_workers(const struct policy *policy)
{
    const long n_cores = count_cores();
    if (policy->workers > 0) {
        return policy->workers;
    }
    return n_cores < 1 ? 1 : n_cores > WORKERS_MAX ? WORKERS_MAX : (unsigned)n_cores;
}

static enum status init_workers(struct server *server)
{
    const unsigned n_workers = count_workers(server->now.generation->policy);
    server->workers = calloc(n_workers, sizeof(server->workers[0]));
    if (server->workers == NULL) {
        return STATUS_NO_MEMORY;
    }
    server->shared.n_pipes = connection_limits_pipes(n_workers);
    for (unsigned i = 0; i < n_workers; i++) {
        struct worker_offer offer = {.generation = server->now.generation};
        enum status status = server_resources_offer(&server->now, true, &offer);
        if (status == STATUS_OK) {
            status = worker_init(&server->workers[i], &server->shared, i + 1, &offer);
        }
        if (status != STATUS_OK) {
            return status;
        }
        server->n_workers++;
    }
    return STATUS_OK;
}

static void name_in_via(struct via *via)
{
    uint8_t id[VIA_ID_BYTES];
    hash_random(id, sizeof(id));
    via_init(via, id);
}

/* @releases: the configuration generation is released. */
static void free_server(struct server *server, bool releases)
{
    const struct server_resources none = {.generation = NULL};
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_close(&server->workers[i]);
    }
    server_change_close(server);
    free(server->workers);
    if (releases) {
        config_generation_release(server->now.generation);
        server->now.generation = NULL;
    }
    listening_free(&server->now.listening);
    server_resources_discard(&server->now, &none);
    connection_limits_close(&server->shared.connection_limits);
    body_budget_close(&server->shared.body_budget);
    if (server->shared.change_fd >= 0) {
        close(server->shared.change_fd);
    }
    pthread_mutex_destroy(&server->lock);
    free(server);
}

enum status server_new(const struct server_options *options, struct server **server)
{
    struct server *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (pthread_mutex_init(&created->lock, NULL) != 0) {
        free(created);
        return STATUS_NO_MEMORY;
    }
    const struct server_resources none = {.listening.given = options->given};
    created->options = *options;
    created->shared.options = &created->options;
    connection_limits_init(&created->shared.connection_limits);
    body_budget_init(&created->shared.body_budget);
    connection_limits_check(options->first.policy);
    name_in_via(&created->shared.via);
    created->shared.change_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum status status = created->shared.change_fd < 0 ? STATUS_NO_MEMORY : STATUS_OK;
    if (status == STATUS_OK) {
        status = server_resources_open(&created->now, &options->first, &none);
    }
    if (status == STATUS_OK) {
        status = init_workers(created);
    }
    if (status != STATUS_OK) {
        free_server(created, false);
        return status;
    }
    *server = created;
    return STATUS_OK;
}

void server_reopen_log(struct server *server)
{
    log_destination_reopen(&server->now.generation->policy->log, server->now.log);
}

enum status server_start(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        const enum status status = worker_start(&server->workers[i]);
        if (status != STATUS_OK) {
            server_drain(server);
            server_wait(server);
            return status;
        }
        server->n_started++;
    }
    listening_log(&server->now.listening);
    return STATUS_OK;
}

void server_read_pulse(const struct server *server, uint64_t now_us, struct server_pulse *pulse)
{
    *pulse = (struct server_pulse){0};
    for (unsigned i = 0; i < server->n_workers; i++) {
        const struct worker *worker = &server->workers[i];
        const uint64_t heartbeat_us =
            atomic_load_explicit(&worker->heartbeat_us, memory_order_relaxed);
        if (heartbeat_us == WORKER_HAS_NO_PULSE) {
            continue;
        }
        pulse->n_workers++;
        if (pulse->slowest == 0 ||
            (now_us > heartbeat_us && now_us - heartbeat_us > pulse->silence_us)) {
            pulse->slowest = worker->env.number;
            pulse->silence_us = now_us > heartbeat_us ? now_us - heartbeat_us : 0;
        }
    }
}

struct config_generation *server_acquire_generation(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    struct config_generation *generation = config_generation_acquire(server->now.generation);
    pthread_mutex_unlock(&server->lock);
    return generation;
}

bool server_is_draining(const struct server *server)
{
    return atomic_load(&server->is_draining);
}

void server_drain(struct server *server)
{
    atomic_store(&server->is_draining, true);
    server_change_abandon(server);
    listening_close(&server->now.listening, NULL);
    for (unsigned i = 0; i < server->n_started; i++) {
        worker_drain(&server->workers[i]);
    }
}

static void log_decisions(const struct server *server)
{
    struct histogram all;
    histogram_init(&all);
    for (unsigned i = 0; i < server->n_workers; i++) {
        histogram_merge(&all, &server->workers[i].env.decision_us);
    }
    log_info("proxy.server", "decisions were made",
             "count=%llu p50_us=%llu p99_us=%llu p999_us=%llu max_us=%llu",
             (unsigned long long)histogram_count(&all),
             (unsigned long long)histogram_quantile(&all, 50, 100),
             (unsigned long long)histogram_quantile(&all, 99, 100),
             (unsigned long long)histogram_quantile(&all, 999, 1000),
             (unsigned long long)histogram_max(&all));
}

void server_wait(struct server *server)
{
    for (unsigned i = 0; i < server->n_started; i++) {
        worker_join(&server->workers[i]);
    }
    if (server->n_started > 0) {
        log_decisions(server);
    }
    server->n_started = 0;
}

void server_free(struct server *server)
{
    if (server != NULL) {
        free_server(server, true);
    }
}
