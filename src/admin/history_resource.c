/* GET /v1/history: the history of the process as columns, and the timer that adds to it. */

#include <stdlib.h>
#include <string.h>

#include "admin/describe.h"
#include "admin/history.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "proxy/meters.h"

enum { READ_EVERY_US = 1000 * 1000 };

static const char *const COLUMNS[HISTORY_VALUES] = {
    [HISTORY_UNLIMITED] = "unlimited",     [HISTORY_ALLOWED] = "allowed",
    [HISTORY_DENIED] = "denied",           [HISTORY_UNDECIDED] = "undecided",
    [HISTORY_UNKNOWN] = "unknown",         [HISTORY_SERVER_ERRORS] = "server_errors",
    [HISTORY_REQUEST_US] = "request_us",   [HISTORY_DECISIONS] = "decisions",
    [HISTORY_DECISION_US] = "decision_us", [HISTORY_CONNECTIONS] = "connections",
};

/* --- reading --- */

typedef uint64_t route_row[HISTORY_ROUTE_VALUES];
typedef uint64_t limit_row[HISTORY_LIMIT_VALUES];

static void add_route(const struct route_meters *route, struct history_reading *reading,
                      uint64_t *row)
{
    for (size_t i = 0; i < METER_CLASSES * METER_VERDICTS; i++) {
        const size_t class = i / METER_VERDICTS;
        const size_t verdict = i % METER_VERDICTS;
        const uint64_t n = counter_read(&route->requests[class][verdict]);
        const uint64_t n_errors = class == 5 ? n : 0;
        reading->values[HISTORY_UNLIMITED + verdict] += n;
        reading->values[HISTORY_SERVER_ERRORS] += n_errors;
        row[HISTORY_ROUTE_REQUESTS] += n;
        row[HISTORY_ROUTE_DENIED] += verdict == METER_DENIED ? n : 0;
        row[HISTORY_ROUTE_ERRORS] += n_errors;
    }
    row[HISTORY_ROUTE_US] += counter_read(&route->total_us);
}

static void add_limit(const struct limit_meters *limit, uint64_t *row)
{
    _Static_assert((size_t)METER_SAYINGS == (size_t)HISTORY_LIMIT_VALUES, "they are the same");
    for (size_t saying = 0; saying < METER_SAYINGS; saying++) {
        for (size_t source = 0; source < DECISION_SOURCES; source++) {
            row[saying] += counter_read(&limit->decisions[saying][source]);
        }
    }
}

static void add_worker(const struct worker_meters *worker, struct history_reading *reading,
                       route_row *routes, limit_row *limits)
{
    for (size_t number = 0; number < reading->n_routes; number++) {
        const struct route_meters *route = counter_table_peek(&worker->routes, number);
        if (route != NULL) {
            add_route(route, reading, routes[number]);
        }
    }
    for (size_t number = 0; number < reading->n_limits; number++) {
        const struct limit_meters *limit = counter_table_peek(&worker->limits, number);
        if (limit != NULL) {
            add_limit(limit, limits[number]);
        }
    }
    for (size_t bucket = 0; bucket <= LATENCY_EDGES; bucket++) {
        reading->latency[bucket] += counter_read(&worker->total.counts[bucket]);
        reading->values[HISTORY_DECISIONS] += counter_read(&worker->decision.counts[bucket]);
    }
    reading->values[HISTORY_REQUEST_US] += counter_read(&worker->total.sum_us);
    reading->values[HISTORY_DECISION_US] += counter_read(&worker->decision.sum_us);
    reading->values[HISTORY_CONNECTIONS] += counter_read(&worker->connections);
}

/* The rows have one each for the routes and limits that @reading counts, all zero. */
static void read_meters(const struct meters *meters, struct history_reading *reading,
                        route_row *routes, limit_row *limits)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(meters, i);
        if (worker != NULL) {
            add_worker(worker, reading, routes, limits);
        }
    }
    reading->routes = (const uint64_t(*)[HISTORY_ROUTE_VALUES])routes;
    reading->limits = (const uint64_t(*)[HISTORY_LIMIT_VALUES])limits;
}

static void read_now(struct admin *admin)
{
    const struct meters *meters = admin->options.meters;
    struct history_reading reading = {
        .n_routes = name_directory_count(&meters->routes),
        .n_limits = name_directory_count(&meters->limits),
    };
    route_row *routes = calloc(reading.n_routes + 1, sizeof(routes[0]));
    limit_row *limits = calloc(reading.n_limits + 1, sizeof(limits[0]));
    if (routes != NULL && limits != NULL) {
        read_meters(meters, &reading, routes, limits);
        /* Without memory what is new is counted among the others. */
        (void)!history_add(&admin->history, clock_monotonic_us(), &reading);
    }
    free(routes);
    free(limits);
}

