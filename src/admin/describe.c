#include "admin/resources.h"

#include "admin/request.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/matcher.h"
#include "policy/units.h"

enum {
    KEY_PART_BYTES_MAX = KEY_ALTERNATIVES_MAX * 300,
    PATTERN_BYTES_MAX = TARGET_BYTES_MAX,
};

/* json_array_append_new() and json_object_set_new() release the value if they fail, and fail if the
 * list or object is NULL. */
void describe_append(json_t **list, json_t *value)
{
    if (json_array_append_new(*list, value) != 0) {
        json_decref(*list);
        *list = NULL;
    }
}

void describe_set(json_t **object, const char *key, json_t *value)
{
    if (json_object_set_new(*object, key, value) != 0) {
        json_decref(*object);
        *object = NULL;
    }
}

/* @value as @write writes it. */
static json_t *describe_written(uint64_t value, void (*write)(struct text *text, uint64_t value))
{
    char buffer[32];
    struct text text = text_of(buffer, sizeof(buffer));
    write(&text, value);
    return json_of_span(text_span(&text));
}

json_t *describe_timestamp(uint64_t wall_us)
{
    return describe_written(wall_us, timestamp_write);
}

/* "10.0.0.0/8"; a list of them. */
static json_t *describe_prefixes(const struct address_prefix *prefixes, size_t n_prefixes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_prefixes; i++) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(&prefixes[i].base, &text);
        if (prefixes[i].base.family != ADDRESS_NONE) {
            text_add_char(&text, '/');
            text_add_u64(&text, prefixes[i].bits);
        }
        describe_append(&list, json_of_span(text_span(&text)));
    }
    return list;
}

json_t *describe_spans(const struct span *spans, size_t n_spans)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_spans; i++) {
        describe_append(&list, json_of_span(spans[i]));
    }
    return list;
}

/* As the policy says it. */
static void write_term(const struct key_term *term, struct text *text)
{
    key_print_term(term, text);
    if (term->source == KEY_CLIENT_IP && term->ipv6_bits != KEY_IPV6_BITS_DEFAULT) {
        text_add_format(text, "/%u", term->ipv6_bits);
    }
}

/* A list with one string per part: "client.ip/128 | header.x-api-key". */
static json_t *describe_key(const struct key *key)
{
    json_t *list = json_array();
    for (size_t i = 0; i < key->n_parts; i++) {
        const struct key_part *part = &key->parts[i];
        char buffer[KEY_PART_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        for (size_t j = 0; j < part->n_terms; j++) {
            text_add(&text, j > 0 ? SPAN(" | ") : SPAN(""));
            write_term(&part->terms[j], &text);
        }
        describe_append(&list, json_of_span(text_span(&text)));
    }
    return list;
}

void describe_identity(json_t **json, struct span identity, const uint8_t *hash)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    char digits[2 * HASH_IDENTITY_BYTES];
    struct text key = text_of(shown, sizeof(shown));
    struct text hex = text_of(digits, sizeof(digits));
    if (identity.len > 0) {
        key_print(identity, &key);
        describe_set(json, "key", json_of_span(text_span(&key)));
    }
    text_add_hex(&hex, hash, HASH_IDENTITY_BYTES);
    describe_set(json, "hash", json_of_span(text_span(&hex)));
}

/* --- limits --- */

/* One rate, in the words of the policy; what has no meaning for its algorithm is left out. */
static json_t *describe_rate(const struct limit *limit)
{
    const struct algorithm *algorithm = limit->algorithm;
    json_t *rate = json_object();
    describe_set(&rate, "name", json_of_span(limit->name));
    describe_set(&rate, "units", json_integer(limit->params.rate));
    if (algorithm->has_slots) {
        describe_set(&rate, "lease",
                     describe_written(limit_us(limit, limit->params.lease), units_write_duration));
    } else {
        describe_set(&rate, "period", describe_written(limit->period_us, units_write_duration));
    }
    if (algorithm->has_burst) {
        describe_set(&rate, "burst", json_integer(limit->params.burst));
    }
    if (limit->params.max_wait > 0) {
        describe_set(
            &rate, "max_wait",
            describe_written(limit_us(limit, limit->params.max_wait), units_write_duration));
    }
    if (span_equals(span_of_text(algorithm->name), SPAN("sliding_window"))) {
        describe_set(&rate, "buckets", json_integer(limit->params.buckets));
    }
    if (limit->params.is_calendar) {
        describe_set(&rate, "calendar", json_true());
    }
    return rate;
}

