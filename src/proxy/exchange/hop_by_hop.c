#include "proxy/exchange/hop_by_hop.h"

#include <string.h>

#include "base/compiler.h"
#include "http/field.h"

static bool is_let_pass(const struct route *route, struct span protocol)
{
    for (size_t i = 0; i < route->n_upgrades; i++) {
        if (span_equals_ignore_case(route->upgrades[i], protocol)) {
            return true;
        }
    }
    return false;
}

static bool is_asked_for(const struct head *request, struct span protocol)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (field->id == FIELD_UPGRADE && field_list_has(field->value, protocol)) {
            return true;
        }
    }
    return false;
}

static bool is_offered(const struct head *request, const struct route *route, struct span protocol)
{
    return request->has_upgrade && is_let_pass(route, protocol) && is_asked_for(request, protocol);
}

static size_t write_line(struct span line, const struct route *route, size_t n_written,
                         struct text *text)
{
    struct span protocol;
    while (field_list_next(&line, &protocol)) {
        if (is_let_pass(route, protocol)) {
            text_add(text,
                     n_written++ == 0 ? SPAN("Connection: Upgrade\r\nUpgrade: ") : SPAN(", "));
            text_add(text, protocol);
        }
    }
    return n_written;
}

bool upgrade_write_offer(const struct head *request, const struct route *route, struct text *text)
{
    size_t n_written = 0;
    for (size_t i = 0; request->has_upgrade && i < request->n_fields; i++) {
        if (request->fields[i].id == FIELD_UPGRADE) {
            n_written = write_line(request->fields[i].value, route, n_written, text);
        }
    }
    if (n_written > 0) {
        text_add_literal(text, "\r\n");
    }
    return n_written > 0;
}

/* The only protocol that @response names; false: it names none, or several. */
static bool find_protocol(const struct head *response, struct span *protocol)
{
    size_t n = 0;
    for (size_t i = 0; i < response->n_fields; i++) {
        const struct field *field = &response->fields[i];
        struct span line = field->value;
        while (field->id == FIELD_UPGRADE && field_list_next(&line, protocol)) {
            n++;
        }
    }
    return n == 1;
}

bool upgrade_is_taken(const struct head *request, const struct route *route,
                      const struct head *response, struct span *protocol)
{
    return response->has_upgrade && find_protocol(response, protocol) &&
           is_offered(request, route, *protocol);
}

/* --- trailers --- */

enum { TRAILERS_MAX = 64 };

/* Fields that never pass, in addition to those with a field_id. Those frame, route, belong to a
 * connection, say another method or path, or are written by the proxy; all of them are dropped. */
static const struct span NEVER[] = {
    {"age", 3},
    {"authorization", 13},
    {"cache-control", 13},
    {"content-encoding", 16},
    {"content-location", 16},
    {"content-range", 13},
    {"content-type", 12},
    {"cookie2", 7},
    {"expires", 7},
    {"location", 8},
    {"pragma", 6},
    {"range", 5},
    {"realm", 5},
    {"set-cookie", 10},
    {"vary", 4},
    {"www-authenticate", 16},
    {"x-http-method", 13},
    {"x-http-method-override", 22},
    {"x-method-override", 17},
    {"x-original-url", 14},
    {"x-rewrite-url", 13},
};

static bool names(const struct head *head, enum field_id id, struct span member)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id == id && field_list_has(head->fields[i].value, member)) {
            return true;
        }
    }
    return false;
}

bool trailers_are_wanted(const struct head *request)
{
    return request->minor > 0 && head_has(request, FIELD_TE) &&
           names(request, FIELD_TE, SPAN("trailers"));
}

bool trailers_keep_connection(struct head *response, struct arena *arena)
{
    for (size_t i = 0; i < response->n_fields; i++) {
        struct field *field = &response->fields[i];
        if (field->id == FIELD_CONNECTION) {
            field->value = arena_copy(arena, field->value);
            if (field->value.data == NULL) {
                field->value.len = 0;
                return false;
            }
        }
    }
    return true;
}

/* Whether the policy removes or strips the field. */
static bool is_redacted(struct span name, const struct route *route)
{
    const struct field field = {.name = name, .id = FIELD_OTHER};
    if (route->cost.kind == COST_RESPONSE_HEADER && route->cost.strip &&
        span_equals_ignore_case(name, route->cost.field)) {
        return true;
    }
    return route->edits != NULL && field_edits_drop(&route->edits->response, &field);
}

