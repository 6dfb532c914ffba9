/* GET /v1/upstreams: the servers, and how they are doing. */

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "proxy/upstream_report.h"

struct listing {
    json_t *upstreams; /* NULL: no memory */
    json_t *servers;   /* of the latest; borrowed */
};

static const char *balance_word(enum balance_kind balance)
{
    switch (balance) {
    case BALANCE_ROUND_ROBIN:
        return "round_robin";
    case BALANCE_LEAST_REQUESTS:
        return "least_requests";
    case BALANCE_HASH:
        return "hash";
    }
    return "round_robin";
}

static const char *state_word(enum upstream_server_state state)
{
    switch (state) {
    case UPSTREAM_SERVER_IN:
        return "in";
    case UPSTREAM_SERVER_WARMING:
        return "warming";
    case UPSTREAM_SERVER_DUE:
        return "on trial";
    case UPSTREAM_SERVER_EJECTED:
        return "ejected";
    case UPSTREAM_SERVER_FAILS_CHECKS:
        return "fails checks";
    }
    return "in";
}

static void on_upstream(void *context, const struct upstream_report *report)
{
    struct listing *listing = context;
    const struct upstream_spec *spec = report->spec;
    json_t *json = json_object();
    listing->servers = json_array();
    describe_set(&json, "name", json_of_span(spec->name));
    describe_set(&json, "balance", json_string(balance_word(spec->balance)));
    if (spec->max_connections > 0) {
        describe_set(&json, "max_connections", json_integer(spec->max_connections));
        describe_set(&json, "waiting", json_integer(report->n_waiting));
    }
    if (spec->health.path.len > 0) {
        const struct span path = spec->health.path; /* its query may hold what is not to be seen */
        describe_set(&json, "health", json_of_span(span_of(path.data, span_find(path, '?'))));
    }
    describe_set(&json, "servers", listing->servers);
    listing->servers = json != NULL ? listing->servers : NULL;
    describe_append(&listing->upstreams, json);
    listing->servers = listing->upstreams != NULL ? listing->servers : NULL;
}

static void on_server(void *context, const struct upstream_server_report *report)
{
    struct listing *listing = context;
    json_t *json = json_object();
    if (listing->servers == NULL) {
        json_decref(json);
        return;
    }
    describe_set(&json, "url", json_of_span(report->spec->endpoint.text));
    describe_set(&json, "state", json_string(state_word(report->state)));
    describe_set(&json, "weight", json_integer(report->spec->weight));
    if (report->state == UPSTREAM_SERVER_EJECTED) {
        describe_set(&json, "trial_in_ms",
                     json_integer((json_int_t)((report->trial_in_us + 999) / 1000)));
    }
    if (report->counts_requests) {
        describe_set(&json, "requests", json_integer(report->n_requests));
    }
    if (report->has_places) {
        describe_set(&json, "connections", json_integer(report->n_connections));
    }
    if (json == NULL || json_array_append_new(listing->servers, json) != 0) {
        json_decref(listing->upstreams);
        *listing = (struct listing){.upstreams = NULL};
    }
}

void upstreams_handle(struct admin_request *request)
{
    struct listing listing = {.upstreams = json_array()};
    upstream_report_tell(request->admin->options.server, clock_monotonic_us(), on_upstream,
                         on_server, &listing);
    answer_json(request, 200, json_pack("{so}", "upstreams", listing.upstreams));
}
