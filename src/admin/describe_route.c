#include "admin/describe.h"

#include "admin/request.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/matcher.h"

enum { PATTERN_BYTES_MAX = TARGET_BYTES_MAX };

static json_t *describe_pattern(const struct route_match *match)
{
    char buffer[PATTERN_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    matcher_write_path(match, &text);
    return json_of_span(text_span(&text));
}

/* The values may be secrets, and are not told. */
static json_t *describe_fields(const struct route_match *match)
{
    json_t *names = json_array();
    for (size_t i = 0; i < match->n_fields; i++) {
        describe_append(&names, json_of_span(match->fields[i].name));
    }
    return names;
}

static json_t *describe_match(const struct route_match *match)
{
    json_t *json = json_object();
    if (match->host.len > 0) {
        describe_set(&json, "host", json_of_span(match->host));
    }
    if (match->segments != NULL) {
        describe_set(&json, "path", describe_pattern(match));
    }
    if (match->n_methods > 0) {
        describe_set(&json, "method", describe_spans(match->methods, match->n_methods));
    }
    if (match->n_fields > 0) {
        describe_set(&json, "header", describe_fields(match));
    }
    if (match->n_clients > 0) {
        describe_set(&json, "client", describe_prefixes(match->clients, match->n_clients));
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

json_t *describe_route(const struct route *route)
{
    json_t *json = json_object();
    json_t *limits = json_array();
    for (size_t i = 0; i < route->n_rules; i++) {
        describe_append(&limits, json_of_span(route->rules[i]->name));
    }
    describe_set(&json, "name", json_of_span(route->name));
    describe_set(&json, "match", describe_match(&route->match));
    describe_set(&json, "limits", limits);
    describe_set(&json, "cost", describe_cost(&route->cost));
    describe_set(&json, "max_body", describe_size(route->body_bytes_max));
    if (route->upstream != NULL) {
        describe_set(&json, "upstream", json_of_span(route->upstream->name));
    } else {
        describe_set(&json, "respond", json_pack("{si}", "status", (int)route->respond->status));
    }
    return json;
}
