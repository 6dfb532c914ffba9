/* Finds keys that limit no client, because clients choose the counted values. */

#include <inttypes.h>

#include "base/address.h"
#include "base/limits.h"
#include "http/field.h"
#include "policy/compare.h"
#include "policy/lint/lint.h"
#include "policy/read_fields.h"

/* --- values that a client cannot choose on a route --- */

/* Whether the pattern determines segment @number, from 1. */
static bool fixes_segment(const struct pattern *path, uint32_t number)
{
    for (size_t i = 0; i < path->n_segments && path->segments[i].kind != SEGMENT_REST; i++) {
        if (i + 1 == number) {
            return path->segments[i].kind == SEGMENT_LITERAL;
        }
    }
    return false;
}

static bool fixes_all(const struct pattern *path)
{
    for (size_t i = 0; i < path->n_segments; i++) {
        if (path->segments[i].kind != SEGMENT_LITERAL) {
            return false;
        }
    }
    return true;
}

/* Whether each path of @match determines segment @number; 0: all of the path. */
static bool is_fixed_path(const struct route_match *match, uint32_t number)
{
    for (size_t i = 0; i < match->n_paths; i++) {
        if (number == 0 ? !fixes_all(&match->paths[i]) : !fixes_segment(&match->paths[i], number)) {
            return false;
        }
    }
    return match->n_paths > 0;
}

static bool is_fixed_host(const struct route_match *match)
{
    for (size_t i = 0; i < match->n_hosts; i++) {
        if (match->hosts[i].data[0] == '*') {
            return false;
        }
    }
    return match->n_hosts > 0;
}

/* Claims that are another in each token, or after each login: they limit no client that gets new
 * tokens. */
static const struct {
    const char *name;
    const char *changes;
} PASSING_CLAIMS[] = {
    {"jti", "in each token"},      {"iat", "in each token"},
    {"exp", "in each token"},      {"nbf", "in each token"},
    {"at_hash", "in each token"},  {"c_hash", "after each login"},
    {"nonce", "after each login"}, {"auth_time", "after each login"},
};

/* When the claim of @term changes; NULL: it stays the client's. */
static const char *find_change(const struct key_term *term)
{
    for (size_t i = 0; i < ARRAY_LEN(PASSING_CLAIMS) && term->source == KEY_JWT; i++) {
        if (span_equals(term->name, span_of_text(PASSING_CLAIMS[i].name))) {
            return PASSING_CLAIMS[i].changes;
        }
    }
    return NULL;
}

/* Whether clients cannot change the value of @term at will. */
static bool is_firm_term(const struct key_term *term, const struct route_match *match)
{
    switch (KEY_SOURCE_ROWS[term->source].origin) {
    case KEY_FROM_ADDRESS:
    case KEY_FROM_DATABASE:
    case KEY_FROM_CERTIFICATE:
    case KEY_FROM_POLICY:
        return true;
    case KEY_FROM_TOKEN:
        return find_change(term) == NULL;
    case KEY_FROM_METHOD:
        return match->n_methods > 0;
    case KEY_FROM_HOST:
        return is_fixed_host(match);
    case KEY_FROM_PATH:
        return term->name.len == 0 && is_fixed_path(match, term->number);
    case KEY_FROM_HANDSHAKE:
    case KEY_FROM_HEADER:
    case KEY_FROM_COOKIE:
    case KEY_FROM_QUERY:
    case KEY_FROM_POSITION:
        return false;
    }
    return false;
}

/* Whether a request that matches @route may be without a certificate or token. */
static bool may_lack_proof(const struct route *route, enum key_origin origin)
{
    const struct route_match *match = &route->match;
    if (origin == KEY_FROM_TOKEN) {
        return !route->requires_token && match->n_claims == 0;
    }
    return origin == KEY_FROM_CERTIFICATE &&
           (match->connection == NULL || !match->connection->asks_certificate);
}

/* Whether clients cannot choose the value of @part, nor escape the limit by showing no certificate
 * or token. */
