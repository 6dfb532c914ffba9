#include <assert.h>

#include "admin/metrics.h"
#include "base/clock.h"
#include "base/log_output.h"
#include "http2/stream.h"
#include "proxy/upstream_report.h"
#include "store/ban_growth.h"
#include "store/bans.h"
#include "store/redis_fault.h"
#include "store/redis_process.h"
#include "tls/tls_stream.h"

/* --- labels with fixed values --- */

/* The @n_ values of a label. */
#define AXIS(label_, n_, ...)                                                                      \
    {                                                                                              \
        (label_), (n_), (const char *const[n_]){__VA_ARGS__}, NULL                                 \
    }

static const struct metric_axis CLASS =
    AXIS("status", METER_CLASSES, "none", "1xx", "2xx", "3xx", "4xx", "5xx");

static const struct metric_axis VERDICT =
    AXIS("verdict", METER_VERDICTS, [METER_NONE] = "none", [METER_ALLOWED] = "allowed",
         [METER_DENIED] = "denied", [METER_UNDECIDED] = "undecided", [METER_UNKNOWN] = "unknown");

static const struct metric_axis SAYING =
    AXIS("verdict", METER_SAYINGS, [METER_LIMIT_ALLOWED] = "allowed",
         [METER_LIMIT_DENIED] = "denied", [METER_LIMIT_WOULD_DENY] = "would_deny");

static const char *source_name(size_t i)
{
    return decision_source_name((enum decision_source)i).data;
}

static const struct metric_axis SOURCE = {"source", DECISION_SOURCES, NULL, source_name};

static const struct metric_axis REFUSAL = AXIS("reason", METER_REFUSALS, "connections", "client",
                                               "descriptors", "memory", "untrusted", "header");

static const struct metric_axis GRPC_STATUS =
    AXIS("status", METER_GRPC_STATUSES, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
         "11", "12", "13", "14", "15", "16", "none");

static const struct metric_axis TLS_VERSION = AXIS("version", METER_TLS_VERSIONS, "1.2", "1.3");

static const struct metric_axis RESUMPTION = AXIS("resumed", 2, "no", "yes");

static const char *tls_failure_name(size_t i)
{
    return tls_failure_label((enum tls_failure)i);
}

static const struct metric_axis TLS_FAILURE = {"reason", METER_TLS_FAILURES, NULL,
                                               tls_failure_name};

static const char *const HTTP2_ABUSES[] = {
#define HTTP2_ABUSE_NAME(id, name) name,
    HTTP2_ABUSE_LIST(HTTP2_ABUSE_NAME)
#undef HTTP2_ABUSE_NAME
};
static_assert(ARRAY_LEN(HTTP2_ABUSES) == METER_HTTP2_ABUSES, "each kind has its counter");
static const struct metric_axis HTTP2_ABUSE = {"kind", METER_HTTP2_ABUSES, HTTP2_ABUSES, NULL};

static const struct metric_axis EVICTION =
    AXIS("kind", METER_EVICTIONS, "silent", "idle", "head", "body");

static_assert((int)METER_BANS == (int)BAN_RESULTS, "each result has its counter");
static const struct metric_axis BAN = AXIS(
    "result",
    METER_BANS, [BAN_IS_SET] = "set", [BAN_IS_SHADOW] = "shadow", [BAN_IS_TOO_MANY] = "too_many",
    [BAN_LIMIT_IS_WRONG] = "limit_is_wrong", [BAN_HAS_FAILED] = "failed");
static const struct metric_axis BUFFER_REFUSAL =
    AXIS("reason", METER_BUFFER_REFUSALS, "full", "client");
static const struct metric_axis TOKEN_REFUSAL =
    AXIS("reason", METER_TOKEN_REFUSALS, "missing", "invalid", "no_keys", "too_many");

static const struct metric_axis QUEUE_REFUSAL = AXIS(
    "reason", METER_QUEUE_REFUSALS, [METER_QUEUE_FULL] = "full", [METER_QUEUE_TIMEOUT] = "timeout");

static const struct metric_axis FAILURE =
    AXIS("reason", METER_FAILURES, [METER_UNREACHABLE] = "unreachable",
         [METER_UNACCEPTED] = "connect_timeout", [METER_INSECURE] = "tls",
         [METER_UNANSWERED] = "timeout", [METER_LOST] = "lost", [METER_INVALID] = "invalid",
         [METER_BAD_GATEWAY] = "bad_gateway", [METER_LARGE_HEAD] = "large_head", "bad_value");