static bool may_pass(struct span name, const struct head *response, const struct route *route)
{
    for (size_t i = 0; i < ARRAY_LEN(NEVER); i++) {
        if (span_equals_ignore_case(name, NEVER[i])) {
            return false;
        }
    }
    return field_identify(name) == FIELD_OTHER && !field_is_underscore_variant(name) &&
           !names(response, FIELD_CONNECTION, name) && !is_redacted(name, route);
}

/* Whether servers may read @folded at the start of @name. */
static bool starts_with_folded(struct span name, struct span folded)
{
    size_t i = 0;
    while (i < name.len && i < folded.len && read_field_fold(name.data[i]) == folded.data[i]) {
        i++;
    }
    return i == folded.len;
}

bool trailers_of_request_are_single(const struct head *request,
                                    const struct upstream_spec *upstream)
{
    return upstream->request_trailers == REQUEST_TRAILERS_ANNOUNCED &&
           head_has(request, FIELD_TRAILER) && request->body != BODY_NONE;
}

bool trailers_of_request_pass(const struct head *request, const struct route *route)
{
    const struct upstream_spec *upstream = route != NULL ? route->upstream : NULL;
    return upstream != NULL && upstream->may_speak_http2 &&
           (upstream->request_trailers == REQUEST_TRAILERS_ALL ||
            trailers_of_request_are_single(request, upstream));
}

bool trailer_of_request_passes(const struct field *field, const struct head *request,
                               const struct read_fields *read, const struct route *route)
{
    /* Go's server resets the stream for trailers of preconditions, and for "realm". */
    static const struct span STARTS[] = {{"proxy-", 6}, {"if-", 3}};
    if (names(request, FIELD_CONNECTION, field->name) ||
        (route->upstream->request_trailers == REQUEST_TRAILERS_ANNOUNCED &&
         !names(request, FIELD_TRAILER, field->name))) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(NEVER); i++) {
        if (field->name.len == NEVER[i].len && starts_with_folded(field->name, NEVER[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(STARTS); i++) {
        if (starts_with_folded(field->name, STARTS[i])) {
            return false;
        }
    }
    return field->id == FIELD_OTHER && !field_is_underscore_variant(field->name) &&
           !field_is_x_forwarded(field->name) && !read_fields_have(read, field->name) &&
           (route->edits == NULL || !field_edits_drop(&route->edits->request, field));
}

static bool is_condition(struct span name)
{
    return (name.len > 3 && span_equals_ignore_case(span_of(name.data, 3), SPAN("if-"))) ||
           span_equals_ignore_case(name, SPAN("range"));
}

bool request_has_condition(const struct head *request, const struct route *route)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (!field->hop_by_hop && is_condition(field->name) &&
            (route->edits == NULL || !field_edits_drop(&route->edits->request, field))) {
            return true;
        }
    }
    return false;
}

struct field *trailers_read(struct span section, struct arena *arena, size_t *n)
{
    struct field *fields = arena_alloc(arena, TRAILERS_MAX * sizeof(*fields));
    struct span line;
    *n = 0;
    while (fields != NULL && *n < TRAILERS_MAX && span_split(&section, '\n', &line)) {
        const size_t colon = span_find(line, ':');
        if (colon < line.len) {
            const struct span value = span_of(line.data + colon + 1, line.len - colon - 1);
            const size_t end = span_find(value, '\r');
            fields[(*n)++] = (struct field){
                .name = span_of(line.data, colon),
                .value = span_trim(span_of(value.data, end)),
            };
        }
    }
    return fields;
}

struct span trailers_keep(char *section, size_t n_bytes, const struct head *response,
                          const struct route *route)
{
    struct span rest = span_of(section, n_bytes);
    size_t kept = 0;
    while (rest.len > 0) {
        const size_t end = span_find(rest, '\n');
        const size_t len = end < rest.len ? end + 1 : rest.len;
        const struct span line = span_of(rest.data, len);
        const size_t colon = span_find(line, ':');
        if (colon < line.len && may_pass(span_of(line.data, colon), response, route)) {
            memmove(section + kept, line.data, line.len);
            kept += line.len;
        }
        rest = span_of(rest.data + len, rest.len - len);
    }
    return span_of(section, kept);
}
