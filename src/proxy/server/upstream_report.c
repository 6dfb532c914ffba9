#include "proxy/upstream_report.h"

#include "proxy/server/config_generation.h"
#include "proxy/server/server_inner.h"
#include "proxy/upstream/upstream_process.h"

static enum upstream_server_state state_of(struct server_health *health,
                                           const struct upstream_spec *spec, uint64_t now_us,
                                           uint64_t *probe_in_us)
{
    const unsigned marks = server_health_marks(health);
    const uint64_t probe_us = atomic_load_explicit(&health->next_probe_us, memory_order_relaxed);
    *probe_in_us = 0;
    if ((marks & SERVER_FAILS_CHECKS) != 0) {
        return UPSTREAM_SERVER_FAILS_CHECKS;
    }
    if ((marks & SERVER_EJECTED) != 0) {
        *probe_in_us = probe_us > now_us ? probe_us - now_us : 0;
        return probe_us > now_us ? UPSTREAM_SERVER_EJECTED : UPSTREAM_SERVER_PROBE_DUE;
    }
    return server_health_weight(health, spec, now_us) < SERVER_WHOLE_WEIGHT
               ? UPSTREAM_SERVER_WARMING
               : UPSTREAM_SERVER_UP;
}

static bool is_any_up(const struct upstream_spec *spec, const struct upstream_process *process)
{
    for (size_t i = 0; i < spec->n_servers; i++) {
        if ((server_health_marks(&process->servers[i]->health) & SERVER_OUT_MARKS) == 0) {
            return true;
        }
    }
    return false;
}

static enum upstream_protocol protocol_of(const struct upstream_spec *spec, size_t i)
{
    const struct endpoint *server = &spec->servers[i].endpoint;
    return server->is_h2c ? UPSTREAM_HTTP_2 : server->is_https ? spec->protocol : UPSTREAM_HTTP_1_1;
}

static struct upstream_server_report report_server(const struct upstream_spec *spec, size_t i,
                                                   struct server_process *process, uint64_t now_us)
{
    struct upstream_server_report report = {
        .spec = &spec->servers[i],
        .protocol = protocol_of(spec, i),
        .counts_requests = spec->balance == BALANCE_LEAST_REQUESTS,
        .n_requests = atomic_load_explicit(&process->n_requests, memory_order_relaxed),
        .has_slots = spec->max_connections > 0,
        .n_connections = atomic_load_explicit(&process->n_connections, memory_order_relaxed),
    };
    report.state = state_of(&process->health, spec, now_us, &report.probe_in_us);
    return report;
}

void upstream_report_report(
    struct server *server, uint64_t now_us,
    void (*on_upstream)(void *context, const struct upstream_report *report),
    void (*on_server)(void *context, const struct upstream_server_report *report), void *context)
{
    struct config_generation *generation = server_acquire_generation(server);
    for (size_t i = 0; i < generation->policy->n_upstreams; i++) {
        const struct upstream_spec *spec = &generation->policy->upstreams[i];
        struct upstream_process *process = generation->upstreams[i];
        const struct upstream_report report = {
            .spec = spec,
            .n_waiting = atomic_load_explicit(&process->queue.n_waiting, memory_order_relaxed),
        };
        const bool is_all_in_use = !is_any_up(spec, process);
        on_upstream(context, &report);
        for (size_t j = 0; j < spec->n_servers; j++) {
            struct upstream_server_report reported =
                report_server(spec, j, process->servers[j], now_us);
            reported.is_in_use = is_all_in_use;
            on_server(context, &reported);
        }
    }
    config_generation_release(generation);
}
