/* The requests that routes are tried with, for the warnings that ask where a request leads. */

#include "policy/lint/lint_probe.h"

#include <string.h>

#include "policy/jwt_provider.h"
#include "policy/matcher.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"
#include "policy/upstream_spec.h"

enum { METHODS_TRIED_MAX = 4 }; /* of a route */

/* Parts of a request that a route names, or leaves open. */
enum {
    NAMES_HOST = 1 << 0,
    NAMES_HTTPS = 1 << 1,
    NAMES_CERTIFICATE = 1 << 2,
    NAMES_QUERY = 1 << 3,
    NAMES_COUNTRY = 1 << 4,
    NAMES_ASN = 1 << 5,
    NAMES_PATH = 1 << 6,
    NAMES_METHOD = 1 << 7,
};

/* Maximum comparisons of a request with a route, for the whole policy. 20,000 routes with different
 * paths need about 10 each. */
static const uint64_t STEPS_MAX = UINT64_C(5000000);

static size_t count_segments(const struct pattern *pattern)
{
    const size_t n = pattern != NULL ? pattern->n_segments : 0;
    return n > 0 && pattern->segments[n - 1].kind == SEGMENT_REST ? n - 1 : n;
}

static void write_literal(struct span literal, bool is_upper, struct text *text)
{
    for (size_t i = 0; i < literal.len; i++) {
        const char c = literal.data[i];
        text_add_char(text, is_upper && c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c);
    }
}

/* Write a path that the route matches, in @spelling. */
static void write_path(const struct probe *probe, const struct spelling *spelling,
                       struct text *text)
{
    const size_t n = probe->n_segments - (spelling->no_slash ? 1 : 0);
    for (size_t i = 0; i < n; i++) {
        const struct pattern_segment *segment = &probe->pattern->segments[i];
        const bool is_upper = spelling->upper == UPPER_ALL || spelling->upper == (int)i;
        text_add_char(text, '/');
        if (segment->kind == SEGMENT_LITERAL || segment->kind == SEGMENT_PART) {
            write_literal(segment->text, is_upper, text);
            write_literal(segment->suffix, is_upper, text);
        } else {
            text_add(text, segment->type == CAPTURE_UUID
                               ? SPAN("00000000-0000-0000-0000-000000000000")
                           : segment->type == CAPTURE_INT ? SPAN("1")
                                                          : SPAN("x"));
        }
    }
    text_add(text, spelling->end);
}

/* A host that @pattern takes. */
static struct span write_host(struct span pattern, char buffer[HOST_BYTES_MAX + 1])
{
    struct text host = text_of(buffer, HOST_BYTES_MAX + 1);
    const bool has_star = pattern.len > 0 && pattern.data[0] == '*';
    text_add(&host, has_star ? SPAN("x") : SPAN(""));
    text_add(&host, has_star ? span_from(pattern, 1) : pattern);
    return text_span(&host);
}

/* A value that fulfils @condition, which is not VALUE_MATCH_ABSENT. */
static struct span value_for(const struct value_match *condition)
{
    if (condition->kind == VALUE_MATCH_GRPC) {
        return SPAN("application/grpc");
    }
    return condition->n_values > 0 ? condition->values[0] : SPAN("x");
}

/* Write @span, each byte as an escape. */
static void write_encoded(struct span span, struct text *text)
{
    for (size_t i = 0; i < span.len; i++) {
        text_add_format(text, "%%%02X", (unsigned char)span.data[i]);
    }
}

void probe_send(struct probe *probe, const struct value_match *fields, size_t n_fields,
                const struct value_match *parameters, size_t n_parameters)
{
    struct text query = text_of(probe->query, sizeof(probe->query));
    probe->head.n_fields = 0;
    for (size_t i = 0; i < n_fields && probe->head.n_fields < HEAD_FIELDS_MAX; i++) {
        if (fields[i].kind != VALUE_MATCH_ABSENT) {
            probe->fields[probe->head.n_fields++] = (struct field){
                .name = fields[i].name,
                .value = value_for(&fields[i]),
                .id = field_identify(fields[i].name),
            };
        }
    }
    for (size_t i = 0; i < n_parameters; i++) {
        if (parameters[i].kind != VALUE_MATCH_ABSENT) {
            text_add(&query, query.len > 0 ? SPAN("&") : SPAN(""));
            write_encoded(parameters[i].name, &query);
            text_add_literal(&query, "=");
            write_encoded(value_for(&parameters[i]), &query);
        }
    }
    probe->head.target.query = text_span(&query);
}

