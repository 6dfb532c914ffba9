/* Keys that bind nobody, since clients choose what they are counted by. */

#include "policy/lint.h"

/* --- values that a client cannot choose on a route --- */

/* The segment number @number, from 1, of @match, if its pattern fixes that; else NULL. */
static const struct pattern_segment *fixed_segment(const struct route_match *match, uint32_t number)
{
    for (size_t i = 0; i < match->n_segments; i++) {
        if (match->segments[i].kind == SEGMENT_REST) {
            return NULL;
        }
        if (i + 1 == number) {
            return match->segments[i].kind == SEGMENT_LITERAL ? &match->segments[i] : NULL;
        }
    }
    return NULL;
}

static bool is_fixed_path(const struct route_match *match)
{
    for (size_t i = 0; i < match->n_segments; i++) {
        if (match->segments[i].kind != SEGMENT_LITERAL) {
            return false;
        }
    }
    return match->segments != NULL;
}

/* Whether clients cannot take one value of @term after another. */
static bool is_firm_term(const struct key_term *term, const struct route_match *match)
{
    switch (term->source) {
    case KEY_CLIENT_IP:
    case KEY_ROUTE:
    case KEY_GLOBAL:
        return true;
    case KEY_METHOD:
        return match->n_methods > 0;
    case KEY_HOST:
        return match->host.len > 0 && match->host.data[0] != '*';
    case KEY_PATH:
        return is_fixed_path(match);
    case KEY_PATH_SEGMENT:
        return fixed_segment(match, term->number) != NULL;
    case KEY_PATH_CAPTURE:
    case KEY_HEADER:
    case KEY_COOKIE:
    case KEY_QUERY:
        return false;
    }
    return false;
}

static bool is_firm_key(const struct key *key, const struct route_match *match)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            if (!is_firm_term(&key->parts[i].terms[j], match)) {
                return false;
            }
        }
    }
    return true;
}

/* --- routes that only such keys limit --- */

/* The first enforced limit of @route, if none has a firm key; else NULL. */
static const struct limit_rule *evadable_rule(const struct route *route)
{
    const struct limit_rule *first = NULL;
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        if (rule->limits[0].shadow) {
            continue;
        }
        if (is_firm_key(&rule->key, &route->match)) {
            return NULL;
        }
        first = first != NULL ? first : rule;
    }
    return first;
}

void lint_client_chosen_keys(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const struct limit_rule *rule = evadable_rule(route);
        if (rule != NULL) {
            lint_warn(lint, WARNING_CLIENT_CHOSEN_KEY, lint_node_of_limits(lint, i),
                      "route \"%.*s\" is limited only by what clients choose: limit \"%.*s\" "
                      "counts by a value that can be another in each request; put a limit by "
                      "client.ip beside it",
                      SPAN_ARGS(lint_name_of_route(lint, i)), SPAN_ARGS(rule->name));
        }
    }
}

/* --- addresses that a client writes itself --- */

/* Fields that proxies write the client's address into. Of lists a client writes the
 * start, whoever appends. */
static const struct {
    const char *name; /* in lower case */
    bool is_list;
} ADDRESS_FIELDS[] = {
    {"x-forwarded-for", true},
    {"forwarded", true},
    {"x-real-ip", false},
    {"x-client-ip", false},
    {"true-client-ip", false},
    {"cf-connecting-ip", false},
    {"x-cluster-client-ip", false},
    {"fastly-client-ip", false},
    {"fly-client-ip", false},
    {"x-original-forwarded-for", true},
    {"x-envoy-external-address", false},
};

/* Whether @term reads an address that anybody can set. One value, of a proxy that
 * is trusted, may be meant. */
static bool is_spoofable(const struct key_term *term, bool has_proxies)
{
    for (size_t i = 0; i < ARRAY_LEN(ADDRESS_FIELDS) && term->source == KEY_HEADER; i++) {
        if (span_equals(term->name, span_of_text(ADDRESS_FIELDS[i].name))) {
            return ADDRESS_FIELDS[i].is_list || !has_proxies;
        }
    }
    return false;
}

static bool is_spoofable_part(const struct key_part *part, bool has_proxies,
                              const struct key_term **term)
{
    for (size_t i = 0; i < part->n_terms; i++) {
        *term = &part->terms[i];
        if (is_spoofable(*term, has_proxies)) {
            return true;
        }
    }
    return false;
}

void lint_spoofable_addresses(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct spec_limit *specs = lint->spec->limits.items;
    const bool has_proxies = policy->n_trusted_proxies > 0;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct spec_key_part *parts = specs[i].key.items;
        const struct key_term *term;
        for (size_t j = 0; j < specs[i].key.n_items; j++) {
            if (is_spoofable_part(&parts[j].part, has_proxies, &term)) {
                lint_warn(lint, WARNING_SPOOFABLE_ADDRESS, parts[j].node,
                          "anybody can send %.*s: use client.ip, and name in trusted_proxies whose "
                          "word is believed",
                          SPAN_ARGS(term->name));
            }
        }
    }
}

/* --- costs that a client writes itself --- */

/* Request fields that clients send by themselves, and that every proxy passes on as they came. */
static bool is_of_clients(struct span name)
{
    static const char *const NAMES[] = {
        "content-length", "content-range", "device-memory", "downlink", "ect",
        "max-forwards",   "prefer",        "priority",      "range",    "rtt",
        "viewport-width",
    };
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (span_equals(name, span_of_text(NAMES[i]))) {
            return true;
        }
    }
    return false;
}

void lint_passed_on_cost(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct spec_route *specs = lint->spec->routes.items;
    for (size_t i = 0; i < policy->n_routes && policy->n_trusted_proxies > 0; i++) {
        const struct cost_spec *cost = &policy->routes[i].cost;
        if (cost->kind == COST_REQUEST_HEADER && !cost->trust_any && is_of_clients(cost->field)) {
            lint_warn(lint, WARNING_PASSED_ON_COST, specs[i].cost.from.node,
                      "clients send %.*s by themselves, and proxies pass it on as it came, so that "
                      "clients choose what they pay; take a field that your proxy sets itself",
                      SPAN_ARGS(cost->field));
        }
    }
}