static json_t *describe_rates(const struct limit_rule *rule)
{
    json_t *rates = json_array();
    for (size_t i = 0; i < rule->n_limits; i++) {
        describe_append(&rates, describe_rate(&rule->limits[i]));
    }
    return rates;
}

/* The names of its plans, and whether those of tenants are among their sources. */
static void describe_plans(const struct limit_rule *rule, json_t **json)
{
    json_t *names = json_array();
    bool has_tenants = false;
    for (size_t i = 0; i < rule->n_plans; i++) {
        describe_append(&names, json_of_span(rule->plans[i].name));
    }
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        has_tenants = has_tenants || rule->plan_sources[i].is_tenant;
    }
    describe_set(json, "plans", names);
    describe_set(json, "has_tenants", json_boolean(has_tenants));
}

json_t *describe_rule(const struct limit_rule *rule, json_t *routes)
{
    static const char *const MISSING[] = {
        [KEY_MISSING_SHARED_COUNTER] = "shared_counter",
        [KEY_MISSING_DENY] = "deny",
        [KEY_MISSING_SKIP] = "skip",
    };
    static const char *const ON_FAILURES[] = {
        [ON_FAILURE_LOCAL] = "local",
        [ON_FAILURE_ALLOW] = "allow",
        [ON_FAILURE_DENY] = "deny",
    };
    static const char *const DUPLICATES[] = {
        [KEY_DUPLICATES_COOKIES] = "cookies",
        [KEY_DUPLICATES_REFUSE] = "refuse",
        [KEY_DUPLICATES_EACH] = "each",
    };
    const struct limit *first = &rule->limits[0]; /* all rates share what follows */
    json_t *json = json_object();
    describe_set(&json, "name", json_of_span(rule->name));
    describe_set(&json, "key", describe_key(&rule->key));
    describe_set(&json, "missing", json_string(MISSING[rule->missing]));
    describe_set(&json, "duplicates", json_string(DUPLICATES[rule->key.duplicates]));
    describe_set(&json, "algorithm", json_string(first->algorithm->name));
    describe_set(&json, "rates", describe_rates(rule));
    if (rule->n_plans > 0) {
        describe_plans(rule, &json);
    }
    describe_set(&json, "on_failure", json_string(ON_FAILURES[first->on_failure]));
    describe_set(&json, "shadow", json_boolean(first->shadow));
    describe_set(&json, "charge_denied", json_boolean(first->charge_denied));
    describe_set(&json, "except", describe_prefixes(rule->except, rule->n_except));
    describe_set(&json, "routes", routes);
    return json;
}

/* --- routes --- */

static json_t *describe_paths(const struct route_match *match)
{
    json_t *paths = json_array();
    for (size_t i = 0; i < match->n_paths; i++) {
        char buffer[PATTERN_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        matcher_write_path(&match->paths[i], &text);
        describe_append(&paths, json_of_span(text_span(&text)));
    }
    return paths;
}

/* The values may be secrets and are not reported. */
static json_t *describe_names(const struct value_match *conditions, size_t n_conditions)
{
    json_t *names = json_array();
    for (size_t i = 0; i < n_conditions; i++) {
        describe_append(&names, json_of_span(conditions[i].name));
    }
    return names;
}

static void describe_connection(const struct connection_match *match, json_t **json)
{
    if (match->scheme != SCHEME_MATCH_ANY) {
        describe_set(json, "scheme",
                     json_string(match->scheme == SCHEME_MATCH_HTTP ? "http" : "https"));
    }
    if (!match->asks_certificate) {
        return;
    }
    json_t *certificate = json_object();
    describe_set(&certificate, "shown", json_true());
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        const struct value_match *fact = &match->facts[i];
        if (fact->n_values > 0) {
            describe_set(&certificate, fact->name.data,
                         describe_spans(fact->values, fact->n_values));
        }
    }
    describe_set(json, "client_cert", certificate);
}