/* A connection that @match takes. */
static void init_connection(struct probe *probe, const struct connection_match *match)
{
    if (match == NULL || (match->scheme != SCHEME_MATCH_HTTPS && !match->asks_certificate)) {
        return;
    }
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        probe->certificate.facts[i] = value_for(&match->facts[i]);
    }
    struct span *name = &probe->certificate.facts[CERTIFICATE_DNS];
    *name = write_host(*name, probe->name);
    probe->client = (struct tls_client){
        .certificate = match->asks_certificate ? &probe->certificate : NULL,
    };
    probe->view.tls = &probe->client;
}

/* A client of the country and of the network that @match names first. */
static void init_place(struct probe *probe, const struct geo_match *match)
{
    struct geo_facts *geo = &probe->view.geo;
    if (match != NULL && match->n_countries > 0 && !geo->has_country) {
        geo->has_country = true;
        memcpy(geo->country, match->countries[0], GEO_COUNTRY_BYTES);
    }
    if (match != NULL && match->n_asns > 0 && geo->asn == 0) {
        geo->asn = match->asns[0];
    }
}

void probe_init(struct probe *probe, const struct route *route, size_t number)
{
    const struct route_match *match = &route->match;
    probe->route = route;
    probe->completed = 0;
    probe->pattern = match->n_paths > 0 ? &match->paths[number % match->n_paths] : NULL;
    probe->n_segments = count_segments(probe->pattern);
    probe->method = match->n_methods > 0 ? match->methods[number % match->n_methods] : SPAN("GET");
    probe->head = (struct head){.fields = probe->fields, .minor = 1};
    probe->view = (struct request_view){
        .head = &probe->head, .path = &probe->path, .path_buffer = probe->path_buffer};
    probe->view.host = write_host(
        match->n_hosts > 0 ? match->hosts[number % match->n_hosts] : SPAN(""), probe->host);
    probe_send(probe, match->fields, match->n_fields, match->parameters, match->n_parameters);
    init_connection(probe, match->connection);
    if (match->n_clients > 0) {
        probe->view.client = match->clients[0].base;
    }
    init_place(probe, match->geo);
}

void probe_use(struct probe *probe, const struct pattern *pattern)
{
    probe->pattern = pattern;
    probe->n_segments = count_segments(pattern);
}

size_t probe_count(const struct route *route)
{
    const struct route_match *match = &route->match;
    const size_t n = match->n_hosts > match->n_paths ? match->n_hosts : match->n_paths;
    const size_t n_methods = match->n_methods > n ? match->n_methods : n;
    return n_methods > 0 ? n_methods : 1;
}

/* --- requests completed from other routes --- */

bool probe_can_send(const struct section_items *items, const struct value_match *conditions)
{
    const struct section_list *specs = items->items;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct spec_text *values = specs[i].values.items;
        for (size_t j = 0; j < conditions[i].n_values; j++) {
            if (values[j].node->expanded) {
                return false;
            }
        }
    }
    return true;
}

