/* Finds routes that a client takes, or leaves, by a header or a parameter of the query, past limits
 * that hold without it. Each two routes are compared whose paths have one in common. */

#include "policy/lint/lint.h"
#include "policy/lint/lint_probe.h"
#include "policy/load/node.h"
#include "policy/matcher.h"
#include "policy/policy.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"
#include "policy/upstream_spec.h"

enum { STEPS_OF_A_JOIN = 10 }; /* beside those of its comparisons */

/* What a client can do with a route. */
enum {
    IS_SENDABLE = 1 << 0, /* send all that it asks for in headers and in the query */
    IS_TAKEN = 1 << 1,    /* and take it by one of these */
    IS_LEFT = 1 << 2,     /* leave it by one that the route wants absent */
    IS_REPORTED = 1 << 3, /* a warning says how to take it */
    LEAVING_IS_REPORTED = 1 << 4,
};

/* Conditions that a request meets, of different names. */
struct conditions {
    struct value_match items[HEAD_FIELDS_MAX];
    size_t n_items;
};

struct chooser {
    struct lint *lint;
    struct probe *search; /* has the path by which routes are searched */
    struct probe *probe;
    struct route_index index; /* of all routes, as if none named a host */
    uint8_t *traits;          /* of each route */
    const struct route *base; /* whose path it is */
    size_t number;            /* of the request of this route */
    struct span path;
    struct conditions fields;
    struct conditions query;
};

/* --- messages --- */

/* Warn that the field at @position leads to @route past the limits of @other. */
static void warn_of_field(struct lint *lint, const struct section_position *position,
                          const struct route *route, const struct route *other)
{
    const struct limit_rule *missing = route_limits_find_missing(route, other);
    node_warn(
        lint->diags, position->name_node, WARNING_CLIENT_CHOSEN_ROUTE,
        "any client can send %.*s and so take route \"%.*s\", which lacks %s%.*s%s of route "
        "\"%.*s\"; give it the same %s, let it match a value that is secret (${NAME}), or name "
        "its clients in match.client",
        SPAN_ARGS(quote_clip(position->name)), SPAN_ARGS(lint_name_of_route(lint, route->index)),
        missing != NULL ? "limit \"" : "the cost",
        SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
        SPAN_ARGS(lint_name_of_route(lint, other->index)), missing != NULL ? "limits" : "cost");
}

static bool is_of_field(const struct route_match *match, const struct value_match *condition)
{
    return condition >= match->fields && condition < match->fields + match->n_fields;
}

/* Where @condition of @route stands in the file. */
static struct section_position find_position(const struct lint *lint, const struct route *route,
                                             const struct value_match *condition)
{
    const struct spec_match *spec = &lint->routes[route->index].match;
    const struct section_list *headers = spec->headers.items;
    const struct section_list *query = spec->query.items;
    if (condition->kind == VALUE_MATCH_GRPC) {
        return (struct section_position){
            .name = condition->name,
            .name_node = node_find(spec->position.node, SPAN("grpc")),
        };
    }
    return is_of_field(&route->match, condition)
               ? headers[condition - route->match.fields].position
               : query[condition - route->match.parameters].position;
}

/* --- what clients can do with a route --- */

/* Whether a field is absent unless a trusted proxy sent it. */
static bool needs_trust(const struct value_match *condition)
{
    return field_needs_trust(field_identify(condition->name), condition->name);
}

