/* GET /v1/live: a line of JSON each second, with what the page shows of the process now. */

#include <stdlib.h>

#include "admin/internal.h"
#include "admin/metrics.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "proxy/meters.h"
#include "proxy/reload_requests.h"
#include "store/redis_process.h"

/* --- counters, since the start of the process --- */

/* Numbers of lines, of one type. */
struct line_numbers {
    const uint64_t *u64; /* NULL: they are u32 */
    const uint32_t *u32;
    size_t width; /* of them in a line */
};

static uint64_t number_of(const struct line_numbers *numbers, size_t i)
{
    return numbers->u64 != NULL ? numbers->u64[i] : numbers->u32[i];
}

/* [[NAME, NUMBER …] …]: those with a line in the history, and as null all others. */
static json_t *describe_lines(const struct busiest *busiest, const struct name_directory *names,
                              const struct line_numbers *numbers)
{
    const size_t width = numbers->width;
    json_t *list = json_array();
    for (size_t place = 0; place <= BUSIEST_OWN; place++) {
        if (place >= busiest->n_own && place != BUSIEST_OTHER) {
            continue;
        }
        json_t *line = json_array();
        describe_append(&line,
                        place == BUSIEST_OTHER
                            ? json_null()
                            : json_of_span(name_directory_name(names, busiest->numbers[place])));
        for (size_t i = 0; i < width; i++) {
            describe_append(&line, json_integer((json_int_t)number_of(numbers, place * width + i)));
        }
        describe_append(&list, line);
    }
    return list;
}

static json_t *describe_u64(const uint64_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        describe_append(&list, json_integer((json_int_t)numbers[i]));
    }
    return list;
}

/* --- the store --- */

/* Decisions of limits by who made them. */
static json_t *describe_sources(const struct meters *meters)
{
    uint64_t sums[DECISION_SOURCES] = {0};
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(meters, i);
        for (size_t j = 0; worker != NULL && j < name_directory_count(&meters->limits); j++) {
            const struct limit_meters *limit = counter_table_peek(&worker->limits, j);
            for (size_t k = 0; limit != NULL && k < METER_SAYINGS * DECISION_SOURCES; k++) {
                sums[k % DECISION_SOURCES] +=
                    counter_read(&limit->decisions[k / DECISION_SOURCES][k % DECISION_SOURCES]);
            }
        }
    }
    json_t *json = json_object();
    for (size_t i = 0; i < DECISION_SOURCES; i++) {
        describe_set(&json, decision_source_name((enum decision_source)i).data,
                     json_integer((json_int_t)sums[i]));
    }
    return json;
}

static json_t *describe_store_counts(const struct store_counts *counts)
{
    return json_pack("{sI, sI, sI, sI, sI, sI, sI}", "calls", (json_int_t)counts->calls, "failures",
                     (json_int_t)counts->failures, "links", (json_int_t)counts->links, "links_up",
                     (json_int_t)counts->links_up, "breakers_open",
                     (json_int_t)counts->breakers_open, "round_trips", (json_int_t)counts->n_rtts,
                     "round_trip_us", (json_int_t)counts->rtt_us);
}

/* Those that have links, or were asked. That without a name is all for which there is no number. */
static json_t *describe_nodes(const struct admin_options *options)
{
    const struct name_directory *names = redis_process_nodes(options->redis);
    json_t *list = json_array();
    for (size_t number = 0; number < name_directory_count(names); number++) {
        const struct store_counts counts = store_counts_of_node(options->meters, number);
        if (counts.links == 0 && counts.calls == 0) {
            continue;
        }
        json_t *node = describe_store_counts(&counts);
        describe_set(&node, "name",
                     number == 0 ? json_null() : json_of_span(name_directory_name(names, number)));
        describe_append(&list, node);
    }
    return list;
}

static json_t *describe_store(const struct admin_options *options)
{
    const struct store_counts counts = store_counts_of_all(options->meters);
    json_t *json = describe_store_counts(&counts);
    describe_set(&json, "nodes", describe_nodes(options));
    describe_set(&json, "decisions_by", describe_sources(options->meters));
    return json;
}

/* --- TLS --- */

static json_t *describe_tls(const struct meters *meters)
{
    uint64_t n_done = 0;
    uint64_t n_resumed = 0;
    uint64_t n_failed = 0;
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(meters, i);
        for (size_t j = 0; worker != NULL && j < METER_TLS_VERSIONS; j++) {
            n_done += counter_read(&worker->handshakes[j][0]);
            n_resumed += counter_read(&worker->handshakes[j][1]);
        }
        for (size_t j = 0; worker != NULL && j < METER_TLS_FAILURES; j++) {
            n_failed += counter_read(&worker->handshake_failures[j]);
        }
    }
    return json_pack("{sI, sI, sI}", "full", (json_int_t)n_done, "resumed", (json_int_t)n_resumed,
                     "failed", (json_int_t)n_failed);
}

