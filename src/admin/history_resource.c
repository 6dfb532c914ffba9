/* GET /v1/history: the history of the process as columns, and the timer that adds to it. */

#include <stdlib.h>
#include <string.h>

#include "admin/history.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "proxy/meters.h"

enum { READ_EVERY_US = 1000 * 1000 };

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

/* NULL: no memory. */
static char *write_text(struct admin *admin, const struct policy *policy, size_t *bytes)
{
    size_t now_bytes = 0;
    char *now = json_dump_line(live_describe(admin, policy), JSON_COMPACT, &now_bytes);
    if (now == NULL) {
        return NULL;
    }
    const struct history_text_sources sources = {
        .history = &admin->history,
        .routes = &admin->options.meters->routes,
        .limits = &admin->options.meters->limits,
        .now = span_of(now, now_bytes - 1), /* without its line end */
        .now_us = clock_monotonic_us(),
        .now_wall_us = clock_wall_us(),
    };
    char *text = history_text_write(&sources, bytes);
    free(now);
    return text;
}

void admin_history_forget_text(struct admin *admin)
{
    free(admin->history_text);
    admin->history_text = NULL;
    admin->history_text_bytes = 0;
}

/* The text is made once a second at most. */
void history_handle(struct admin_request *request)
{
    struct admin *admin = request->admin;
    if (admin->history_text == NULL) {
        admin->history_text = write_text(admin, request->policy, &admin->history_text_bytes);
    }
    char *copy = admin->history_text != NULL ? malloc(admin->history_text_bytes) : NULL;
    if (copy == NULL) {
        answer_problem(request, 503, "out of memory");
        return;
    }
    memcpy(copy, admin->history_text, admin->history_text_bytes);
    answer_content(request, 200, SPAN("application/json"), copy, admin->history_text_bytes);
}