static unsigned find_traits(const struct lint *lint, const struct route *route)
{
    const struct spec_match *spec = &lint->routes[route->index].match;
    const struct route_match *match = &route->match;
    bool is_sendable = route->upstream != NULL && match->n_clients == 0 &&
                       probe_can_send(&spec->headers, match->fields) &&
                       probe_can_send(&spec->query, match->parameters);
    bool is_taken = false;
    bool is_left = false;
    for (size_t i = 0; i < match->n_fields; i++) {
        const bool is_absent = match->fields[i].kind == VALUE_MATCH_ABSENT;
        const bool has_trust = !needs_trust(&match->fields[i]);
        is_sendable = is_sendable && (is_absent || has_trust);
        is_left = is_left || (is_absent && has_trust);
        is_taken = is_taken || !is_absent;
    }
    for (size_t i = 0; i < match->n_parameters; i++) {
        const bool is_absent = match->parameters[i].kind == VALUE_MATCH_ABSENT;
        is_left = is_left || is_absent;
        is_taken = is_taken || !is_absent;
    }
    return (is_sendable ? IS_SENDABLE : 0u) | (is_sendable && is_taken ? IS_TAKEN : 0u) |
           (is_left && route->upstream != NULL ? IS_LEFT : 0u);
}

/* --- what a request sends --- */

static void add_one(struct conditions *conditions, const struct value_match *condition)
{
    for (size_t i = 0; i < conditions->n_items; i++) {
        if (span_equals(conditions->items[i].name, condition->name)) {
            return;
        }
    }
    if (conditions->n_items < ARRAY_LEN(conditions->items)) {
        conditions->items[conditions->n_items++] = *condition;
    }
}

static void add_all(struct conditions *conditions, const struct value_match *items, size_t n_items,
                    bool is_any)
{
    for (size_t i = 0; i < n_items; i++) {
        if (items[i].kind != VALUE_MATCH_ABSENT &&
            (items[i].kind == VALUE_MATCH_PRESENT) == is_any) {
            add_one(conditions, &items[i]);
        }
    }
}

/* Add what @match asks for. @is_any: what any value meets; else what only some values meet. */
static void add_match(struct chooser *chooser, const struct route_match *match, bool is_any)
{
    add_all(&chooser->fields, match->fields, match->n_fields, is_any);
    add_all(&chooser->query, match->parameters, match->n_parameters, is_any);
}

/* Let the request send what @limited asks for; and, unless they are NULL, what @led asks for, but
 * no other value in place of one that @limited names, and the field or parameter that @absent, a
 * condition of @limited, does not want. */
static void send(struct chooser *chooser, const struct route *limited, const struct route *led,
                 const struct value_match *absent)
{
    struct conditions *fields = &chooser->fields;
    struct conditions *query = &chooser->query;
    fields->n_items = 0;
    query->n_items = 0;
    add_match(chooser, &limited->match, false);
    if (led != NULL) {
        add_match(chooser, &led->match, false);
        add_match(chooser, &led->match, true);
    }
    add_match(chooser, &limited->match, true);
    if (absent != NULL) {
        const struct value_match present = {.name = absent->name, .kind = VALUE_MATCH_PRESENT};
        add_one(is_of_field(&limited->match, absent) ? fields : query, &present);
    }
    probe_send(chooser->probe, fields->items, fields->n_items, query->items, query->n_items);
}

/* --- pairs of routes --- */

static bool asks_certificate(const struct route *route)
{
    return route->match.connection != NULL && route->match.connection->asks_certificate;
}

/* Whether a request of @limited, which is that of the probe, goes to @led with fields that it sends
 * besides: those that @led asks for, and one that @absent does not want. */
static bool leads(struct chooser *chooser, const struct route *limited, const struct route *led,
                  const struct value_match *absent)
{
    struct probe *probe = chooser->probe;
    send(chooser, limited, led, absent);
    if (probe_look_up(probe, probe->method, chooser->path) != led || probe_is_refused(probe)) {
        return false;
    }
    send(chooser, limited, NULL, NULL);
    return probe_look_up(probe, probe->method, chooser->path) == limited;
}

/* Warn if a client takes @led, before @limited, by a field. The request of the probe is of both but
 * for their fields and claims. */
static void try_taking(struct chooser *chooser, const struct route *limited,
                       const struct route *led)
{
    struct probe *probe = chooser->probe;
    const struct value_match *condition;
    probe->route = limited->match.n_claims > 0 ? limited : led; /* which has the claims */
    if (!leads(chooser, limited, led, NULL)) {
        return;
    }
    const enum match_part part = matcher_compare(led, &probe->view, &condition);
    if (part == MATCH_FIELD || part == MATCH_PARAMETER) {
        const struct section_position position = find_position(chooser->lint, led, condition);
        warn_of_field(chooser->lint, &position, led, limited);
        chooser->traits[led->index] |= IS_REPORTED;
    }
}