static bool is_firm_part(const struct key_part *part, enum key_missing missing,
                         const struct route *route)
{
    for (size_t i = 0; i < part->n_terms; i++) {
        if (!is_firm_term(&part->terms[i], &route->match)) {
            return false;
        }
    }
    const enum key_source last = part->terms[part->n_terms - 1].source;
    return missing != KEY_MISSING_SKIP || !may_lack_proof(route, KEY_SOURCE_ROWS[last].origin);
}

static bool has_part(const struct key *key, const struct key_part *part)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        if (compare_key_parts(&key->parts[i], part)) {
            return true;
        }
    }
    return false;
}

bool lint_is_firm_key(const struct limit_rule *rule, const struct route *route,
                      const struct key *shared)
{
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        if (!is_firm_part(part, rule->missing, route) &&
            (shared == NULL || !has_part(shared, part))) {
            return false;
        }
    }
    return true;
}

const struct key_term *lint_find_passing_claim(const struct limit_rule *rule,
                                               const struct route *route)
{
    const struct key_term *found = NULL;
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        for (size_t j = 0; j < part->n_terms; j++) {
            const struct key_term *term = &part->terms[j];
            const bool is_passing = find_change(term) != NULL;
            if (!is_passing && !is_firm_term(term, &route->match)) {
                return NULL;
            }
            found = is_passing && found == NULL ? term : found;
        }
    }
    return found;
}

/* --- routes limited only by such keys --- */

/* Whether @rule gives back what it takes of requests that a server has worked for. */
static bool gives_back(const struct limit_rule *rule)
{
    return rule->charge_on.is_said || answer_set_has(&rule->refund_on, 200);
}

/* Whether @firm, whose key clients do not choose, bounds what they have of @rule. Slots are no
 * bound of how much they ask, nor a rate one of how much runs at once; nor is a bound what only
 * some answers are charged to. */
static bool bounds_all(const struct limit_rule *firm, const struct limit_rule *rule)
{
    return firm->limits[0].algorithm->has_slots == rule->limits[0].algorithm->has_slots &&
           (!gives_back(firm) || gives_back(rule));
}

/* Whether no limit of @route bounds those who evade @rule. *firm: one that would seem to, or NULL.
 */
static bool is_unbounded(const struct route *route, const struct limit_rule *rule,
                         const struct limit_rule **firm)
{
    *firm = NULL;
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *beside = route->rules[i];
        if (beside->limits[0].shadow || !lint_is_firm_key(beside, route, NULL)) {
            continue;
        }
        if (bounds_all(beside, rule)) {
            return false;
        }
        *firm = *firm != NULL ? *firm : beside;
    }
    return true;
}

/* Warn of @rule, which limits no client of @route. @firm: a limit that only seems to; or NULL. */
static void warn_of_chosen(struct lint *lint, const struct route *route, const struct node *node,
                           const struct limit_rule *rule, const struct limit_rule *firm)
{
    const bool has_slots = rule->limits[0].algorithm->has_slots;
    const struct key_term *claim = lint_find_passing_claim(rule, route);
    char values_buffer[KEY_TERM_TEXT_MAX + NAME_BYTES_MAX];
    char beside_buffer[2 * NAME_BYTES_MAX];
    struct text values = text_of(values_buffer, sizeof(values_buffer));
    struct text beside = text_of(beside_buffer, sizeof(beside_buffer));
    if (claim == NULL) {
        text_add_literal(&values, "values that clients send");
    } else {
        key_print_term(claim, &values);
        text_add_format(&values, ", which is another %s", find_change(claim));
    }
    if (firm != NULL) {
        text_add_format(&beside, ", and by limit \"%.*s\", which does not bound how much %s",
                        SPAN_ARGS(firm->name), has_slots ? "runs at once" : "one client asks");
    }
    node_warn(lint->diags, node, WARNING_CLIENT_CHOSEN_KEY,
              "route \"%.*s\" is limited only by %.*s%.*s: %s has the whole quota of limit "
              "\"%.*s\"%s add a limit%s with key client.ip to the route",
              SPAN_ARGS(lint_name_of_route(lint, route->index)), SPAN_ARGS(text_span(&values)),
              SPAN_ARGS(text_span(&beside)),
              claim == NULL ? "with another one in each request a client always"
                            : "a client that gets a new one",
              SPAN_ARGS(rule->name), claim == NULL ? ";" : " again; count by jwt.sub, or",
              has_slots ? " of the same algorithm" : "");
}

