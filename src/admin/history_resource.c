/* GET /v1/history: the history of the process as columns, and the timer that adds to it. */

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

static void add_routes(const struct worker_meters *worker, size_t n_routes,
                       struct history_reading *reading)
{
    for (size_t number = 0; number < n_routes; number++) {
        const struct route_meters *route = counter_table_peek(&worker->routes, number);
        for (size_t i = 0; route != NULL && i < METER_CLASSES * METER_VERDICTS; i++) {
            const size_t class = i / METER_VERDICTS;
            const uint64_t n = counter_read(&route->requests[class][i % METER_VERDICTS]);
            reading->values[HISTORY_UNLIMITED + i % METER_VERDICTS] += n;
            reading->values[HISTORY_SERVER_ERRORS] += class == 5 ? n : 0;
        }
    }
}

static void read_meters(const struct meters *meters, struct history_reading *reading)
{
    const size_t n_routes = name_directory_count(&meters->routes);
    *reading = (struct history_reading){.values = {0}};
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(meters, i);
        if (worker == NULL) {
            continue;
        }
        add_routes(worker, n_routes, reading);
        reading->values[HISTORY_REQUEST_US] += counter_read(&worker->total.sum_us);
        for (size_t bucket = 0; bucket <= LATENCY_EDGES; bucket++) {
            reading->values[HISTORY_DECISIONS] += counter_read(&worker->decision.counts[bucket]);
        }
        reading->values[HISTORY_DECISION_US] += counter_read(&worker->decision.sum_us);
        reading->values[HISTORY_CONNECTIONS] += counter_read(&worker->connections);
    }
}

static void on_read(void *context)
{
    struct admin *admin = context;
    struct history_reading reading;
    read_meters(admin->options.meters, &reading);
    const uint64_t now_us = clock_monotonic_us();
    history_add(&admin->history, now_us, &reading);
    timer_arm(&admin->read_meters, READ_EVERY_US - now_us % READ_EVERY_US);
}

void admin_history_start(struct admin *admin)
{
    history_init(&admin->history);
    timer_init(&admin->read_meters, admin->loop, on_read, admin);
    on_read(admin);
}

/* --- the resource --- */

static json_t *describe_ring(const struct history_ring *ring, uint64_t wall_us, uint64_t now_us)
{
    json_t *json = json_object();
    const size_t n = history_count(ring);
    describe_set(&json, "step_s", json_integer((json_int_t)(ring->step_us / 1000000)));
    describe_set(&json, "end", describe_timestamp(wall_us - (now_us - history_end_us(ring))));
    for (size_t column = 0; column < HISTORY_VALUES; column++) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++) {
            const uint64_t value = history_step(ring, i)->values[column];
            describe_append(&list, json_integer((json_int_t)value));
        }
        describe_set(&json, COLUMNS[column], list);
    }
    return json;
}

void history_handle(struct admin_request *request)
{
    const struct history *history = &request->admin->history;
    const uint64_t wall_us = clock_wall_us();
    const uint64_t now_us = clock_monotonic_us();
    json_t *json = json_object();
    describe_set(&json, "fine", describe_ring(&history->fine, wall_us, now_us));
    describe_set(&json, "coarse", describe_ring(&history->coarse, wall_us, now_us));
    answer_json(request, 200, json);
}
