/* The requests that routes are tried with, for the warnings that ask where a request leads. */

#include "policy/lint/lint_probe.h"

#include "policy/matcher.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"

enum { METHODS_TRIED_MAX = 4 }; /* of a route */

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

void probe_write_encoded(struct span span, struct text *text)
{
    for (size_t i = 0; i < span.len; i++) {
        text_add_format(text, "%%%02X", (unsigned char)span.data[i]);
    }
}

/* Write a query that fulfils the conditions of @match. */
static struct span write_query(const struct route_match *match, char *buffer, size_t capacity)
{
    struct text text = text_of(buffer, capacity);
    for (size_t i = 0; i < match->n_parameters; i++) {
        const struct value_match *condition = &match->parameters[i];
        if (condition->kind != VALUE_MATCH_ABSENT) {
            text_add(&text, text.len > 0 ? SPAN("&") : SPAN(""));
            probe_write_encoded(condition->name, &text);
            text_add_literal(&text, "=");
            probe_write_encoded(value_for(condition), &text);
        }
    }
    return text_span(&text);
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

void probe_init(struct probe *probe, const struct route *route, size_t number)
{
    const struct route_match *match = &route->match;
    probe->route = route;
    probe->pattern = match->n_paths > 0 ? &match->paths[number % match->n_paths] : NULL;
    probe->n_segments = count_segments(probe->pattern);
    probe->head = (struct head){.fields = probe->fields, .minor = 1};
    probe->view = (struct request_view){
        .head = &probe->head, .path = &probe->path, .path_buffer = probe->path_buffer};
    probe->view.host = write_host(
        match->n_hosts > 0 ? match->hosts[number % match->n_hosts] : SPAN(""), probe->host);
    probe->head.target.query = write_query(match, probe->query, sizeof(probe->query));
    for (size_t i = 0; i < match->n_fields && probe->head.n_fields < HEAD_FIELDS_MAX; i++) {
        const struct value_match *field = &match->fields[i];
        if (field->kind != VALUE_MATCH_ABSENT) {
            probe->fields[probe->head.n_fields++] = (struct field){
                .name = field->name,
                .value = value_for(field),
                .id = field_identify(field->name),
            };
        }
    }
    init_connection(probe, match->connection);
    if (match->n_clients > 0) {
        probe->view.client = match->clients[0].base;
    }
}

/* Without steps every route is accepted: the result is not used. */
static bool accepts(void *context, const struct route_entry *entry)
{
    struct probe *probe = context;
    if (probe->steps == 0) {
        return true;
    }
    probe->steps--;
    return matcher_takes(probe->policy, entry, &probe->view);
}

const struct route *probe_look_up(struct probe *probe, struct span method, struct span path)
{
    probe->head.method = method;
    probe->head.method_id = method_identify(method);
    probe->head.target = (struct target){
        .form = TARGET_ORIGIN, .whole = path, .path = path, .query = probe->head.target.query};
    if (matcher_read_path(&probe->view) != NULL) {
        return NULL;
    }
    const struct route_entry *found = route_index_find(probe->policy->route_index, probe->view.host,
                                                       &probe->path, accepts, probe);
    return found != NULL && probe->steps > 0 ? &probe->policy->routes[found->route] : NULL;
}

const struct route *probe_find_route(struct probe *probe, struct span method,
                                     const struct spelling *spelling, struct span *path)
{
    struct text text = text_of(probe->target, sizeof(probe->target));
    write_path(probe, spelling, &text);
    *path = text_span(&text);
    return text.truncated || text.len == 0 ? NULL : probe_look_up(probe, method, *path);
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

bool probe_has_literal(const struct pattern *pattern)
{
    for (size_t i = 0; i < pattern->n_segments; i++) {
        const struct pattern_segment *segment = &pattern->segments[i];
        if (segment->kind == SEGMENT_PART ||
            (segment->kind == SEGMENT_LITERAL && segment->text.len > 0)) {
            return true;
        }
    }
    return false;
}

struct probe *probe_make(struct lint *lint)
{
    struct probe *probe = arena_alloc(lint->scratch, sizeof(*probe));
    if (probe == NULL) {
        lint->no_memory = true;
        return NULL;
    }
    probe->policy = lint->policy;
    probe->steps = STEPS_MAX;
    return probe;
}