static void describe_geo(json_t **json, const struct geo_match *match)
{
    json_t *countries = json_array();
    json_t *asns = json_array();
    for (size_t i = 0; i < match->n_countries; i++) {
        describe_append(&countries, json_of_span(span_of(match->countries[i], GEO_COUNTRY_BYTES)));
    }
    for (size_t i = 0; i < match->n_asns; i++) {
        describe_append(&asns, json_integer(match->asns[i]));
    }
    if (match->n_countries > 0) {
        describe_set(json, "country", json_incref(countries));
    }
    if (match->n_asns > 0) {
        describe_set(json, "asn", json_incref(asns));
    }
    json_decref(countries);
    json_decref(asns);
}

static json_t *describe_match(const struct route_match *match)
{
    json_t *json = json_object();
    if (match->n_hosts > 0) {
        describe_set(&json, "host", describe_spans(match->hosts, match->n_hosts));
    }
    if (match->n_paths > 0) {
        describe_set(&json, "path", describe_paths(match));
    }
    if (match->n_methods > 0) {
        describe_set(&json, "method", describe_spans(match->methods, match->n_methods));
    }
    if (match->n_fields > 0) {
        describe_set(&json, "header", describe_names(match->fields, match->n_fields));
    }
    if (match->n_parameters > 0) {
        describe_set(&json, "query", describe_names(match->parameters, match->n_parameters));
    }
    if (match->n_claims > 0) {
        json_t *claims = json_array();
        for (size_t i = 0; i < match->n_claims; i++) {
            describe_append(&claims, json_of_span(match->claims[i].path));
        }
        describe_set(&json, "jwt", claims);
    }
    if (match->n_clients > 0) {
        describe_set(&json, "client", describe_prefixes(match->clients, match->n_clients));
    }
    if (match->geo != NULL) {
        describe_geo(&json, match->geo);
    }
    if (match->connection != NULL) {
        describe_connection(match->connection, &json);
    }
    return json;
}

static json_t *describe_cost(const struct cost_spec *cost)
{
    json_t *json = json_object();
    describe_set(&json, "units", json_integer(cost->units));
    describe_set(&json, "max", json_integer(cost->max));
    switch (cost->kind) {
    case COST_FIXED:
    case COST_BY_METHOD:
        break;
    case COST_REQUEST_HEADER:
        describe_set(&json, "from", json_sprintf("header.%.*s", SPAN_ARGS(cost->field)));
        break;
    case COST_RESPONSE_HEADER:
        describe_set(&json, "from", json_sprintf("response.header.%.*s", SPAN_ARGS(cost->field)));
        break;
    }
    for (size_t i = 0; i < cost->n_methods; i++) {
        char name[METHOD_BYTES_MAX + 1];
        const struct span method = cost->methods[i].method;
        memcpy(name, method.data, method.len);
        name[method.len] = '\0';
        describe_set(&json, name, json_integer(cost->methods[i].units));
    }
    return json;
}

/* The costs that the route says for single limits, by name. */
static json_t *describe_own_costs(const struct route *route)
{
    json_t *json = json_object();
    for (size_t i = 0; i < route->n_rules; i++) {
        char name[NAME_BYTES_MAX + 1] = "";
        const struct span of = route->rules[i]->name;
        memcpy(name, of.data, of.len);
        if (route_own_cost(route, i) > 0) {
            describe_set(&json, name, json_integer(route->costs[i]));
        }
    }
    return json;
}

json_t *describe_route(const struct route *route)
{
    json_t *json = json_object();
    json_t *limits = json_array();
    for (size_t i = 0; i < route->n_rules; i++) {
        describe_append(&limits, json_of_span(route->rules[i]->name));
    }
    if (route->costs != NULL) {
        describe_set(&json, "costs", describe_own_costs(route));
    }
    describe_set(&json, "name", json_of_span(route->name));
    describe_set(&json, "match", describe_match(&route->match));
    describe_set(&json, "limits", limits);
    if (route->jwt != NULL) {
        describe_set(&json, "jwt",
                     json_pack("{so, sb}", "provider", json_of_span(route->jwt->name), "required",
                               (int)route->requires_token));
    }
    describe_set(&json, "cost", describe_cost(&route->cost));
    describe_set(&json, "max_body", describe_written(route->body_bytes_max, units_write_size));
    if (route->upstream != NULL) {
        describe_set(&json, "upstream", json_of_span(route->upstream->name));
    } else {
        describe_set(&json, "respond", json_pack("{si}", "status", (int)route->respond->status));
    }
    return json;
}
