#include "proxy/server.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/log.h"
#include "proxy/listening.h"
#include "proxy/log_sink.h"
#include "proxy/worker.h"

struct server {
    struct server_options options;
    const struct policy *policy; /* the options' */
    struct worker_shared shared;
    struct listening listening;
    struct worker *workers;
    unsigned n_workers; /* that are initialised */
    unsigned n_started;
    atomic_bool is_draining;
};

/* --- what the workers share --- */

static unsigned count_workers(const struct policy *policy)
{
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (policy->workers > 0) {
        return policy->workers;
    }
    return n_cores < 1 ? 1 : n_cores > WORKERS_MAX ? WORKERS_MAX : (unsigned)n_cores;
}

static enum status init_workers(struct server *server)
{
    const unsigned n_workers = count_workers(server->policy);
    server->workers = calloc(n_workers, sizeof(server->workers[0]));
    if (server->workers == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (unsigned i = 0; i < n_workers; i++) {
        int fds[LISTENERS_MAX];
        enum status status = listening_bind(&server->listening, fds);
        if (status == STATUS_OK) {
            status = worker_init(&server->workers[i], &server->shared, i + 1, fds);
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

enum status server_new(const struct server_options *options, struct server **server)
{
    struct server *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->options = *options;
    created->policy = options->policy;
    created->shared.options = &created->options;
    created->shared.log_fd = -1;
    entrance_init(&created->shared.entrance, options->policy);
    name_in_via(&created->shared.via);
    enum status status = listening_open(&created->listening, options->policy);
    if (status == STATUS_OK) {
        status = log_place_open(&options->policy->log, &created->shared.log_fd);
    }
    if (status == STATUS_OK) {
        status = edition_new(options, &created->shared.edition);
    }
    if (status == STATUS_OK) {
        status = init_workers(created);
    }
    if (status != STATUS_OK) {
        server_free(created);
        return status;
    }
    *server = created;
    return STATUS_OK;
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
    listening_log(&server->listening);
    return STATUS_OK;
}

void server_read_pulse(const struct server *server, uint64_t now_us, struct server_pulse *pulse)
{
    *pulse = (struct server_pulse){0};
    for (unsigned i = 0; i < server->n_workers; i++) {
        const struct worker *worker = &server->workers[i];
        const uint64_t beat_us = atomic_load_explicit(&worker->beat_us, memory_order_relaxed);
        if (beat_us == WORKER_HAS_NO_PULSE) {
            continue;
        }
        pulse->n_workers++;
        if (pulse->slowest == 0 || (now_us > beat_us && now_us - beat_us > pulse->silence_us)) {
            pulse->slowest = worker->number;
            pulse->silence_us = now_us > beat_us ? now_us - beat_us : 0;
        }
    }
}

bool server_is_draining(const struct server *server)
{
    return atomic_load(&server->is_draining);
}

void server_drain(struct server *server)
{
    atomic_store(&server->is_draining, true);
    listening_close(&server->listening);
    for (unsigned i = 0; i < server->n_started; i++) {
        worker_drain(&server->workers[i]);
    }
}

static void log_decisions(const struct server *server)
{
    struct histogram all;
    histogram_init(&all);
    for (unsigned i = 0; i < server->n_workers; i++) {
        histogram_merge(&all, &server->workers[i].decision_us);
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
    if (server == NULL) {
        return;
    }
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_close(&server->workers[i]);
    }
    free(server->workers);
    edition_free(server->shared.edition);
    listening_close(&server->listening);
    entrance_close(&server->shared.entrance);
    log_place_close(server->shared.log_fd);
    free(server);
}
