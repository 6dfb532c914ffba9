/* Finds routes that a client takes, or leaves, by a header or a parameter of the query, past limits
 * that hold otherwise. Each two routes are compared whose paths have one in common. */

#include "policy/lint/lint.h"
#include "policy/lint/lint_probe.h"
#include "policy/load/node.h"
#include "policy/matcher.h"
#include "policy/policy.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"
#include "policy/upstream_spec.h"

enum {
    STEPS_OF_A_JOIN = 10, /* beside those of its comparisons */
    LACK_BYTES = 512,
};

/* What a client can do with a route; less what a warning has said. */
enum {
    IS_SENDABLE = 1 << 0, /* send all that it asks for in headers and in the query */
    IS_TAKEN = 1 << 1,    /* and take it by one of these */
    /* Leave it: */
    IS_LEFT = 1 << 2,    /* by a field or a parameter that it wants absent */
    IS_RETYPED = 1 << 3, /* by a call of gRPC with another content type */
    IS_MISREAD = 1 << 4, /* without a field that servers hardly read */
    LEAVING = IS_LEFT | IS_RETYPED | IS_MISREAD,
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

/* The end of each warning of a field by which @route is left for @other. */
static void write_lack(const struct lint *lint, const struct route *route,
                       const struct route *other, struct text *text)
{
    const struct limit_rule *missing = route_limits_find_missing(other, route);
    text_add_format(text,
                    "takes route \"%.*s\", which lacks %s%.*s%s of route \"%.*s\"; give it the "
                    "same %s, or",
                    SPAN_ARGS(lint_name_of_route(lint, other->index)),
                    missing != NULL ? "limit \"" : "the cost",
                    SPAN_ARGS(missing != NULL ? missing->name : SPAN("")),
                    missing != NULL ? "\"" : "", SPAN_ARGS(lint_name_of_route(lint, route->index)),
                    missing != NULL ? "limits" : "cost");
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

/* Whether servers do the same without the field @name, or with another spelling of its value. */
static bool is_hardly_read(struct span name)
{
    static const char *const NAMES[] = {"accept",       "accept-encoding", "accept-language",
                                        "content-type", "user-agent",      "x-requested-with"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (span_equals_ignore_case(name, span_of_text(NAMES[i]))) {
            return true;
        }
    }
    return false;
}

/* How a client leaves @route by a request that @condition does not take; 0: not. */
static unsigned find_leaving(const struct route *route, const struct value_match *condition)
{
    const bool is_of_header = is_of_field(&route->match, condition);
    switch (condition->kind) {
    case VALUE_MATCH_ABSENT:
        return is_of_header && needs_trust(condition) ? 0 : IS_LEFT;
    case VALUE_MATCH_GRPC: /* many servers do not check the content type of a call */
        return route->upstream->may_speak_http2 ? IS_RETYPED : 0;
    case VALUE_MATCH_EQUALS:
    case VALUE_MATCH_PRESENT:
        return is_of_header && is_hardly_read(condition->name) ? IS_MISREAD : 0;
    }
    return 0;
}

static const struct value_match *condition_of(const struct route_match *match, size_t i)
{
    return i < match->n_fields ? &match->fields[i] : &match->parameters[i - match->n_fields];
}

/* A trusted proxy may set or remove a field. */
static unsigned find_traits(const struct lint *lint, const struct route *route)
{
    const struct spec_match *spec = &lint->routes[route->index].match;
    const struct route_match *match = &route->match;
    const bool has_proxies = lint->policy->n_trusted_proxies > 0;
    bool is_sendable = !has_proxies && match->n_clients == 0 &&
                       probe_can_send(&spec->headers, match->fields) &&
                       probe_can_send(&spec->query, match->parameters);
    bool is_taken = false;
    unsigned leaving = 0;
    if (route->upstream == NULL) {
        return 0;
    }
    for (size_t i = 0; i < match->n_fields + match->n_parameters; i++) {
        const struct value_match *condition = condition_of(match, i);
        const bool is_absent = condition->kind == VALUE_MATCH_ABSENT;
        is_sendable = is_sendable && (is_absent || i >= match->n_fields || !needs_trust(condition));
        is_taken = is_taken || !is_absent;
        leaving |= find_leaving(route, condition);
    }
    return (is_sendable ? IS_SENDABLE : 0u) | (is_sendable && is_taken ? IS_TAKEN : 0u) |
           (has_proxies ? leaving & ~(unsigned)IS_LEFT : leaving);
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

/* Add what @items but @broken ask for. @is_any: what any value meets; else what only some meet. */
static void add_all(struct conditions *conditions, const struct value_match *items, size_t n_items,
                    bool is_any, const struct value_match *broken)
{
    for (size_t i = 0; i < n_items; i++) {
        if (items[i].kind != VALUE_MATCH_ABSENT && &items[i] != broken &&
            (items[i].kind == VALUE_MATCH_PRESENT) == is_any) {
            add_one(conditions, &items[i]);
        }
    }
}

static void add_match(struct chooser *chooser, const struct route_match *match, bool is_any,
                      const struct value_match *broken)
{
    add_all(&chooser->fields, match->fields, match->n_fields, is_any, broken);
    add_all(&chooser->query, match->parameters, match->n_parameters, is_any, broken);
}

/* Add what does not meet @broken, of @limited. */
static void add_broken(struct chooser *chooser, const struct route *limited,
                       const struct value_match *broken)
{
    static struct span plain = {"text/plain", sizeof("text/plain") - 1};
    const bool is_of_header = is_of_field(&limited->match, broken);
    if (broken->kind == VALUE_MATCH_GRPC) {
        add_one(&chooser->fields, &(struct value_match){.name = broken->name,
                                                        .kind = VALUE_MATCH_EQUALS,
                                                        .values = &plain,
                                                        .n_values = 1});
    } else if (broken->kind == VALUE_MATCH_ABSENT) {
        add_one(is_of_header ? &chooser->fields : &chooser->query,
                &(struct value_match){.name = broken->name, .kind = VALUE_MATCH_PRESENT});
    }
}

/* Let the request send what @limited asks for, but for its condition @broken, which it does not
 * meet; NULL: it meets all. @led: and what this route asks for, if it is not NULL, but no other
 * value in place of one that @limited names. */
static void send(struct chooser *chooser, const struct route *limited, const struct route *led,
                 const struct value_match *broken)
{
    struct conditions *fields = &chooser->fields;
    struct conditions *query = &chooser->query;
    fields->n_items = 0;
    query->n_items = 0;
    add_match(chooser, &limited->match, false, broken);
    if (led != NULL) {
        add_match(chooser, &led->match, false, NULL);
        add_match(chooser, &led->match, true, NULL);
    }
    add_match(chooser, &limited->match, true, broken);
    if (broken != NULL) {
        add_broken(chooser, limited, broken);
    }
    probe_send(chooser->probe, fields->items, fields->n_items, query->items, query->n_items);
}

/* --- pairs of routes --- */

static bool asks_certificate(const struct route *route)
{
    return route->match.connection != NULL && route->match.connection->asks_certificate;
}

/* Whether a request of @limited, which is that of the probe, goes to @led instead if it sends what
 * @sender asks for besides, unless this is NULL, and does not meet @broken, unless this is NULL. */
static bool leads(struct chooser *chooser, const struct route *limited, const struct route *led,
                  const struct route *sender, const struct value_match *broken)
{
    struct probe *probe = chooser->probe;
    send(chooser, limited, sender, broken);
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
    if (!leads(chooser, limited, led, led, NULL)) {
        return;
    }
    const enum match_part part = matcher_compare(led, &probe->view, &condition);
    if (part == MATCH_FIELD || part == MATCH_PARAMETER) {
        const struct section_position position = find_position(chooser->lint, led, condition);
        warn_of_field(chooser->lint, &position, led, limited);
        chooser->traits[led->index] &= (uint8_t)~IS_TAKEN;
    }
}

static void warn_of_leaving(struct lint *lint, const struct route *limited, const struct route *led,
                            const struct value_match *broken)
{
    const struct section_position position = find_position(lint, limited, broken);
    char buffer[LACK_BYTES];
    struct text lack = text_of(buffer, sizeof(buffer));
    write_lack(lint, limited, led, &lack);
    switch (broken->kind) {
    case VALUE_MATCH_ABSENT:
        warn_of_field(lint, &position, led, limited);
        break;
    case VALUE_MATCH_GRPC:
        node_warn(lint->diags, position.name_node, WARNING_CLIENT_CHOSEN_ROUTE,
                  "a call with another content type, which many servers run all the same, %.*s "
                  "match the calls by their path instead: path: /PACKAGE.SERVICE/**",
                  SPAN_ARGS(text_span(&lack)));
        break;
    case VALUE_MATCH_EQUALS:
    case VALUE_MATCH_PRESENT:
        node_warn(lint->diags, position.name_node, WARNING_CLIENT_CHOSEN_ROUTE,
                  "a request without %.*s, or with another spelling of its value, which many "
                  "servers take for the same, %.*s do not match by this field",
                  SPAN_ARGS(quote_clip(position.name)), SPAN_ARGS(text_span(&lack)));
        break;
    }
}

/* A browser asks so before a request of another method, and without its fields. */
static bool is_preflight(const struct route *route, struct span method)
{
    return route->match.n_methods > 1 && span_equals(method, SPAN("OPTIONS"));
}

/* Whether a client leaves @limited for @led by a request that does not meet @broken. @is_own: it is
 * not completed from @led. */
static bool is_left(struct chooser *chooser, const struct route *limited, const struct route *led,
                    const struct value_match *broken, bool is_own)
{
    const unsigned leaving =
        find_leaving(limited, broken) & chooser->traits[limited->index] & LEAVING;
    const bool has_servers = probe_compare_upstreams(led->upstream, limited->upstream) == 0;
    switch (leaving) {
    case IS_LEFT:
        return (chooser->traits[led->index] & IS_SENDABLE) != 0 && (is_own || has_servers) &&
               leads(chooser, limited, led, led, broken);
    case IS_RETYPED:
        return has_servers && leads(chooser, limited, led, NULL, broken);
    case IS_MISREAD: /* a route that has other limits in place of those is another choice */
        return has_servers && route_limits_hold(limited, led) &&
               !is_preflight(limited, chooser->probe->method) &&
               leads(chooser, limited, led, NULL, broken);
    default:
        return false;
    }
}

/* Warn once for each way by which a client leaves @limited for @led, which is behind it. */
static void try_leaving(struct chooser *chooser, const struct route *limited,
                        const struct route *led, bool is_own)
{
    const struct route_match *match = &limited->match;
    chooser->probe->route = limited;
    for (size_t i = 0; i < match->n_fields + match->n_parameters; i++) {
        const struct value_match *condition = condition_of(match, i);
        if (is_left(chooser, limited, led, condition, is_own)) {
            warn_of_leaving(chooser->lint, limited, led, condition);
            chooser->traits[limited->index] &= (uint8_t)~find_leaving(limited, condition);
        }
    }
}

/* Compare requests of @limited, with the path of the search, with @led. */
static void try_way(struct chooser *chooser, const struct route *limited, const struct route *led)
{
    struct probe *probe = chooser->probe;
    const bool is_earlier = led->index < limited->index;
    const bool is_way = is_earlier ? (chooser->traits[led->index] & IS_TAKEN) != 0
                                   : (chooser->traits[limited->index] & LEAVING) != 0;
    if (!is_way || limited->upstream == NULL || led->upstream == NULL ||
        route_limits_hold(led, limited) || (asks_certificate(led) && !asks_certificate(limited))) {
        return;
    }
    const struct route *base = chooser->base;
    probe->steps -= probe->steps < STEPS_OF_A_JOIN ? probe->steps : STEPS_OF_A_JOIN;
    if (!probe_join(probe, base, chooser->number, base == led ? limited : led, chooser->path)) {
        return;
    }
    if (!is_earlier) {
        try_leaving(chooser, limited, led, probe->completed == 0 && base == limited);
    } else if (probe->completed == 0 ||
               probe_compare_upstreams(led->upstream, limited->upstream) == 0) {
        try_taking(chooser, limited, led);
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

/* Warns once for each route that a field leads to, and for each way to leave one. */
void lint_client_chosen_routes(struct lint *lint)
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
        return;
    }
    if ((all & (IS_TAKEN | LEAVING)) == 0) {
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