/* --- a line --- */

/* What was counted in the latest complete second; null: none is complete yet. */
static json_t *describe_step(const struct history *history, const struct meters *meters)
{
    const size_t n = history_count(&history->fine);
    if (n == 0) {
        return json_null();
    }
    const struct history_step *step = history_step(&history->fine, n - 1);
    json_t *json = json_object();
    json_t *latency = json_array();
    for (size_t i = 0; i <= LATENCY_EDGES; i++) {
        describe_append(&latency, json_integer(step->latency[i]));
    }
    const struct line_numbers routes = {.u32 = &step->routes[0][0], .width = HISTORY_ROUTE_VALUES};
    const struct line_numbers limits = {.u32 = &step->limits[0][0], .width = HISTORY_LIMIT_VALUES};
    describe_set(&json, "values", describe_u64(step->values, HISTORY_VALUES));
    describe_set(&json, "latency", latency);
    describe_set(&json, "routes", describe_lines(&history->routes, &meters->routes, &routes));
    describe_set(&json, "limits", describe_lines(&history->limits, &meters->limits, &limits));
    return json;
}

static void describe_history(const struct admin *admin, json_t **json)
{
    const struct history *history = &admin->history;
    const struct meters *meters = admin->options.meters;
    const struct line_numbers routes = {.u64 = &history->lines.routes[0][0],
                                        .width = HISTORY_ROUTE_VALUES};
    const struct line_numbers limits = {.u64 = &history->lines.limits[0][0],
                                        .width = HISTORY_LIMIT_VALUES};
    describe_set(json, "second", json_integer((json_int_t)history->fine.last));
    describe_set(json, "step", describe_step(history, meters));
    describe_set(json, "values", describe_u64(history->values, HISTORY_VALUES));
    describe_set(json, "latency", describe_u64(history->latency, LATENCY_EDGES + 1));
    describe_set(json, "routes", describe_lines(&history->routes, &meters->routes, &routes));
    describe_set(json, "limits", describe_lines(&history->limits, &meters->limits, &limits));
}

static void describe_reload(const struct admin *admin, json_t **json)
{
    static struct reload_report report; /* large; of this thread alone */
    reload_requests_read(admin->options.requests, &report);
    describe_set(json, "generation", json_integer((json_int_t)report.generation));
    describe_set(json, "loaded", describe_timestamp(report.loaded_us));
    describe_set(json, "reloads", json_integer((json_int_t)report.number));
    describe_set(json, "last_reload_failed", json_boolean(report.number > 0 && !report.succeeded));
}

json_t *live_describe(struct admin *admin, const struct policy *policy)
{
    const struct admin_request asked = {.admin = admin, .policy = policy};
    const uint64_t uptime_us = clock_monotonic_us() - admin->started_us;
    uint16_t ready_status;
    json_t *json = json_object();
    describe_set(&json, "time", describe_timestamp(clock_wall_us()));
    describe_set(&json, "uptime_s", json_integer((json_int_t)(uptime_us / 1000000)));
    describe_reload(admin, &json);
    ready_describe(&asked, &json, &ready_status);
    describe_history(admin, &json);
    describe_set(&json, "redis", describe_store(&admin->options));
    describe_set(&json, "tls", describe_tls(admin->options.meters));
    return json;
}

void live_send(struct admin *admin)
{
    const struct admin_options *options = &admin->options;
    size_t bytes = 0;
    if (admin->n_viewers == 0) {
        return;
    }
    const struct policy *policy = options->take_policy(options->context);
    char *line = json_dump_line(live_describe(admin, policy), JSON_COMPACT, &bytes);
    options->give_policy(options->context, policy);
    if (line != NULL) {
        admin_viewers_send(admin, span_of(line, bytes));
    }
    free(line);
}

void live_handle(struct admin_request *request)
{
    struct admin *admin = request->admin;
    size_t bytes = 0;
    if (admin->n_viewers >= ADMIN_VIEWERS_MAX &&
        !(request->may_change && admin_viewers_make_place(admin))) {
        answer_problem(request, 503, "%d viewers are connected, and no more are admitted",
                       ADMIN_VIEWERS_MAX);
        return;
    }
    char *line = json_dump_line(live_describe(admin, request->policy), JSON_COMPACT, &bytes);
    if (line == NULL) {
        answer_problem(request, 503, "out of memory");
        return;
    }
    answer_stream(request, SPAN("application/x-ndjson"), line, bytes);
}