void lint_client_chosen_keys(struct lint *lint, const struct route *route,
                             const struct spec_route *spec)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        const struct limit_rule *firm;
        if (!rule->limits[0].shadow && !lint_is_firm_key(rule, route, NULL) &&
            is_unbounded(route, rule, &firm)) {
            warn_of_chosen(lint, route, lint_node_of_limits(lint, spec), rule, firm);
            return;
        }
    }
}

/* --- addresses that a client writes itself --- */

/* Fields in which proxies write the client's address. A client can write the start of a list, even
 * if proxies append to it. */
static const struct {
    const char *name; /* in lower case */
    bool is_list;
} ADDRESS_FIELDS[] = {
    {"x-forwarded-for", true},
    {"forwarded", true},
    {"x-client-ip", false},
    {"true-client-ip", false},
    {"cf-connecting-ip", false},
    {"x-cluster-client-ip", false},
    {"fastly-client-ip", false},
    {"fly-client-ip", false},
    {"x-original-forwarded-for", true},
    {"x-envoy-external-address", false},
};

/* Whether @term reads an address that any client can set. A field with one value, set by a trusted
 * proxy, may be intended. A field that needs trust is not read where nobody is trusted: see
 * lint_replaced_keys(). */
static bool is_spoofable(const struct key_term *term, bool has_proxies)
{
    for (size_t i = 0; i < ARRAY_LEN(ADDRESS_FIELDS) && term->source == KEY_HEADER; i++) {
        if (span_equals(term->name, span_of_text(ADDRESS_FIELDS[i].name))) {
            return has_proxies ? ADDRESS_FIELDS[i].is_list
                               : !field_needs_trust(field_identify(term->name), term->name);
        }
    }
    return false;
}

/* Warns once for each part of the key. */
void lint_spoofable_addresses(struct lint *lint, const struct limit_rule *rule,
                              const struct spec_limit *spec)
{
    const struct spec_key_part *parts = spec->key.items;
    const bool has_proxies = lint->policy->n_trusted_proxies > 0;
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        const struct key_term *term = part->terms;
        while (term < part->terms + part->n_terms && !is_spoofable(term, has_proxies)) {
            term++;
        }
        if (term < part->terms + part->n_terms) {
            node_warn(
                lint->diags, parts[i].node, WARNING_SPOOFABLE_ADDRESS,
                "any client can send %.*s: use client.ip, and name your proxies in trusted_proxies",
                SPAN_ARGS(term->name));
        }
    }
}

/* --- plans --- */

/* A table of tenants can be written wherever it is; see docs/tenants.md. */
void lint_unreachable_plans(struct lint *lint, const struct limit_rule *rule,
                            const struct spec_limit *spec)
{
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        const struct plan_source *source = &rule->plan_sources[i];
        if (!source->is_tenant && source->term.source == KEY_HEADER &&
            lint->policy->n_trusted_proxies == 0) {
            node_warn(lint->diags, spec->plan.node, WARNING_UNREACHABLE_PLAN,
                      "limit \"%.*s\": nobody can have a plan by header.%.*s, which counts from "
                      "trusted proxies alone: name yours in trusted_proxies",
                      SPAN_ARGS(rule->name), SPAN_ARGS(source->term.name));
        }
    }
}

/* --- fingerprints --- */

void lint_lone_fingerprints(struct lint *lint, const struct limit_rule *rule,
                            const struct spec_limit *spec)
{
    if (rule->key.n_parts == 1 && rule->key.parts[0].terms[0].source == KEY_CLIENT_JA4) {
        node_warn(
            lint->diags, spec->key.node, WARNING_LONE_FINGERPRINT,
            "limit \"%.*s\" counts by client.ja4 alone: all users of a browser share one, and "
            "a client can send another: count by [client.ja4, client.ip], and give the route a "
            "limit by client.ip too",
            SPAN_ARGS(rule->name));
    }
}

/* --- bans of others --- */

/* Whether a client can send this value for another client, which it names. Credentials and cookies
 * are taken for secrets. */
