#include <stddef.h>

#include "admin/metrics.h"

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
#define COUNTER(name, help, ...)                                                                   \
    {                                                                                              \
        TEXT("sluice_" name), METRIC_COUNTER, TEXT(help), __VA_ARGS__                              \
    }
#define GAUGE(name, help, ...)                                                                     \
    {                                                                                              \
        TEXT("sluice_" name), METRIC_GAUGE, TEXT(help), __VA_ARGS__                                \
    }
#define HISTOGRAM(name, help, ...)                                                                 \
    {                                                                                              \
        TEXT("sluice_" name), METRIC_HISTOGRAM, TEXT(help), __VA_ARGS__                            \
    }

/* A number of each worker. */
#define SUM(member) metrics_write_sum, offsetof(struct worker_meters, member)
#define UPSTREAM(member) metrics_write_upstream, offsetof(struct upstream_meters, member)
#define SERVER(member) metrics_write_server, offsetof(struct server_meters, member)
#define NODE(member) metrics_write_node, offsetof(struct store_node_meters, member)
#define MEMORY(member) metrics_write_memory, offsetof(struct memory_store_counters, member)

const struct metric METRICS[] = {
    /* --- requests --- */
    COUNTER("requests_total", "Requests that have ended.", metrics_write_requests, 0),
    HISTOGRAM("request_duration_seconds", "From the first byte of a request to its end.",
              metrics_write_latency, offsetof(struct worker_meters, total)),
    COUNTER("request_body_bytes_total", "Bytes of bodies that clients sent.", SUM(request_bytes)),
    COUNTER("response_body_bytes_total", "Bytes of bodies that clients were sent.",
            SUM(response_bytes)),
    GAUGE("held_requests", "Requests that are held until their departure (shaping).", SUM(held)),
    COUNTER("log_lines_lost_total", "Lines of the logs that could not be written.",
            metrics_write_log_lines_lost, 0),

    /* --- limits --- */
    COUNTER("decisions_total", "What limits said of requests.", metrics_write_decisions, 0),
    HISTOGRAM("decision_duration_seconds", "From asking the store to its answer.",
              metrics_write_latency, offsetof(struct worker_meters, decision)),
    COUNTER("top_denied_total", "Denials of the keys that are denied most, at least so many.",
            metrics_write_top, 0),

    GAUGE("bans", "Bans and exemptions that hold.", metrics_write_bans, 0),
    GAUGE("bans_max", "Bans and exemptions that may be held.", metrics_write_bans_max, 0),
    GAUGE("bans_unobeyed", "Bans and exemptions for which there is no room.",
          metrics_write_bans_unobeyed, 0),

    /* --- connections from clients --- */
    GAUGE("connections", "Connections from clients that are open.", SUM(connections)),
    COUNTER("connections_accepted_total", "Connections from clients that came in.", SUM(accepted)),
    COUNTER("connections_refused_total", "Connections from clients that were refused.",
            metrics_write_refusals, 0),
    COUNTER("connections_evicted_total",
            "Connections from clients that were closed for new ones, at max.connections.",
            metrics_write_evictions, 0),

    /* --- upstreams --- */
    HISTOGRAM("upstream_response_duration_seconds",
              "From the choice of a server to its response's head.", metrics_write_upstream_latency,
              0),
    COUNTER("upstream_retries_total", "Requests that were sent again.", UPSTREAM(retries)),
    GAUGE("upstream_queue_requests", "Requests that wait for a connection.", UPSTREAM(waiting)),
    COUNTER("upstream_queue_refused_total", "Requests that waited in vain, or might not.",
            metrics_write_queue_refusals, 0),
    COUNTER("server_requests_total", "Requests sent to a server.", SERVER(requests)),
    COUNTER("server_failures_total", "Requests that a server did not serve.",
            metrics_write_server_failures, 0),
    GAUGE("server_up", "1, or 0 while a server is passed over.", metrics_write_server_up, 0),
    COUNTER("server_outages_total", "Times that a server was passed over from then on.",
            SERVER(outages)),
    COUNTER("server_connects_total", "Connections to a server that were begun.", SERVER(connects)),
    GAUGE("server_connections", "Connections to a server.", metrics_write_server_connections, 0),

    /* --- the shared store --- */
    COUNTER("store_calls_total", "Commands sent to Redis for decisions.", NODE(calls)),
    COUNTER("store_failures_total", "Decisions that Redis did not make.",
            metrics_write_node_failures, 0),
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
    COUNTER("store_settlements_lost_total", "Corrections of which nobody knows what became.",
            NODE(settlements_lost)),
    GAUGE("store_instances", "Proxies that use this Redis under this prefix, as was seen last.",
          metrics_write_instances, 0),
    COUNTER("coalesce_decisions_total", "Decisions asked of the store that gathers those alike.",
            SUM(store.coalesce.decisions)),
    COUNTER("coalesce_calls_total", "Calls that were made of them.", SUM(store.coalesce.calls)),
    COUNTER("coalesce_gathered_total", "Decisions that travelled with others.",
            SUM(store.coalesce.gathered)),
    COUNTER("denial_cache_answers_total",
            "Requests denied by what is remembered of Redis's denials.",
            SUM(store.denial_cache.answers)),
    COUNTER("denial_cache_evictions_total", "Remembered denials that still held and made room.",
            SUM(store.denial_cache.evictions)),

    /* --- the embedded store --- */
    GAUGE("embedded_store_keys", "Keys in the embedded store.", MEMORY(n_keys)),
    GAUGE("embedded_store_keys_max", "Keys that fit, if their states are small.",
          MEMORY(n_keys_max)),
    GAUGE("embedded_store_used_bytes", "Memory that states in the embedded store take.",
          MEMORY(n_bytes)),
    GAUGE("embedded_store_max_bytes", "Memory that the embedded store may take.",
          metrics_write_memory_bytes, 0),
    COUNTER("embedded_store_evictions_total", "States dropped before they were untouched again.",
            MEMORY(n_evictions)),
    COUNTER("embedded_store_overflows_total", "Charges for which there was no room.",
            MEMORY(n_overflows)),

    /* --- the process --- */
    COUNTER("reloads_total", "Times that the policy was to be loaded anew.", metrics_write_reloads,
            0),
    GAUGE("last_reload_successful", "1, or 0 after a reload that left the policy as it was.",
          metrics_write_last_reload, 0),
    GAUGE("policy_loaded_timestamp_seconds",
          "When the policy in force was loaded, since unix epoch.", metrics_write_loaded, 0),
    GAUGE("build_info", "1, with the version.", metrics_write_build, 0),
    GAUGE("workers", "Threads that serve clients.", metrics_write_workers, 0),
    {TEXT("process_cpu_seconds_total"), METRIC_COUNTER,
     TEXT("Total user and system CPU time spent in seconds."), metrics_write_cpu, 0},
    {TEXT("process_start_time_seconds"), METRIC_GAUGE,
     TEXT("Start time of the process since unix epoch in seconds."), metrics_write_start_time, 0},
    {TEXT("process_resident_memory_bytes"), METRIC_GAUGE, TEXT("Resident memory size in bytes."),
     metrics_write_memory_of_process, 0},
    {TEXT("process_virtual_memory_bytes"), METRIC_GAUGE, TEXT("Virtual memory size in bytes."),
     metrics_write_virtual_memory, 0},
    {TEXT("process_open_fds"), METRIC_GAUGE, TEXT("Number of open file descriptors."),
     metrics_write_open_fds, 0},
    {TEXT("process_max_fds"), METRIC_GAUGE, TEXT("Maximum number of open file descriptors."),
     metrics_write_max_fds, 0},
};
const size_t N_METRICS = sizeof(METRICS) / sizeof(METRICS[0]);