static int compare_numbers(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int compare_servers(const struct endpoint *a, const struct endpoint *b)
{
    const int by_host = span_compare(&a->host, &b->host);
    const int by_port = compare_numbers(a->port, b->port);
    return by_host != 0   ? by_host
           : by_port != 0 ? by_port
                          : span_compare(&a->unix_path, &b->unix_path);
}

int probe_compare_upstreams(const struct upstream_spec *a, const struct upstream_spec *b)
{
    if (a == b) {
        return 0;
    }
    int order = compare_numbers(a->n_servers, b->n_servers);
    order = order != 0 ? order : compare_numbers(a->host, b->host);
    order = order != 0 ? order : span_compare(&a->host_name, &b->host_name);
    for (size_t i = 0; i < a->n_servers && order == 0; i++) {
        order = compare_servers(&a->servers[i].endpoint, &b->servers[i].endpoint);
    }
    return order;
}

/* What @match names. Without a listener for it no client can send https. */
static unsigned find_names(const struct lint *lint, const struct route_match *match,
                           const struct spec_match *spec)
{
    const struct connection_match *connection = match->connection;
    const bool is_https = connection != NULL && connection->scheme == SCHEME_MATCH_HTTPS;
    const bool asks = connection != NULL && connection->asks_certificate;
    bool has_tls = false;
    for (size_t i = 0; i < lint->policy->n_listeners && !has_tls; i++) {
        has_tls = lint->policy->listeners[i].tls != NULL;
    }
    return (match->n_hosts > 0 ? NAMES_HOST : 0u) |
           (has_tls && (is_https || asks) ? NAMES_HTTPS : 0u) |
           (has_tls && asks ? NAMES_CERTIFICATE : 0u) |
           (match->n_parameters > 0 && probe_can_send(&spec->query, match->parameters) ? NAMES_QUERY
                                                                                       : 0u) |
           (match->geo != NULL && match->geo->n_countries > 0 ? NAMES_COUNTRY : 0u) |
           (match->geo != NULL && match->geo->n_asns > 0 ? NAMES_ASN : 0u) |
           (match->n_paths > 0 ? NAMES_PATH : 0u) | (match->n_methods > 0 ? NAMES_METHOD : 0u);
}

size_t probe_count_named(const struct pattern *pattern)
{
    size_t n = 0;
    for (size_t i = 0; pattern != NULL && i < pattern->n_segments; i++) {
        const struct pattern_segment *segment = &pattern->segments[i];
        n += segment->kind == SEGMENT_PART ||
             (segment->kind == SEGMENT_LITERAL && segment->text.len > 0);
    }
    return n;
}

/* Whether a path of @match names a segment. */
static bool has_named_path(const struct route_match *match)
{
    bool has_named = false;
    for (size_t i = 0; i < match->n_paths && !has_named; i++) {
        has_named = probe_count_named(&match->paths[i]) > 0;
    }
    return has_named;
}

/* What @match leaves open, for another route to name. */
static unsigned find_open(const struct route_match *match, enum completion completion)
{
    const struct connection_match *connection = match->connection;
    const bool may_be_https = connection == NULL || connection->scheme != SCHEME_MATCH_HTTP;
    const bool may_ask = may_be_https && (connection == NULL || !connection->asks_certificate);
    return (match->n_hosts == 0 ? NAMES_HOST : 0u) | (connection == NULL ? NAMES_HTTPS : 0u) |
           (may_ask ? NAMES_CERTIFICATE : 0u) | (match->n_parameters == 0 ? NAMES_QUERY : 0u) |
           (match->geo == NULL || match->geo->n_countries == 0 ? NAMES_COUNTRY : 0u) |
           (match->geo == NULL || match->geo->n_asns == 0 ? NAMES_ASN : 0u) |
           (completion != COMPLETE_REST && !has_named_path(match) ? NAMES_PATH : 0u) |
           (completion == COMPLETE_WHOLE && match->n_methods == 0 ? NAMES_METHOD : 0u);
}

static bool is_same_path(const struct pattern *a, const struct pattern *b)
{
    bool is_same = a->n_segments == b->n_segments;
    for (size_t i = 0; i < a->n_segments && is_same; i++) {
        const struct pattern_segment *first = &a->segments[i];
        const struct pattern_segment *second = &b->segments[i];
        is_same = first->kind == second->kind && first->type == second->type &&
                  span_equals(first->text, second->text) &&
                  span_equals(first->suffix, second->suffix);
    }
    return is_same;
}

/* Whether @other completes the request by @parts as @last does. */
static bool is_repeated(const struct route *last, unsigned last_parts, const struct route *other,
                        unsigned parts)
{
    const unsigned compared = NAMES_HOST | NAMES_HTTPS | NAMES_PATH;
    return last != NULL && parts == last_parts && (parts | compared) == compared &&
           ((parts & NAMES_HOST) == 0 ||
            span_equals(last->match.hosts[0], other->match.hosts[0])) &&
           ((parts & NAMES_PATH) == 0 ||
            is_same_path(&last->match.paths[0], &other->match.paths[0]));
}

/* The bit of struct probe.hosts for @host, which many hosts share. */
static uint64_t find_host_bit(struct span host)
{
    uint32_t hash = UINT32_C(2166136261); /* FNV-1a */
    for (size_t i = 0; i < host.len; i++) {
        hash = (hash ^ (unsigned char)host.data[i]) * UINT32_C(16777619);
    }
    return UINT64_C(1) << (hash >> 26);
}

/* The bits of struct probe.hosts for those of @match. */
static uint64_t find_host_bits(const struct route_match *match)
{
    uint64_t bits = match->n_hosts == 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < match->n_hosts; i++) {
        const struct span host = match->hosts[i];
        bits |= host.len == 0 || host.data[0] == '*' ? UINT64_MAX : find_host_bit(host);
    }
    return bits;
}