/* Warn if a client leaves @limited for @led, which is behind it, by a field. */
static void try_leaving(struct chooser *chooser, const struct route *limited,
                        const struct route *led)
{
    const struct route_match *match = &limited->match;
    const size_t n = match->n_fields + match->n_parameters;
    const struct value_match *found = NULL;
    chooser->probe->route = limited;
    for (size_t i = 0; i < n && found == NULL; i++) {
        const struct value_match *condition =
            i < match->n_fields ? &match->fields[i] : &match->parameters[i - match->n_fields];
        const bool is_open = condition->kind == VALUE_MATCH_ABSENT &&
                             (i >= match->n_fields || !needs_trust(condition));
        found = is_open && leads(chooser, limited, led, condition) ? condition : NULL;
    }
    if (found != NULL) {
        const struct section_position position = find_position(chooser->lint, limited, found);
        warn_of_field(chooser->lint, &position, led, limited);
        chooser->traits[limited->index] |= LEAVING_IS_REPORTED;
    }
}

/* Compare requests of @limited, with the path of the search, with @led. */
static void try_way(struct chooser *chooser, const struct route *limited, const struct route *led)
{
    struct probe *probe = chooser->probe;
    const bool is_earlier = led->index < limited->index;
    const unsigned of_led = chooser->traits[led->index];
    const unsigned of_limited = chooser->traits[limited->index];
    const bool is_way = is_earlier ? (of_led & (IS_TAKEN | IS_REPORTED)) == IS_TAKEN
                                   : (of_led & IS_SENDABLE) != 0 &&
                                         (of_limited & (IS_LEFT | LEAVING_IS_REPORTED)) == IS_LEFT;
    if (!is_way || limited->upstream == NULL || route_limits_hold(led, limited) ||
        (asks_certificate(led) && !asks_certificate(limited))) {
        return;
    }
    const struct route *base = chooser->base;
    probe->steps -= probe->steps < STEPS_OF_A_JOIN ? probe->steps : STEPS_OF_A_JOIN;
    if (!probe_join(probe, base, chooser->number, base == led ? limited : led, chooser->path)) {
        return;
    }
    const bool is_own = probe->completed == 0 && (is_earlier || base == limited);
    if (is_own || probe_compare_upstreams(led->upstream, limited->upstream) == 0) {
        if (is_earlier) {
            try_taking(chooser, limited, led);
        } else {
            try_leaving(chooser, limited, led);
        }
    }
}

/* Compare the route of @entry with the base of the search. True: no steps are left. */
static bool try_pair(void *context, const struct route_entry *entry)
{
    struct chooser *chooser = context;
    const struct route *other = &chooser->lint->policy->routes[entry->route];
    chooser->probe->steps -= chooser->probe->steps > 0;
    if (other != chooser->base && chooser->probe->steps > 0) {
        try_way(chooser, chooser->base, other);
        try_way(chooser, other, chooser->base);
    }
    return chooser->probe->steps == 0;
}

/* Compare @route with each other that one of its paths leads to. */
static void check_route(struct chooser *chooser, const struct route *route)
{
    const size_t n = probe_count(route);
    bool is_over = false;
    chooser->base = route;
    for (size_t i = 0; i < n && !is_over; i++) {
        struct probe *search = chooser->search;
        chooser->number = i;
        probe_init(search, route, i);
        chooser->path = probe_path(search);
        is_over =
            probe_read(search, chooser->path) &&
            route_index_find(&chooser->index, SPAN(""), &search->path, try_pair, chooser) != NULL;
    }
    if (is_over) {
        node_warn(
            chooser->lint->diags, chooser->lint->routes[route->index].position.node,
            WARNING_CLIENT_CHOSEN_ROUTE,
            "from route \"%.*s\" on it is not known whether fields lead past limits: too many "
            "routes have nearly the same path to compare them all",
            SPAN_ARGS(lint_name_of_route(chooser->lint, route->index)));
    }
}