static const char *fault_name(size_t i)
{
    return redis_fault_row((enum redis_fault)i)->name;
}

static const struct metric_axis FAULT = {"fault", REDIS_FAULT_COUNT, NULL, fault_name};

/* --- servers --- */

/* Of the policy in force: whose upstream it is, is told before. */
struct health_page {
    struct metrics *metrics;
    struct span upstream;
};

static void on_upstream(void *context, const struct upstream_report *report)
{
    struct health_page *page = context;
    page->upstream = report->spec->name;
}

static void on_server(void *context, const struct upstream_server_report *report)
{
    const struct health_page *page = context;
    const struct page_label labels[] = {
        {"upstream", page->upstream},
        {"server", report->spec->endpoint.text},
    };
    const bool is_up =
        report->state == UPSTREAM_SERVER_UP || report->state == UPSTREAM_SERVER_WARMING;
    metrics_add(page->metrics, labels, ARRAY_LEN(labels), is_up);
}

static void write_server_up(struct metrics *metrics)
{
    struct health_page page = {.metrics = metrics};
    upstream_report_report(metrics->admin->options.server, clock_monotonic_us(), on_upstream,
                           on_server, &page);
}

static void write_server_connections(struct metrics *metrics)
{
    const size_t n = metrics_count(metrics, OF_SERVER);
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[PAGE_LABELS_MAX];
        const size_t n_labels = metrics_label(metrics, OF_SERVER, number, labels) + 1;
        struct page_label *state = &labels[n_labels - 1];
        const uint64_t idle = metrics_sum(metrics, number, offsetof(struct server_meters, idle));
        const uint64_t all =
            metrics_sum(metrics, number, offsetof(struct server_meters, connections));
        if (number > 0 || all > 0) {
            *state = (struct page_label){"state", SPAN("active")};
            metrics_add(metrics, labels, n_labels, all > idle ? all - idle : 0);
            state->value = SPAN("idle");
            metrics_add(metrics, labels, n_labels, idle);
        }
    }
}

/* --- the stores and the process --- */

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "counts of things are read as numbers");

/* The number at the metric's offset. */
static bool read_number(const struct metrics *metrics, uint64_t *n)
{
    memcpy(n, (const char *)metrics + metrics->metric->offset, sizeof(*n));
    return true;
}

static bool read_instances(const struct metrics *metrics, uint64_t *n)
{
    *n = redis_process_instances(metrics->admin->options.redis);
    return metrics->policy->store.kind == STORE_REDIS;
}

static void write_counts(struct metrics *metrics, const struct reload_counts *counts)
{
    const struct page_label done = {"result", SPAN("done")};
    const struct page_label failed = {"result", SPAN("failed")};
    metrics_add(metrics, &done, 1, counts->n_done);
    metrics_add(metrics, &failed, 1, counts->n_failed);
}

static bool read_tenants_file(const struct metrics *metrics, uint64_t *n)
{
    *n = metrics->policy->tenants_path == NULL || metrics->tenants_files.is_last_good != 0;
    return true;
}

static void write_reloads(struct metrics *metrics)
{
    write_counts(metrics, &metrics->reloads);
}

static void write_tenants_files(struct metrics *metrics)
{
    write_counts(metrics, &metrics->tenants_files);
}

static void write_lines_lost(struct metrics *metrics)
{
    const struct page_label access = {"log", SPAN("access")};
    const struct page_label program = {"log", SPAN("program")};
    metrics_add(metrics, &access, 1, log_output_lost(LOG_KIND_ACCESS));
    metrics_add(metrics, &program, 1, log_output_lost(LOG_KIND_PROGRAM));
}

static void write_build(struct metrics *metrics)
{
    const struct page_label label = {"version", span_of_text(metrics->admin->options.version)};
    metrics_add(metrics, &label, 1, 1);
}

/* --- the table --- */

#define COUNTER(name, help, ...)                                                                   \
    {                                                                                              \
        "sluice_" name, METRIC_COUNTER, help, __VA_ARGS__                                          \
    }
#define GAUGE(name, help, ...)                                                                     \
    {                                                                                              \
        "sluice_" name, METRIC_GAUGE, help, __VA_ARGS__                                            \
    }
