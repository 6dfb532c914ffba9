/* GET /v1/status: the process at a glance: what runs since when, under which policy, where it
 * listens, how its store and servers are, and what it has counted. */

#include <stddef.h>
#include <unistd.h>

#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "base/text.h"
#include "proxy/meters.h"
#include "proxy/reload_requests.h"
#include "proxy/server.h"
#include "proxy/upstream_report.h"

static const char *const VERDICTS[METER_VERDICTS] = {
    [METER_NONE] = "unlimited",      [METER_ALLOWED] = "allowed", [METER_DENIED] = "denied",
    [METER_UNDECIDED] = "undecided", [METER_UNKNOWN] = "unknown",
};

static json_t *describe_listeners(const struct listener_section *listeners, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        describe_append(&list, json_of_span(listeners[i].endpoint.text));
    }
    return list;
}

/* The addresses of the page: browsers reach no unix socket. */
static json_t *describe_pages(const struct admin_section *admin)
{
    json_t *list = json_array();
    for (size_t i = 0; i < admin->n_listeners; i++) {
        const struct listener_section *listener = &admin->listeners[i];
        const struct span place = listener->endpoint.text;
        char buffer[HOST_BYTES_MAX + 32];
        struct text url = text_of(buffer, sizeof(buffer));
        if (!span_starts_with(place, SPAN("unix:"))) {
            text_add_format(&url, "%s://%.*s/ui/", listener->tls != NULL ? "https" : "http",
                            SPAN_ARGS(place));
            describe_append(&list, json_of_span(text_span(&url)));
        }
    }
    return list;
}

/* --- servers --- */

struct server_counts {
    int n;
    int n_up;
};

static void on_upstream(void *context, const struct upstream_report *report)
{
    (void)context;
    (void)report;
}

static void on_server(void *context, const struct upstream_server_report *report)
{
    struct server_counts *counts = context;
    counts->n++;
    counts->n_up += report->state == UPSTREAM_SERVER_UP || report->state == UPSTREAM_SERVER_WARMING;
}

static json_t *describe_servers(struct server *server)
{
    struct server_counts counts = {.n = 0};
    upstream_report_report(server, clock_monotonic_us(), on_upstream, on_server, &counts);
    return json_pack("{si, si}", "all", counts.n, "up", counts.n_up);
}

/* --- counters --- */

static void add_requests(const struct worker_meters *worker, size_t n_routes,
                         uint64_t sums[METER_VERDICTS])
{
    for (size_t number = 0; number < n_routes; number++) {
        const struct route_meters *route = counter_table_peek(&worker->routes, number);
        for (size_t i = 0; route != NULL && i < METER_CLASSES * METER_VERDICTS; i++) {
            sums[i % METER_VERDICTS] +=
                counter_read(&route->requests[i / METER_VERDICTS][i % METER_VERDICTS]);
        }
    }
}

/* All requests that have ended, by their verdict, and the connections that are open. */
static void describe_counters(json_t **json, const struct meters *meters)
{
    uint64_t sums[METER_VERDICTS] = {0};
    uint64_t all = 0;
    uint64_t connections = 0;
    const size_t n_routes = name_directory_count(&meters->routes);
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(meters, i);
        if (worker != NULL) {
            add_requests(worker, n_routes, sums);
            connections += counter_read(&worker->connections);
        }
    }
    json_t *requests = json_object();
    for (size_t i = 0; i < METER_VERDICTS; i++) {
        describe_set(&requests, VERDICTS[i], json_integer((json_int_t)sums[i]));
        all += sums[i];
    }
    describe_set(&requests, "all", json_integer((json_int_t)all));
    describe_set(json, "connections", json_integer((json_int_t)connections));
    describe_set(json, "requests", requests);
}

/* --- all of it --- */

void status_handle(struct admin_request *request)
{
    static struct reload_report report; /* large; of this thread alone */
    const struct admin_options *options = &request->admin->options;
    const struct policy *policy = request->policy;
    uint16_t ready_status;
    reload_requests_read(options->requests, &report);
    json_t *json = json_object();
    describe_set(&json, "version", json_string(options->version));
    describe_set(&json, "pid", json_integer(getpid()));
    describe_set(
        &json, "uptime_s",
        json_integer((json_int_t)((clock_monotonic_us() - request->admin->started_us) / 1000000)));
    ready_describe(request, &json, &ready_status);
    describe_set(&json, "policy", json_of_span(span_of_text(options->policy_path)));
    describe_set(&json, "generation", json_integer((json_int_t)report.generation));
    describe_set(&json, "loaded", describe_timestamp(report.loaded_us));
    describe_set(&json, "last_reload_failed", json_boolean(report.number > 0 && !report.succeeded));
    describe_set(&json, "listen", describe_listeners(policy->listeners, policy->n_listeners));
    describe_set(&json, "admin",
                 describe_listeners(policy->admin.listeners, policy->admin.n_listeners));
    describe_set(&json, "pages", describe_pages(&policy->admin));
    if (options->control != NULL) {
        describe_set(&json, "control", json_of_span(options->control->endpoint.text));
    }
    describe_set(&json, "servers", describe_servers(options->server));
    describe_counters(&json, options->meters);
    answer_json(request, 200, json);
}