static bool build_index(struct chooser *chooser)
{
    const struct policy *policy = chooser->lint->policy;
    struct arena *arena = chooser->lint->scratch;
    struct route *routes = arena_alloc(arena, policy->n_routes * sizeof(*routes));
    for (size_t i = 0; i < policy->n_routes && routes != NULL; i++) {
        routes[i] = policy->routes[i];
        routes[i].match.n_hosts = 0;
    }
    return routes != NULL &&
           route_index_build(&chooser->index, arena, routes, policy->n_routes) == STATUS_OK;
}

/* Warns once for each route that a field leads to, and for each that one leads away from. */
static void check_fields(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct chooser *chooser = arena_calloc(lint->scratch, 1, sizeof(*chooser));
    uint8_t *traits = arena_calloc(lint->scratch, policy->n_routes, sizeof(*traits));
    unsigned all = 0;
    for (size_t i = 0; i < policy->n_routes && traits != NULL; i++) {
        traits[i] = (uint8_t)find_traits(lint, &policy->routes[i]);
        all |= traits[i];
    }
    if (chooser == NULL || traits == NULL) {
        lint->no_memory = true;
    }
    if (chooser == NULL || (all & (IS_TAKEN | IS_LEFT)) == 0) {
        return;
    }
    *chooser = (struct chooser){
        .lint = lint, .search = probe_make(lint), .probe = probe_make(lint), .traits = traits};
    if (chooser->search == NULL || chooser->probe == NULL || !build_index(chooser)) {
        lint->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes && chooser->probe->steps > 0; i++) {
        if (policy->routes[i].upstream != NULL) {
            check_route(chooser, &policy->routes[i]);
        }
    }
}

/* --- calls of gRPC --- */

/* Warn if a request of another content type leaves @route, of gRPC calls, past its limits for a
 * route to the same server: many servers do not check the content type of a call. */
static void check_other_type(struct lint *lint, struct probe *probe, const struct route *route)
{
    const struct spec_match *match = &lint->routes[route->index].match;
    probe_init(probe, route, 0);
    if (probe->head.n_fields == 0) {
        return;
    }
    probe->fields[probe->head.n_fields - 1].value = SPAN("text/plain"); /* of the last condition */
    probe->method = route->match.n_methods > 0 ? probe->method : SPAN("POST");
    const struct route *other = probe_find_taker(probe);
    if (other == NULL || other == route || other->upstream != route->upstream ||
        !other->upstream->may_speak_http2 || route_limits_hold(other, route)) {
        return;
    }
    const struct limit_rule *missing = route_limits_find_missing(other, route);
    node_warn(
        lint->diags, node_find(match->position.node, SPAN("grpc")), WARNING_CLIENT_CHOSEN_ROUTE,
        "a call with another content type, which many servers run all the same, takes route "
        "\"%.*s\", which lacks %s%.*s%s of route \"%.*s\"; give it the same %s, or match "
        "the calls by their path instead: path: /PACKAGE.SERVICE/**",
        SPAN_ARGS(lint_name_of_route(lint, other->index)),
        missing != NULL ? "limit \"" : "the cost",
        SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
        SPAN_ARGS(lint_name_of_route(lint, route->index)), missing != NULL ? "limits" : "cost");
}

/* A trusted proxy may set or remove a field. */
void lint_client_chosen_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = probe_make(lint);
    for (size_t i = 0; i < policy->n_routes && probe != NULL; i++) {
        const struct route *route = &policy->routes[i];
        if (lint->routes[i].match.grpc && route->upstream != NULL) {
            check_other_type(lint, probe, route);
        }
    }
    if (policy->n_trusted_proxies == 0 && !lint->no_memory) {
        check_fields(lint);
    }
}