#define HISTOGRAM(name, help, ...)                                                                 \
    {                                                                                              \
        "sluice_" name, METRIC_HISTOGRAM, help, __VA_ARGS__                                        \
    }

/* Numbers that each worker counts. */
#define COUNTERS(a_scope, block, member)                                                           \
    .write = metrics_write_counters, .scope = (a_scope), .offset = offsetof(block, member)
#define LATENCY(a_scope, block, member)                                                            \
    .write = metrics_write_latency, .scope = (a_scope), .offset = offsetof(block, member)
#define SUM(member) COUNTERS(OF_WORKER, struct worker_meters, member)
#define UPSTREAM(member) COUNTERS(OF_UPSTREAM, struct upstream_meters, member)
#define SERVER(member) COUNTERS(OF_SERVER, struct server_meters, member)
#define NODE(member) COUNTERS(OF_NODE, struct store_node_meters, member)
#define NUMBER(member) .read = read_number, .offset = offsetof(struct metrics, member)

const struct metric METRICS[] = {
    /* --- requests --- */
    COUNTER("requests_total", "Requests that have ended.",
            COUNTERS(OF_ROUTE, struct route_meters, requests), .axes = {&CLASS, &VERDICT},
            .is_sparse = true),
    HISTOGRAM("request_duration_seconds", "From the first byte of a request to its end.",
              LATENCY(OF_WORKER, struct worker_meters, total)),
    COUNTER("request_body_bytes_total", "Bytes of bodies that clients sent.", SUM(request_bytes)),
    COUNTER("response_body_bytes_total", "Bytes of bodies that clients were sent.",
            SUM(response_bytes)),
    COUNTER("forwarded_ignored_total",
            "Requests whose X-Forwarded-For or Forwarded was ignored: no trusted proxy sent it.",
            SUM(forwarded_ignored)),
    COUNTER("unknown_plans_total", "Requests with a plan that their limit does not know.",
            SUM(unknown_plans)),
    GAUGE("held_requests", "Requests that are held until their departure (shaping).", SUM(held)),
    GAUGE("abandoned_requests", "Requests with slots whose client left while a server works on.",
          SUM(abandoned)),
    GAUGE("buffering_requests", "Requests whose body is waited for before a server is chosen.",
          SUM(buffering)),
    GAUGE("buffered_bytes", "Bytes of the buffers of request bodies (max.buffered).",
          SUM(buffered_bytes)),
    COUNTER("buffer_refused_total", "Requests whose body got no buffer in time.",
            SUM(buffer_refused), .axes = {&BUFFER_REFUSAL}),
    COUNTER("tokens_refused_total", "Requests refused for their token, or for lack of one.",
            SUM(tokens_refused), .axes = {&TOKEN_REFUSAL}),
    COUNTER("token_signatures_total", "Signatures of tokens that were computed.",
            SUM(token_signatures)),
    COUNTER("slow_uploads_total", "Requests ended because their body kept a server waiting.",
            SUM(slow_uploads)),
    COUNTER("slow_downloads_total", "Requests ended because their client kept a server waiting.",
            SUM(slow_downloads)),
    COUNTER("log_lines_lost_total", "Lines of the logs that could not be written.",
            .write = write_lines_lost),
    COUNTER("log_lines_left_out_total",
            "Lines of refused requests that the access log leaves out, for log.denied_lines.",
            SUM(lines_left_out)),

    /* --- limits --- */
    COUNTER("decisions_total", "What limits said of requests.",
            COUNTERS(OF_LIMIT, struct limit_meters, decisions), .axes = {&SAYING, &SOURCE},
            .is_sparse = true),
    HISTOGRAM("decision_duration_seconds", "From asking the store to its answer.",
              LATENCY(OF_WORKER, struct worker_meters, decision)),
    COUNTER("top_denied_total", "Denials of the keys that are denied most, at least so many.",
            .write = metrics_write_top),

    COUNTER("bans_by_policy_total",
            "Bans that limits were to set by themselves, by what became of it.", SUM(bans),
            .axes = {&BAN}),
    GAUGE("bans", "Bans and exemptions that hold.", NUMBER(n_bans)),
    GAUGE("bans_max", "Bans and exemptions that may be held.", NUMBER(bans.n_max)),
    GAUGE("bans_unobeyed", "Bans and exemptions for which there is no room.",
          NUMBER(bans.n_unobeyed)),

    /* --- connections from clients --- */
    GAUGE("connections", "Connections from clients that are open.", SUM(connections)),
    COUNTER("connections_accepted_total", "Connections from clients that came in.", SUM(accepted)),
    COUNTER("connections_refused_total", "Connections from clients that were refused.",
            SUM(refused), .axes = {&REFUSAL}),
    COUNTER("connections_evicted_total",
            "Connections from clients that were closed for new ones, at max.connections.",
            SUM(evicted), .axes = {&EVICTION}),
    COUNTER("tls_handshakes_total", "TLS handshakes with clients that succeeded.", SUM(handshakes),
            .axes = {&TLS_VERSION, &RESUMPTION}),
    COUNTER("tls_handshake_failures_total", "TLS handshakes with clients that failed.",
            SUM(handshake_failures), .axes = {&TLS_FAILURE}, .is_sparse = true),
    HISTOGRAM("tls_handshake_duration_seconds", "TLS handshakes with clients that succeeded.",
              LATENCY(OF_WORKER, struct worker_meters, handshake)),
    GAUGE("http2_connections", "HTTP/2 connections from clients that are open.",
          SUM(http2_connections)),
    COUNTER("http2_requests_total", "Requests that came by HTTP/2.", SUM(http2_requests)),
    GAUGE("http2_active_requests",
          "Requests by HTTP/2 that are under way, of those that max.http2_requests counts.",
          SUM(http2_active)),
    COUNTER("http2_evicted_total",
            "Requests by HTTP/2 that were reset for those of other clients, at max.http2_requests.",
            SUM(http2_evicted)),
    COUNTER(
        "http2_refused_total",
        "Requests by HTTP/2 that were refused for max.streams_per_client or max.http2_requests.",
        SUM(http2_refused)),
    COUNTER("http2_abuse_total",
            "Units of the abuse budgets of HTTP/2 connections that were spent.", SUM(http2_abuse),
            .axes = {&HTTP2_ABUSE}, .is_sparse = true),
    COUNTER("grpc_calls_total", "gRPC calls that came by HTTP/2, by the status that they got.",
            SUM(grpc_calls), .axes = {&GRPC_STATUS}, .is_sparse = true),
    GAUGE("certificate_not_after_seconds", "When a certificate expires, since unix epoch.",
          .write = metrics_write_certificates),

    /* --- upstreams --- */
    HISTOGRAM("upstream_response_duration_seconds",
              "From the choice of a server to its response's head.",
              LATENCY(OF_UPSTREAM, struct upstream_meters, response)),
    COUNTER("upstream_retries_total", "Requests that were sent again.", UPSTREAM(retries)),
    GAUGE("upstream_queue_requests", "Requests that wait for a connection.", UPSTREAM(waiting)),
    COUNTER("upstream_queue_refused_total", "Requests that waited in vain, or might not.",
            UPSTREAM(queue_refused), .axes = {&QUEUE_REFUSAL}),
    COUNTER("server_requests_total", "Requests sent to a server.", SERVER(requests)),
    COUNTER("server_failures_total", "Requests that a server did not serve.", SERVER(failures),
            .axes = {&FAILURE}),
    GAUGE("server_up", "1, or 0 while a server is passed over.", .write = write_server_up),
    COUNTER("server_outages_total", "Times that a server was passed over from then on.",
            SERVER(outages)),
    COUNTER("server_connects_total", "Connections to a server that were begun.", SERVER(connects)),
    GAUGE("server_connections", "Connections to a server.", .write = write_server_connections,
          .scope = OF_SERVER),
    GAUGE("server_http2_connections", "Connections to a server that speak HTTP/2.",
          SERVER(http2_connections)),

    /* --- the shared store --- */
    COUNTER("store_calls_total", "Commands sent to Redis for decisions.", NODE(calls)),
    COUNTER("store_failures_total", "Decisions that Redis did not make.", NODE(failures),
            .axes = {&FAULT}, .is_sparse = true),
    COUNTER("store_late_replies_total", "Replies of Redis that came after their deadline.",
            NODE(late_replies)),
    COUNTER("store_connects_total", "Connections to Redis that were begun.", NODE(connects)),
    GAUGE("store_links", "Links to Redis, one a worker.", NODE(links)),
    GAUGE("store_links_up", "Links to Redis that are up.", NODE(links_up)),
    GAUGE("store_breakers_open", "Links to Redis that are up and not asked: their breaker is open.",
          NODE(breakers_open)),
    COUNTER("store_breaker_openings_total", "Times that a breaker opened.", NODE(openings)),
    COUNTER("store_settlements_total", "Commands sent to Redis to correct charges.",
            NODE(settlements)),
    COUNTER("store_settlements_lost_total", "Corrections whose outcome is unknown.",
            NODE(settlements_lost)),
    HISTOGRAM("store_round_trip_seconds",
              "From sending a PING to Redis, one a second, to its reply.",
              LATENCY(OF_NODE, struct store_node_meters, rtt)),
    GAUGE("store_instances", "Proxies that use this Redis under this prefix, as was seen last.",
          .read = read_instances),
    COUNTER("coalesce_decisions_total",
            "Decisions asked of the store that makes batches of identical ones.",
            SUM(store.coalesce.decisions)),
    COUNTER("coalesce_calls_total", "Calls that were made of them.", SUM(store.coalesce.calls)),
    COUNTER("coalesce_batched_total", "Decisions that shared their call with others.",
            SUM(store.coalesce.batched)),
    COUNTER("denial_cache_answers_total",
            "Requests denied by what is remembered of Redis's denials.",
            SUM(store.denial_cache.answers)),
    COUNTER("denial_cache_evictions_total", "Remembered denials that still held and made room.",
            SUM(store.denial_cache.evictions)),
    COUNTER("client_queue_waits_total",
            "Decisions that waited since their client had too many in flight.",
            SUM(store.client_queue.waits)),
    COUNTER("client_queue_refusals_total", "Requests that were refused since they waited too long.",
            SUM(store.client_queue.refused)),

    /* --- the embedded store --- */
    GAUGE("embedded_store_keys", "Keys in the embedded store.", NUMBER(memory.n_keys)),
    GAUGE("embedded_store_keys_max", "Keys that fit, if their states are small.",
          NUMBER(memory.n_keys_max)),
    GAUGE("embedded_store_used_bytes", "Memory that states in the embedded store take.",
          NUMBER(memory.n_bytes)),
    GAUGE("embedded_store_max_bytes", "Memory that the embedded store may take.",
          NUMBER(memory_bytes_max)),
    COUNTER("embedded_store_evictions_total", "States dropped before they were untouched again.",
            NUMBER(memory.n_evictions)),
    COUNTER("embedded_store_overflows_total", "Charges for which there was no room.",
            NUMBER(memory.n_overflows)),

    /* --- the process --- */
    COUNTER("reloads_total", "Times that the policy was to be loaded anew.",
            .write = write_reloads),
    GAUGE("last_reload_successful", "1, or 0 after a reload that left the policy as it was.",
          NUMBER(reloads.is_last_good)),
    GAUGE("policy_loaded_timestamp_seconds",
          "When the policy in force was loaded, since unix epoch.", NUMBER(reloads.loaded_us),
          .is_us = true),
    COUNTER("tenants_file_loads_total", "Times that the file of tenants was to be loaded.",
            .write = write_tenants_files),
    GAUGE("last_tenants_file_load_successful",
          "1, or 0 after a file of tenants that left the tenants as they were.",
          .read = read_tenants_file),
    GAUGE("build_info", "1, with the version.", .write = write_build),
    GAUGE("workers", "Threads that serve clients.", NUMBER(n_workers)),
    {"process_cpu_seconds_total", METRIC_COUNTER,
     "Total user and system CPU time spent in seconds.", .read = metrics_read_cpu, .is_us = true},
    {"process_start_time_seconds", METRIC_GAUGE,
     "Start time of the process since unix epoch in seconds.", .read = metrics_read_start_time,
     .is_us = true},
    {"process_resident_memory_bytes", METRIC_GAUGE, "Resident memory size in bytes.",
     .read = metrics_read_resident},
    {"process_virtual_memory_bytes", METRIC_GAUGE, "Virtual memory size in bytes.",
     .read = metrics_read_virtual},
    {"process_open_fds", METRIC_GAUGE, "Number of open file descriptors.",
     .read = metrics_read_open_fds},
    {"process_max_fds", METRIC_GAUGE, "Maximum number of open file descriptors.",
     .read = metrics_read_max_fds},
};
const size_t N_METRICS = sizeof(METRICS) / sizeof(METRICS[0]);
