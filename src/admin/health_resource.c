/* How the process and its servers are doing.
 *
 * GET /healthz: liveness. Every worker sends a heartbeat once a second from its loop. A worker
 * whose heartbeat is late by more than load explains hangs, and only a restart helps.
 *
 * GET /readyz: whether a balancer should send clients here. Redis that is away does not make a
 * proxy unready: its limits go by on_failure, and it is away for all proxies at once, so that a
 * balancer would have nobody left. The answer says how it is.
 *
 * GET /v1/upstreams: the servers, and how they are doing. */

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "proxy/server.h"
#include "proxy/upstream_report.h"

enum { SILENCE_US_MAX = 10 * 1000 * 1000 };

void health_handle(struct admin_request *request)
{
    struct server_pulse pulse;
    server_read_pulse(request->admin->options.server, clock_monotonic_us(), &pulse);
    if (pulse.silence_us > SILENCE_US_MAX) {
        answer_problem(request, 503, "the loop of worker %u has not run for %llu s", pulse.slowest,
                       (unsigned long long)(pulse.silence_us / 1000000));
        return;
    }
    answer_json(request, 200,
                json_pack("{ss, si, sI}", "status", "alive", "workers", (int)pulse.n_workers,
                          "silence_ms", (json_int_t)(pulse.silence_us / 1000)));
}

/* --- readiness --- */

json_t *ready_describe_store(const struct admin_request *request)
{
    const struct admin_options *options = &request->admin->options;
    struct admin_store_state state;
    if (request->policy->store.kind == STORE_MEMORY) {
        return json_pack("{ss, ss}", "kind", "memory", "state", "ok");
    }
    options->read_store_state(options->context, &state);
    const char *word = state.n_targets == 0                 ? "not yet asked"
                       : state.n_working == state.n_targets ? "ok"
                       : state.n_working > 0                ? "partly away"
                                                            : "away";
    return json_pack("{ss, ss, ss}", "kind", "redis", "state", word, "on_failure",
                     describe_on_failure(request->policy->store.on_failure));
}

void ready_handle(struct admin_request *request)
{
    const bool is_draining = server_is_draining(request->admin->options.server);
    answer_json(request, is_draining ? 503 : 200,
                json_pack("{ss, so}", "status", is_draining ? "draining" : "ready", "store",
                          ready_describe_store(request)));
}

/* --- upstreams --- */

static const char *const BALANCES[] = {
    [BALANCE_ROUND_ROBIN] = "round_robin",
    [BALANCE_LEAST_REQUESTS] = "least_requests",
    [BALANCE_HASH] = "hash",
};

static const char *const STATES[] = {
    [UPSTREAM_SERVER_UP] = "up",
    [UPSTREAM_SERVER_WARMING] = "warming",
    [UPSTREAM_SERVER_PROBE_DUE] = "probe due",
    [UPSTREAM_SERVER_EJECTED] = "ejected",
    [UPSTREAM_SERVER_FAILS_CHECKS] = "fails checks",
};

static void on_upstream(void *context, const struct upstream_report *report)
{
    json_t **upstreams = context;
    const struct upstream_spec *spec = report->spec;
    json_t *json = json_object();
    describe_set(&json, "name", json_of_span(spec->name));
    describe_set(&json, "balance", json_string(BALANCES[spec->balance]));
    if (spec->max_connections > 0) {
        describe_set(&json, "max_connections", json_integer(spec->max_connections));
        describe_set(&json, "waiting", json_integer(report->n_waiting));
    }
    if (spec->health.path.len > 0) {
        const struct span path = spec->health.path; /* its query may hold what is not to be seen */
        describe_set(&json, "health", json_of_span(span_of(path.data, span_find(path, '?'))));
    }
    describe_set(&json, "servers", json_array());
    describe_append(upstreams, json);
}

/* Of the latest upstream. */
static void on_server(void *context, const struct upstream_server_report *report)
{
    json_t **upstreams = context;
    const json_t *upstream = json_array_get(*upstreams, json_array_size(*upstreams) - 1);
    json_t *json = json_object();
    describe_set(&json, "url", json_of_span(report->spec->endpoint.text));
    describe_set(&json, "state", json_string(STATES[report->state]));
    if (report->is_in_use) {
        describe_set(&json, "in_use", json_true());
    }
    describe_set(&json, "weight", json_integer(report->spec->weight));
    if (report->state == UPSTREAM_SERVER_EJECTED) {
        describe_set(&json, "probe_in_ms",
                     json_integer((json_int_t)((report->probe_in_us + 999) / 1000)));
    }
    if (report->counts_requests) {
        describe_set(&json, "requests", json_integer(report->n_requests));
    }
    if (report->has_slots) {
        describe_set(&json, "connections", json_integer(report->n_connections));
    }
    if (json_array_append_new(json_object_get(upstream, "servers"), json) != 0) {
        json_decref(*upstreams);
        *upstreams = NULL;
    }
}

void upstreams_handle(struct admin_request *request)
{
    json_t *upstreams = json_array();
    upstream_report_report(request->admin->options.server, clock_monotonic_us(), on_upstream,
                           on_server, &upstreams);
    answer_json(request, 200, json_pack("{so}", "upstreams", upstreams));
}