static bool names_anybody(const struct key_term *term)
{
    const enum key_origin origin = KEY_SOURCE_ROWS[term->source].origin;
    return origin == KEY_FROM_QUERY || (origin == KEY_FROM_HEADER && !term->is_credentials);
}

/* Whether a claim is the same for all users of an issuer or a server. */
static bool is_common_claim(const struct key_term *term)
{
    return term->source == KEY_JWT &&
           (span_equals(term->name, SPAN("iss")) || span_equals(term->name, SPAN("aud")));
}

/* Whether a ban of what @part counts by may hit another client than the one that earned it. */
static bool hits_others(const struct key_part *part)
{
    for (size_t i = 0; i < part->n_terms; i++) {
        const struct key_term *term = &part->terms[i];
        if (names_anybody(term) || is_common_claim(term) || key_source_is_shared(term->source)) {
            return true;
        }
    }
    return false;
}

static bool has_term(const struct key *key, bool (*is_sought)(const struct key_term *term))
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            if (is_sought(&key->parts[i].terms[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Nobody is banned by a key all of whose parts clients share, but by claims: see docs/bans.md. */
void lint_named_victims(struct lint *lint, const struct limit_rule *rule,
                        const struct spec_limit *spec)
{
    const struct node *node = spec->ban.position.node;
    bool hits = rule->ban.after > 0 && !rule->ban.shadow;
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        hits = hits && hits_others(&rule->key.parts[i]);
    }
    if (hits && has_term(&rule->key, names_anybody)) {
        node_warn(lint->diags, node, WARNING_NAMED_VICTIM,
                  "limit \"%.*s\" bans keys that clients send: whoever knows or guesses that of "
                  "another client has it banned; put client.ip beside it in the key, unless it is "
                  "a secret",
                  SPAN_ARGS(rule->name));
    } else if (hits && key_is_mostly_shared(&rule->key)) {
        node_warn(lint->diags, node, WARNING_NO_EFFECT,
                  "ban has no effect on most clients: limit \"%.*s\" counts them by what many "
                  "share, and no one is banned for what others do; count by client.ip or a name of "
                  "the client",
                  SPAN_ARGS(rule->name));
    } else if (hits && has_term(&rule->key, is_common_claim)) {
        node_warn(lint->diags, node, WARNING_NAMED_VICTIM,
                  "limit \"%.*s\" bans keys that clients share: one client has all others of its "
                  "key banned; count by client.ip or jwt.sub, or put one of them beside in the key",
                  SPAN_ARGS(rule->name));
    }
}

/* --- prefixes that are too narrow --- */

/* Whether clients of the IPv6 internet can connect to @listener: all of its addresses, or one. */
static bool is_on_ipv6(const struct listener_section *listener)
{
    static const struct address ANY = {.family = ADDRESS_IPV6};
    struct address address;
    return !listener->proxy_protocol && listener->endpoint.host.len > 0 &&
           address_parse(listener->endpoint.host, &address) && address.family == ADDRESS_IPV6 &&
           (address_equals(&address, &ANY) || (address.bytes[0] & 0xe0) == 0x20);
}

static bool has_ipv6_listener(const struct policy *policy)
{
    for (size_t i = 0; i < policy->n_listeners; i++) {
        if (is_on_ipv6(&policy->listeners[i])) {
            return true;
        }
    }
    return false;
}

unsigned lint_key_ipv6_bits(const struct key *key)
{
    unsigned most = 0;
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            const struct key_term *term = &key->parts[i].terms[j];
            if (term->source == KEY_CLIENT_IP && term->ipv6_bits > most) {
                most = term->ipv6_bits;
            }
        }
    }
    return most;
}

static bool is_narrow(const struct limit_rule *rule)
{
    return lint_key_ipv6_bits(&rule->key) > CLIENT_IPV6_BITS;
}

/* Whether a limit of @route bounds what all addresses of a customer have of @narrow. Slots that all
 * share are what these take from others. */