/* Fill in @parts as @match names them. */
static void complete(struct probe *probe, const struct route_match *match, unsigned parts)
{
    probe->completed = (uint8_t)parts;
    if ((parts & NAMES_HOST) != 0) {
        probe->view.host = write_host(match->hosts[0], probe->host);
    }
    if ((parts & (NAMES_HTTPS | NAMES_CERTIFICATE)) != 0) {
        init_connection(probe, match->connection);
    }
    if ((parts & NAMES_QUERY) != 0) {
        probe_send(probe, probe->route->match.fields, probe->route->match.n_fields,
                   match->parameters, match->n_parameters);
    }
    if ((parts & (NAMES_COUNTRY | NAMES_ASN)) != 0) {
        init_place(probe, match->geo);
    }
    if ((parts & NAMES_PATH) != 0) {
        probe_use(probe, &match->paths[0]);
    }
    if ((parts & NAMES_METHOD) != 0) {
        probe->method = match->methods[0];
    }
}

bool probe_next(struct probe *probe, const struct route *route, size_t number,
                enum completion completion, size_t *next)
{
    const struct policy *policy = probe->policy;
    const unsigned open = find_open(&route->match, completion);
    const struct route *last = *next > route->index + 1 ? &policy->routes[*next - 1] : NULL;
    const unsigned last_parts = probe->completed;
    probe_init(probe, route, number);
    if (*next == route->index) {
        ++*next;
        return true;
    }
    const uint64_t hosts = completion != COMPLETE_WHOLE && route->match.n_hosts > 0
                               ? find_host_bit(probe->view.host)
                               : UINT64_MAX;
    for (size_t i = *next;
         i < policy->n_routes && (probe->names_later[i] & open) != 0 && probe->steps > 0; i++) {
        const struct route *other = &policy->routes[i];
        const unsigned parts = probe->names[i] & open;
        if (parts == 0 || (probe->hosts[i] & hosts) == 0 ||
            is_repeated(last, last_parts, other, parts)) {
            continue;
        }
        probe->steps--;
        if (other->upstream != NULL &&
            probe_compare_upstreams(other->upstream, route->upstream) == 0 &&
            !route_limits_hold(other, route)) {
            complete(probe, &other->match, parts);
            *next = i + 1;
            return true;
        }
    }
    return false;
}

/* Whether @part of the request fails neither of @routes. */
static bool is_common(struct probe *probe, const struct route *const routes[2],
                      enum match_part part)
{
    const struct value_match *condition;
    return matcher_compare(routes[0], &probe->view, &condition) != part &&
           matcher_compare(routes[1], &probe->view, &condition) != part;
}

/* Give the request a method that both routes match. */
static bool join_methods(struct probe *probe, const struct route *const routes[2], size_t number)
{
    const size_t n_first = routes[0]->match.n_methods;
    const size_t n_all = n_first + routes[1]->match.n_methods;
    probe->head.method = probe->method;
    bool is_found = n_all == 0;
    for (size_t i = 0; i < n_all && !is_found; i++) {
        probe->head.method = i < n_first ? routes[0]->match.methods[(number + i) % n_first]
                                         : routes[1]->match.methods[i - n_first];
        is_found = is_common(probe, routes, MATCH_METHOD);
    }
    probe->method = probe->head.method;
    return is_found;
}

/* Give the request a host that both routes match. */
static bool join_hosts(struct probe *probe, const struct route *const routes[2], size_t number)
{
    const size_t n_first = routes[0]->match.n_hosts;
    const size_t n_all = n_first + routes[1]->match.n_hosts;
    bool is_found = n_all == 0;
    for (size_t i = 0; i < n_all && !is_found; i++) {
        const struct span pattern = i < n_first ? routes[0]->match.hosts[(number + i) % n_first]
                                                : routes[1]->match.hosts[i - n_first];
        probe->view.host = write_host(pattern, probe->host);
        is_found = is_common(probe, routes, MATCH_HOST);
    }
    return is_found;
}

bool probe_join(struct probe *probe, const struct route *route, size_t number,
                const struct route *other, struct span path)
{
    const struct route *const routes[] = {route, other};
    const unsigned whole = NAMES_HOST | NAMES_METHOD;
    const unsigned parts = probe->names[other->index] & find_open(&route->match, COMPLETE_WHOLE) &
                           ~(unsigned)(NAMES_PATH | NAMES_QUERY);
    probe_init(probe, route, number);
    complete(probe, &other->match, parts & ~whole);
    probe->completed = (uint8_t)parts;
    if (route->match.n_clients == 0 && other->match.n_clients > 0) {
        probe->view.client = other->match.clients[0].base;
    }
    return probe_read(probe, path) && is_common(probe, routes, MATCH_PATH) &&
           join_methods(probe, routes, number) && join_hosts(probe, routes, number);
}

bool probe_is_served_by(const struct probe *probe, const struct route *other)
{
    return other->upstream != NULL &&
           (probe->completed == 0 ||
            probe_compare_upstreams(other->upstream, probe->route->upstream) == 0);
}

