/* Finds conditions and keys by fields that the server gets otherwise, or that it hardly reads. */

#include "http/field.h"
#include "policy/lint/lint.h"
#include "policy/load/node.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"

/* --- fields that are replaced --- */

/* Where a proxy is trusted, the field counts from it alone, as the policy wants it. */
static bool is_never_read(const struct lint *lint, struct span name)
{
    return lint->policy->n_trusted_proxies == 0 && field_needs_trust(field_identify(name), name);
}

static void warn_of_replaced(struct lint *lint, const struct node *node, struct span name)
{
    node_warn(lint->diags, node, WARNING_REPLACED_FIELD,
              "no peer is trusted, so that %.*s counts as absent in every request, as servers "
              "never get it from clients: name your proxies in trusted_proxies, or read what "
              "sluice knows by itself, as host, scheme or client.ip",
              SPAN_ARGS(quote_clip(name)));
}

/* True: warned. */
static bool check_term(struct lint *lint, const struct key_term *term, const struct node *node)
{
    const bool is_replaced =
        KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_HEADER && is_never_read(lint, term->name);
    if (is_replaced) {
        warn_of_replaced(lint, node, term->name);
    }
    return is_replaced;
}

/* Warns once. */
static void check_part(struct lint *lint, const struct key_part *part, const struct node *node)
{
    bool is_warned = false;
    for (size_t i = 0; i < part->n_terms && !is_warned; i++) {
        const struct key_term *term = &part->terms[i];
        is_warned = term->position == NULL ? check_term(lint, term, node)
                                           : check_term(lint, &term->position->latitude, node) ||
                                                 check_term(lint, &term->position->longitude, node);
    }
}

void lint_replaced_keys(struct lint *lint, const struct limit_rule *rule,
                        const struct spec_limit *spec)
{
    const struct spec_key_part *parts = spec->key.items;
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        check_part(lint, &rule->key.parts[i], parts[i].node);
    }
}

void lint_replaced_conditions(struct lint *lint, const struct route *route,
                              const struct spec_route *spec)
{
    const struct section_list *headers = spec->match.headers.items;
    for (size_t i = 0; i < spec->match.headers.n_items; i++) {
        if (is_never_read(lint, headers[i].position.name)) {
            warn_of_replaced(lint, headers[i].position.name_node, headers[i].position.name);
        }
    }
    if (route->cost.kind == COST_REQUEST_HEADER && route->cost.trust_any && /* untrusted-cost */
        is_never_read(lint, route->cost.field)) {
        warn_of_replaced(lint, spec->cost.from.node, route->cost.field);
    }
}

/* By such fields servers are chosen, or tokens sent. */
void lint_replaced_choices(struct lint *lint)
{
    const struct spec_upstream *upstreams = lint->spec->upstreams.items;
    const struct spec_jwt *providers = lint->spec->jwt.items;
    for (size_t i = 0; i < lint->spec->upstreams.n_items; i++) {
        const struct spec_balance *balance = &upstreams[i].balance;
        for (size_t j = 0; j < balance->key.n_parts; j++) {
            check_part(lint, &balance->key.parts[j], balance->node);
        }
    }
    for (size_t i = 0; i < lint->spec->jwt.n_items; i++) {
        const struct spec_key_part *from = providers[i].from.items;
        for (size_t j = 0; j < providers[i].from.n_items; j++) {
            check_part(lint, &from[j].part, from[j].node);
        }
    }
}

/* --- routes that a client leaves by a field --- */

/* Only a policy built to be slow needs more. */
static const uint64_t STEPS_MAX = UINT64_C(5000000);

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

/* The first such field that @route asks for, or NULL. */
static const struct section_position *find_hardly_read(const struct lint *lint,
                                                       const struct route *route)
{
    const struct spec_match *spec = &lint->routes[route->index].match;
    const struct section_list *headers = spec->headers.items;
    for (size_t i = 0; i < spec->headers.n_items; i++) {
        if (route->match.fields[i].kind != VALUE_MATCH_ABSENT &&
            is_hardly_read(headers[i].position.name)) {
            return &headers[i].position;
        }
    }
    return NULL;
}

/* The first route behind that of @entry that takes all its requests of @part, whatever their fields
 * and query. */
static const struct route *find_behind(const struct policy *policy, const struct route_entry *entry,
                                       const struct cover_part *part, uint64_t *steps)
{
    const struct route_index *index = policy->route_index;
    for (size_t i = (size_t)(entry - index->entries) + 1; i<index->n_entries && * steps> 0; i++) {
        const struct route_entry *other = &index->entries[i];
        const struct route *route = &policy->routes[other->route];
        --*steps;
        if (other->route != entry->route &&
            route->match.n_fields + route->match.n_parameters == 0 &&
            cover_takes(policy, other, entry, part)) {
            return route;
        }
    }
    return NULL;
}

/* A route behind it that has other limits in place of those is another choice, and no gap. */
static bool is_laxer(const struct route *route, const struct route *other)
{
    return other->upstream == route->upstream && route_limits_hold(route, other) &&
           !route_limits_hold(other, route);
}

/* A browser asks so before a request of another method, and without its fields. */
static bool is_preflight(const struct route_match *match, struct span method)
{
    return match->n_methods > 1 && span_equals(method, SPAN("OPTIONS"));
}

/* The first laxer route that takes requests of @route, of one of its methods at one of its
 * @entries, without the field; NULL: there is none. */
static const struct route *find_laxer(const struct policy *policy, const struct route *route,
                                      const struct route_entry *entries, uint64_t *steps)
{
    const struct route_match *match = &route->match;
    const size_t n_methods = match->n_methods > 0 ? match->n_methods : 1;
    const size_t n_parts = route_index_count(match) * n_methods;
    for (size_t i = 0; i<n_parts && * steps> 0; i++) {
        const struct route_entry *entry = &entries[i / n_methods];
        const struct cover_part part = {
            .method = match->n_methods > 0 ? match->methods[i % n_methods] : SPAN(""),
        };
        const bool is_left = entry->leaves_head && span_equals(part.method, SPAN("HEAD"));
        const struct route *other = is_left || is_preflight(match, part.method)
                                        ? NULL
                                        : find_behind(policy, entry, &part, steps);
        if (other != NULL && is_laxer(route, other) &&
            cover_find_taker(policy, entry, &part, steps) == NULL) {
            return other;
        }
    }
    return NULL;
}

void lint_left_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct route_entry *entries = policy->route_index->entries;
    uint64_t steps = STEPS_MAX;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const struct section_position *position =
            route->upstream != NULL ? find_hardly_read(lint, route) : NULL;
        const struct route *other =
            position != NULL ? find_laxer(policy, route, entries, &steps) : NULL;
        entries += route_index_count(&route->match);
        if (other == NULL) {
            continue;
        }
        const struct limit_rule *missing = route_limits_find_missing(other, route);
        node_warn(
            lint->diags, position->name_node, WARNING_CLIENT_CHOSEN_ROUTE,
            "a request without %.*s, or with another spelling of its value, which many servers "
            "take for the same, takes route \"%.*s\", which lacks %s%.*s%s of route "
            "\"%.*s\"; give it the same %s, or do not match by this field",
            SPAN_ARGS(quote_clip(position->name)),
            SPAN_ARGS(lint_name_of_route(lint, other->index)),
            missing != NULL ? "limit \"" : "the cost",
            SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
            SPAN_ARGS(lint_name_of_route(lint, i)), missing != NULL ? "limits" : "cost");
    }
}
