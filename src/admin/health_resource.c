/* How the process and its servers are doing.
 *
 * GET /healthz: liveness. Every worker sends a heartbeat once a second from its loop. A worker
 * whose heartbeat is late by more than load explains hangs, and only a restart helps.
 *
 * GET /readyz: whether a balancer should send clients here. Redis that is away does not make a
 * proxy unready where it still serves: its limits go by on_failure, and it is away for all proxies
 * at once, so that a balancer would have no proxy left. The answer says that it is degraded, and
 * why.
 * Where on_failure denies on every route the proxy is unready.
 *
 * GET /v1/upstreams: the servers, and how they are doing. */

#include "admin/internal.h"
#include "admin/metrics.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "base/text.h"
#include "proxy/meters.h"
#include "proxy/server.h"
#include "proxy/upstream_report.h"

enum {
    SILENCE_US_MAX = 10 * 1000 * 1000,
    REASON_BYTES = 256,
    DEAD_UPSTREAMS_MAX = 16, /* named in one answer */
};

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

static const char *state_of(const struct store_counts *counts)
{
    return counts->links == 0                       ? "not yet asked"
           : counts->links_working >= counts->links ? "ok"
           : counts->links_working > 0              ? "partly away"
                                                    : "away";
}

static bool denies_without_redis(const struct route *route)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit *limit = &route->rules[i]->limits[0];
        if (!limit->shadow && limit->on_failure == ON_FAILURE_DENY) {
            return true;
        }
    }
    return false;
}

/* Whether every route that serves clients answers 503 while Redis is away. */
static bool all_is_denied_without_redis(const struct policy *policy)
{
    size_t n_denied = 0;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const bool serves = route->upstream != NULL || route->respond->status < 400;
        if (serves && !denies_without_redis(route)) {
            return false;
        }
        n_denied += serves;
    }
    return n_denied > 0;
}

/* "redis, away: local decisions". How many limits do what is said where they differ. */
static void add_store_reason(const struct policy *policy, const char *state, json_t **reasons)
{
    static const char *const EFFECTS[] = {
        [ON_FAILURE_LOCAL] = "local decisions",
        [ON_FAILURE_ALLOW] = "no limit holds",
        [ON_FAILURE_DENY] = "denied with 503",
    };
    char buffer[REASON_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    size_t counts[ARRAY_LEN(EFFECTS)] = {0};
    size_t n_rules = 0;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit *limit = &policy->rules[i].limits[0];
        counts[limit->on_failure] += !limit->shadow;
        n_rules += !limit->shadow;
    }
    text_add_format(&text, "redis, %s", state);
    const char *separator = ": ";
    for (size_t i = 0; i < ARRAY_LEN(EFFECTS); i++) {
        if (counts[i] == 0) {
            continue;
        }
        text_add_format(&text, "%s%s", separator, EFFECTS[i]);
        if (counts[i] < n_rules) {
            text_add_format(&text, " (%zu of %zu limits)", counts[i], n_rules);
        }
        separator = ", ";
    }
    describe_append(reasons, json_of_span(text_span(&text)));
}

/* The upstreams of which no server is up. */
struct dead_upstreams {
    json_t **reasons;
    struct span name; /* of the latest upstream */
    size_t n;
};

static void on_readiness_upstream(void *context, const struct upstream_report *report)
{
    struct dead_upstreams *dead = context;
    dead->name = report->spec->name;
}

static void on_readiness_server(void *context, const struct upstream_server_report *report)
{
    struct dead_upstreams *dead = context;
    if (!report->is_in_use || dead->name.len == 0) {
        return;
    }
    if (dead->n++ < DEAD_UPSTREAMS_MAX) {
        char buffer[REASON_BYTES];
        struct text text = text_of(buffer, sizeof(buffer));
        text_add_format(&text, "upstream %.*s: no server is up", SPAN_ARGS(dead->name));
        describe_append(dead->reasons, json_of_span(text_span(&text)));
    }
    dead->name.len = 0; /* one reason each */
}

void ready_describe(const struct admin_request *request, json_t **json, uint16_t *status)
{
    const struct admin_options *options = &request->admin->options;
    const struct policy *policy = request->policy;
    const bool has_redis = policy->store.kind == STORE_REDIS;
    const struct store_counts counts = store_counts_of_all(options->meters);
    const char *state = has_redis ? state_of(&counts) : "ok";
    const bool is_away = has_redis && counts.links > 0 && counts.links_working == 0;
    const bool is_draining = server_is_draining(options->server);
    const bool is_unready = is_away && all_is_denied_without_redis(policy);
    json_t *reasons = json_array();
    struct dead_upstreams dead = {.reasons = &reasons};
    if (has_redis && counts.links_working < counts.links) {
        add_store_reason(policy, state, &reasons);
    }
    upstream_report_report(options->server, clock_monotonic_us(), on_readiness_upstream,
                           on_readiness_server, &dead);
    const bool has_reasons = json_array_size(reasons) > 0;
    *status = is_draining || is_unready ? 503 : 200;
    describe_set(json, "status",
                 json_string(is_draining   ? "draining"
                             : is_unready  ? "unready"
                             : has_reasons ? "degraded"
                                           : "ready"));
    if (has_reasons) {
        describe_set(json, "reasons", json_incref(reasons));
    }
    json_decref(reasons);
    json_t *store = json_pack("{ss, ss}", "kind", has_redis ? "redis" : "memory", "state", state);
    if (has_redis) {
        describe_set(&store, "links", json_integer((json_int_t)counts.links));
        describe_set(&store, "links_working", json_integer((json_int_t)counts.links_working));
    }
    describe_set(json, "store", store);
}

void ready_handle(struct admin_request *request)
{
    json_t *json = json_object();
    uint16_t status;
    ready_describe(request, &json, &status);
    answer_json(request, status, json);
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

static const char *const PROTOCOLS[] = {
    [UPSTREAM_HTTP_1_1] = "1.1", [UPSTREAM_HTTP_2] = "2", [UPSTREAM_AUTO] = "auto"};

/* Of the latest upstream. */
static void on_server(void *context, const struct upstream_server_report *report)
{
    json_t **upstreams = context;
    const json_t *upstream = json_array_get(*upstreams, json_array_size(*upstreams) - 1);
    json_t *json = json_object();
    describe_set(&json, "url", json_of_span(report->spec->endpoint.text));
    describe_set(&json, "protocol", json_string(PROTOCOLS[report->protocol]));
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