/* --- searches --- */

/* Whether a token that has the first value of each claim that @match names has one of @wanted. */
static bool has_claim(const struct route_match *match, const struct claim_match *wanted)
{
    for (size_t i = 0; i < match->n_claims; i++) {
        const struct claim_match *own = &match->claims[i];
        for (size_t j = 0; j < wanted->n_values && own->claim == wanted->claim; j++) {
            if (span_equals(own->values[0], wanted->values[j])) {
                return true;
            }
        }
    }
    return false;
}

/* A token of another provider is another token. */
bool probe_has_claims(const struct probe *probe, const struct route *other)
{
    const struct route *route = probe->route;
    bool has = other->match.n_claims == 0 || route->jwt == other->jwt;
    for (size_t i = 0; i < other->match.n_claims && has; i++) {
        has = has_claim(&route->match, &other->match.claims[i]);
    }
    return has;
}

/* Without steps every route is accepted: the result is not used. */
static bool accepts(void *context, const struct route_entry *entry)
{
    struct probe *probe = context;
    if (probe->steps == 0) {
        return true;
    }
    probe->steps--;
    return probe_has_claims(probe, &probe->policy->routes[entry->route]) &&
           matcher_takes_but_claims(probe->policy, entry, &probe->view);
}

bool probe_read(struct probe *probe, struct span path)
{
    probe->head.target = (struct target){
        .form = TARGET_ORIGIN, .whole = path, .path = path, .query = probe->head.target.query};
    return path.len > 0 && matcher_read_path(&probe->view) == NULL;
}

const struct route *probe_look_up(struct probe *probe, struct span method, struct span path)
{
    probe->head.method = method;
    probe->head.method_id = method_identify(method);
    if (!probe_read(probe, path)) {
        return NULL;
    }
    const struct route_entry *found = route_index_find(probe->policy->route_index, probe->view.host,
                                                       &probe->path, accepts, probe);
    return found != NULL && probe->steps > 0 ? &probe->policy->routes[found->route] : NULL;
}

/* The path of the request in @spelling; empty: it is too long. */
static struct span spell(struct probe *probe, const struct spelling *spelling)
{
    struct text text = text_of(probe->target, sizeof(probe->target));
    write_path(probe, spelling, &text);
    return text.truncated ? SPAN("") : text_span(&text);
}

const struct route *probe_find_route(struct probe *probe, struct span method,
                                     const struct spelling *spelling, struct span *path)
{
    *path = spell(probe, spelling);
    return probe_look_up(probe, method, *path);
}

struct span probe_path(struct probe *probe)
{
    static const struct spelling SAME = {.upper = UPPER_NONE};
    static const struct spelling SOME = {.end = {"/x", 2}, .upper = UPPER_NONE};
    return spell(probe, probe->n_segments > 0 ? &SAME : &SOME);
}

const struct route *probe_find_taker(struct probe *probe)
{
    return probe_look_up(probe, probe->method, probe_path(probe));
}

bool probe_is_refused(struct probe *probe)
{
    const struct route *route;
    return matcher_find_route(probe->policy, &probe->view, &route) != NULL;
}

const struct span *probe_methods(const struct route *route, size_t *n)
{
    static const struct span USUAL[] = {{"GET", 3}, {"POST", 4}};
    const struct route_match *match = &route->match;
    const size_t n_named =
        match->n_methods < METHODS_TRIED_MAX ? match->n_methods : METHODS_TRIED_MAX;
    *n = n_named > 0 ? n_named : ARRAY_LEN(USUAL);
    return n_named > 0 ? match->methods : USUAL;
}

struct probe *probe_make(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = arena_alloc(lint->scratch, sizeof(*probe));
    uint8_t *names = arena_calloc(lint->scratch, 2 * policy->n_routes + 1, sizeof(*names));
    uint64_t *hosts = arena_calloc(lint->scratch, policy->n_routes + 1, sizeof(*hosts));
    if (probe == NULL || names == NULL || hosts == NULL) {
        lint->no_memory = true;
        return NULL;
    }
    probe->lint = lint;
    probe->policy = policy;
    probe->names = names;
    probe->names_later = names + policy->n_routes;
    probe->hosts = hosts;
    for (size_t i = policy->n_routes; i > 0; i--) {
        names[i - 1] =
            (uint8_t)find_names(lint, &policy->routes[i - 1].match, &lint->routes[i - 1].match);
        probe->names_later[i - 1] = names[i - 1] | probe->names_later[i];
        hosts[i - 1] = find_host_bits(&policy->routes[i - 1].match);
    }
    probe->steps = STEPS_MAX;
    return probe;
}