static void on_second(void *context)
{
    struct admin *admin = context;
    admin_history_forget_text(admin);
    read_now(admin);
    live_send(admin);
    timer_arm(&admin->each_second, READ_EVERY_US - clock_monotonic_us() % READ_EVERY_US);
}

void admin_history_start(struct admin *admin)
{
    history_init(&admin->history);
    timer_init(&admin->each_second, admin->loop, on_second, admin);
    on_second(admin);
}

/* --- the resource --- */

static json_t *describe_u32(const uint32_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        describe_append(&list, json_integer(numbers[i]));
    }
    return list;
}

static bool is_any(const uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (numbers[i] > 0) {
            return true;
        }
    }
    return false;
}

/* Each step's numbers at @offset of its line, @width of them; null: all are 0. */
static json_t *describe_line(const struct history_ring *ring, size_t offset, size_t width)
{
    json_t *list = json_array();
    const size_t n = history_count(ring);
    for (size_t i = 0; i < n; i++) {
        const uint32_t *numbers = (const uint32_t *)((const char *)history_step(ring, i) + offset);
        describe_append(&list, is_any(numbers, width) ? describe_u32(numbers, width) : json_null());
    }
    return list;
}

static json_t *describe_lines(const struct history_ring *ring, const struct busiest *busiest,
                              const struct name_directory *names, size_t offset, size_t width)
{
    json_t *lines = json_array();
    for (size_t place = 0; place <= BUSIEST_OWN; place++) {
        if (place >= busiest->n_own && place != BUSIEST_OTHER) {
            continue;
        }
        json_t *line = json_object();
        if (place != BUSIEST_OTHER) {
            describe_set(&line, "name",
                         json_of_span(name_directory_name(names, busiest->numbers[place])));
        }
        describe_set(&line, "steps",
                     describe_line(ring, offset + place * width * sizeof(uint32_t), width));
        describe_append(&lines, line);
    }
    return lines;
}

static json_t *describe_latency(const struct history_ring *ring)
{
    return describe_line(ring, offsetof(struct history_step, latency), LATENCY_EDGES + 1);
}

static json_t *describe_ring(const struct history *history, const struct history_ring *ring,
                             const struct meters *meters)
{
    const uint64_t age_us = clock_monotonic_us() - history_end_us(ring);
    json_t *json = json_object();
    const size_t n = history_count(ring);
    describe_set(&json, "step_s", json_integer((json_int_t)(ring->step_us / 1000000)));
    describe_set(&json, "end", describe_timestamp(clock_wall_us() - age_us));
    for (size_t column = 0; column < HISTORY_VALUES; column++) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++) {
            const uint64_t value = history_step(ring, i)->values[column];
            describe_append(&list, json_integer((json_int_t)value));
        }
        describe_set(&json, COLUMNS[column], list);
    }
    describe_set(&json, "latency", describe_latency(ring));
    describe_set(&json, "routes",
                 describe_lines(ring, &history->routes, &meters->routes,
                                offsetof(struct history_step, routes), HISTORY_ROUTE_VALUES));
    describe_set(&json, "limits",
                 describe_lines(ring, &history->limits, &meters->limits,
                                offsetof(struct history_step, limits), HISTORY_LIMIT_VALUES));
    return json;
}

static json_t *describe_latency_edges(void)
{
    json_t *edges = json_array();
    for (size_t i = 0; i < LATENCY_EDGES; i++) {
        describe_append(&edges, json_integer((json_int_t)latency_edge_us(i)));
    }
    return edges;
}

static json_t *describe_history(struct admin *admin, const struct policy *policy)
{
    const struct history *history = &admin->history;
    const struct meters *meters = admin->options.meters;
    json_t *json = json_object();
    describe_set(&json, "latency_edges_us", describe_latency_edges());
    describe_set(&json, "now", live_describe(admin, policy));
    describe_set(&json, "fine", describe_ring(history, &history->fine, meters));
    describe_set(&json, "coarse", describe_ring(history, &history->coarse, meters));
    return json;
}

void admin_history_forget_text(struct admin *admin)
{
    free(admin->history_text);
    admin->history_text = NULL;
    admin->history_text_bytes = 0;
}

/* The text is made once a second at most: it takes tens of ms where there is much. */
void history_handle(struct admin_request *request)
{
    struct admin *admin = request->admin;
    if (admin->history_text == NULL) {
        admin->history_text = json_dump_line(describe_history(admin, request->policy), JSON_COMPACT,
                                             &admin->history_text_bytes);
    }
    char *copy = admin->history_text != NULL ? malloc(admin->history_text_bytes) : NULL;
    if (copy == NULL) {
        answer_problem(request, 503, "out of memory");
        return;
    }
    memcpy(copy, admin->history_text, admin->history_text_bytes);
    answer_content(request, 200, SPAN("application/json"), copy, admin->history_text_bytes);
}