static bool is_bounded_wider(const struct route *route, const struct limit_rule *narrow)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        if (!rule->limits[0].shadow && lint_is_firm_key(rule, route, NULL) && !is_narrow(rule) &&
            bounds_all(rule, narrow) &&
            !(rule->limits[0].algorithm->has_slots && key_has_only_shared(&rule->key))) {
            return true;
        }
    }
    return false;
}

/* The first enforced limit of @route with a firm key that counts by more than 48 address bits, and
 * that no wider one bounds; else NULL. */
static const struct limit_rule *narrow_rule(const struct route *route)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        if (!rule->limits[0].shadow && lint_is_firm_key(rule, route, NULL) && is_narrow(rule) &&
            !is_bounded_wider(route, rule)) {
            return rule;
        }
    }
    return NULL;
}

/* Warns once for each limit, for any number of routes. A route that names its clients is not open
 * to all clients. */
void lint_narrow_prefixes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    if (!has_ipv6_listener(policy)) {
        return;
    }
    bool *is_reported = arena_calloc(lint->scratch, policy->n_rules + 1, sizeof(*is_reported));
    lint->no_memory = is_reported == NULL;
    for (size_t i = 0; i < policy->n_routes && is_reported != NULL; i++) {
        const struct route *route = &policy->routes[i];
        const struct limit_rule *rule =
            route->upstream != NULL && route->match.n_clients == 0 ? narrow_rule(route) : NULL;
        const size_t at = rule != NULL ? (size_t)(rule - policy->rules) : policy->n_rules;
        if (rule == NULL || is_reported[at]) {
            continue;
        }
        is_reported[at] = true;
        node_warn(lint->diags, lint->limits[at].key.node, WARNING_NARROW_PREFIX,
                  "limit \"%.*s\" counts IPv6 clients by their /%u, of which a customer with a /48 "
                  "has many; on route \"%.*s\" put beside it a limit with the key "
                  "client.ip/48 and a higher rate",
                  SPAN_ARGS(rule->name), lint_key_ipv6_bits(&rule->key),
                  SPAN_ARGS(lint_name_of_route(lint, i)));
    }
}

/* --- costs that a client chooses --- */

/* Request fields that clients send and that every proxy forwards unchanged. */
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

void lint_passed_on_cost(struct lint *lint, const struct route *route,
                         const struct spec_route *spec)
{
    const struct cost_spec *cost = &route->cost;
    if (lint->policy->n_trusted_proxies > 0 && cost->kind == COST_REQUEST_HEADER &&
        !cost->trust_any && is_of_clients(cost->field)) {
        node_warn(lint->diags, spec->cost.from.node, WARNING_PASSED_ON_COST,
                  "clients send %.*s by themselves, and proxies pass it on as it came, so that "
                  "clients choose what they pay; take a field that your proxy sets itself",
                  SPAN_ARGS(cost->field));
    }
}

/* Where HEAD is named, cost_of_method() knows it apart from GET. */
static void lint_cheap_head(struct lint *lint, const struct route *route,
                            const struct spec_route *spec)
{
    const uint32_t units = cost_of_method(&route->cost, SPAN("GET"));
    const struct node *head = node_find(spec->cost.position.node, SPAN("HEAD"));
    if (head != NULL && cost_of_method(&route->cost, SPAN("HEAD")) < units) {
        node_warn(lint->diags, head, WARNING_CHEAP_DEFAULT,
                  "route \"%.*s\" costs less by HEAD than by GET, and most servers run the handler "
                  "of GET for it; write HEAD: %" PRIu32 ", or leave it out",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)), units);
    }
}

void lint_cheap_default(struct lint *lint, const struct route *route, const struct spec_route *spec)
{
    const struct cost_spec *cost = &route->cost;
    if (cost->kind != COST_BY_METHOD || route->upstream == NULL) {
        return;
    }
    lint_cheap_head(lint, route, spec);
    if (cost->units < cost->max) {
        node_warn(lint->diags, node_find(spec->cost.position.node, SPAN("default")),
                  WARNING_CHEAP_DEFAULT,
                  "route \"%.*s\" costs less by a method that \"cost\" does not name, and many "
                  "servers run one handler for all methods; write default: %" PRIu32
                  ", or leave it out, and name the methods that cost less",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)), cost->max);
    }
}
