/* strip_prefix, request and response of a route: which fields may be changed, and where a
 * prefix can be taken off. */

#include "policy/link_edits.h"

#include "http/field.h"
#include "http/target.h"
#include "policy/edits.h"
#include "policy/quote.h"

enum { PROBLEM_BYTES_MAX = 256, PREFIX_BYTES_MAX = 1024 };

enum change {
    REQUEST_SET = 1 << 0,
    REQUEST_REMOVE = 1 << 1,
    RESPONSE_SET = 1 << 2,
    RESPONSE_REMOVE = 1 << 3,

    REQUEST = REQUEST_SET | REQUEST_REMOVE,
    RESPONSE = RESPONSE_SET | RESPONSE_REMOVE,
    ANY = REQUEST | RESPONSE,
};

#define IS_FRAMING ANY, "says where the message ends"
#define IS_OF_CONNECTION ANY, "belongs to one connection"
#define IS_HOST ANY, "is what the upstream's \"host\" says"
#define IS_OF_LIMITS RESPONSE, "tells of limits: see \"headers\" at the top"
#define IS_OF_PROXIES REQUEST, "is between proxies"
#define IS_OF_CLIENT REQUEST_SET, "says who the client is, which sluice finds out"

/* What cannot be changed, and why. */
static const struct {
    enum field_id id;
    unsigned changes;
    const char *why;
} FIXED[] = {
    {FIELD_CONTENT_LENGTH, IS_FRAMING},
    {FIELD_TRANSFER_ENCODING, IS_FRAMING},
    {FIELD_CONNECTION, IS_OF_CONNECTION},
    {FIELD_KEEP_ALIVE, IS_OF_CONNECTION},
    {FIELD_PROXY_CONNECTION, IS_OF_CONNECTION},
    {FIELD_PROXY_AUTHENTICATE, IS_OF_CONNECTION},
    {FIELD_PROXY_AUTHORIZATION, IS_OF_CONNECTION},
    {FIELD_TE, IS_OF_CONNECTION},
    {FIELD_TRAILER, IS_OF_CONNECTION},
    {FIELD_UPGRADE, IS_OF_CONNECTION},
    {FIELD_HOST, IS_HOST},
    {FIELD_RATELIMIT, IS_OF_LIMITS},
    {FIELD_RATELIMIT_POLICY, IS_OF_LIMITS},
    {FIELD_RETRY_AFTER, IS_OF_LIMITS},
    {FIELD_DATE, RESPONSE, "says when the response was made"},
    {FIELD_VIA, IS_OF_PROXIES},
    {FIELD_EXPECT, IS_OF_PROXIES},
    {FIELD_MAX_FORWARDS, IS_OF_PROXIES},
    {FIELD_X_REQUEST_ID, REQUEST, "stands in the access log as it was passed on"},
    {FIELD_X_FORWARDED_FOR, IS_OF_CLIENT},
    {FIELD_X_REAL_IP, IS_OF_CLIENT},
    {FIELD_FORWARDED, IS_OF_CLIENT},
};

/* --- fields --- */

static const char *why_not(struct span name, unsigned change)
{
    const enum field_id id = field_identify(name);
    for (size_t i = 0; i < ARRAY_LEN(FIXED) && id != FIELD_OTHER; i++) {
        if (FIXED[i].id == id && (FIXED[i].changes & change) != 0) {
            return FIXED[i].why;
        }
    }
    if (field_is_underscore_variant(name)) {
        return "is a known one with \"_\" for \"-\"";
    }
    const size_t start_len = strlen("X-RateLimit-");
    const bool is_legacy =
        name.len > start_len &&
        span_equals_ignore_case(span_of(name.data, start_len), SPAN("X-RateLimit-"));
    return is_legacy && (change & RESPONSE) != 0 ? "tells of limits: see \"headers\" at the top"
                                                 : NULL;
}

/* Whether @edits speak of @name already; else they do from now on. */
static bool is_repeated(struct field_edits *edits, struct span name)
{
    const struct field field = {.name = name, .id = field_identify(name)};
    if (field_edits_drop(edits, &field)) {
        return true;
    }
    if (field.id != FIELD_OTHER) {
        edits->known |= UINT64_C(1) << field.id;
    } else {
        edits->names[edits->n_names++] = name;
    }
    return false;
}

/* Whether the field called @name, as written at @node, may be changed, and is so once. */
static bool check_name(struct linker *linker, struct field_edits *edits, struct span name,
                       const struct node *node, unsigned change)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const char *why = why_not(name, change);
    if (why != NULL) {
        text_add_format(&problem, " cannot be %s: it %s",
                        (change & (REQUEST_SET | RESPONSE_SET)) != 0 ? "set" : "removed", why);
    } else if (is_repeated(edits, name)) {
        text_add_literal(&problem, " is spoken of twice");
    } else {
        return true;
    }
    link_report(linker, node, "field", &problem);
    return false;
}

static void link_set(struct linker *linker, const struct section_items *items, unsigned change,
                     struct field_edits *edits)
{
    const struct spec_field *fields = items->items;
    size_t n_bytes = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct span name = link_copy(linker, fields[i].place.name);
        if (fields[i].node == NULL || linker->no_memory ||
            !check_name(linker, edits, name, fields[i].place.name_node, change)) {
            continue;
        }
        n_bytes += name.len + fields[i].value.len + strlen(": \r\n");
        edits->set[edits->n_set++] =
            (struct field_setting){.name = name, .value = link_copy(linker, fields[i].value)};
    }
    if (n_bytes > ROUTE_SET_BYTES_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "these fields have more than %d bytes together", ROUTE_SET_BYTES_MAX);
    }
    if (n_bytes > linker->policy->set_bytes_max) {
        linker->policy->set_bytes_max = n_bytes;
    }
}

static void link_removed(struct linker *linker, const struct section_items *items, unsigned change,
                         struct field_edits *edits)
{
    const struct spec_text *names = items->items;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct span name = link_copy(linker, names[i].text);
        if (names[i].node != NULL && !linker->no_memory) {
            (void)check_name(linker, edits, name, names[i].node, change);
        }
    }
}

static bool check_number(struct linker *linker, const struct section_items *items, size_t max)
{
    if (items->n_items > max) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "more than %zu fields", max);
        return false;
    }
    return true;
}

static void link_fields(struct linker *linker, const struct spec_edits *spec, bool is_request,
                        struct field_edits *edits)
{
    if (!check_number(linker, &spec->set, ROUTE_SETS_MAX) ||
        !check_number(linker, &spec->removed, ROUTE_REMOVALS_MAX)) {
        return;
    }
    edits->set = link_alloc(linker, spec->set.n_items, sizeof(*edits->set));
    edits->names =
        link_alloc(linker, spec->set.n_items + spec->removed.n_items, sizeof(*edits->names));
    if (linker->no_memory) {
        return;
    }
    link_set(linker, &spec->set, is_request ? REQUEST_SET : RESPONSE_SET, edits);
    link_removed(linker, &spec->removed, is_request ? REQUEST_REMOVE : RESPONSE_REMOVE, edits);
}

/* --- the prefix --- */

static bool starts_match(const struct route_match *match, const struct path *prefix)
{
    if (match->n_segments < prefix->n_segments) {
        return false;
    }
    for (size_t i = 0; i < prefix->n_segments; i++) {
        const struct pattern_segment *segment = &match->segments[i];
        const bool is_same = match->ignore_case
                                 ? span_equals_ignore_case(segment->text, prefix->segments[i])
                                 : span_equals(segment->text, prefix->segments[i]);
        if (segment->kind != SEGMENT_LITERAL || !is_same) {
            return false;
        }
    }
    return true;
}

/* What is wrong with @prefix for a route that matches so, or NULL. */
static const char *find_fault(struct span prefix, const struct route_match *match)
{
    static const struct path_rules STRICT = {.allow_encoded_slash = false};
    char buffer[PREFIX_BYTES_MAX + 1];
    struct path path;
    if (prefix.len < 2 || prefix.len > PREFIX_BYTES_MAX || prefix.data[0] != '/' ||
        prefix.data[prefix.len - 1] == '/') {
        return ": must start with \"/\" and not end with it";
    }
    if (path_normalise(prefix, &STRICT, buffer, &path) != NULL || !span_equals(path.text, prefix)) {
        return ": paths are normalised first, and never start so";
    }
    return starts_match(match, &path) ? NULL : ": the route's path does not start with it";
}

static void link_prefix(struct linker *linker, const struct spec_text *spec,
                        struct route_edits *edits, const struct route *route)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (spec->node == NULL) {
        return;
    }
    const char *fault = find_fault(spec->text, &route->match);
    if (fault != NULL) {
        text_add(&problem, span_of_text(fault));
        link_report(linker, spec->node, "strip_prefix", &problem);
        return;
    }
    edits->prefix = link_copy(linker, spec->text);
}

/* --- all of it --- */

/* A route that answers by itself passes nothing on, and nothing comes back. */
static void check_destination(struct linker *linker, const struct spec_route *spec)
{
    const struct {
        const struct node *node;
        const char *what;
    } said[] = {
        {spec->strip_prefix.node, "strip_prefix"},
        {spec->request.place.node, "request"},
        {spec->response.removed.node, "response.remove"},
    };
    for (size_t i = 0; i < ARRAY_LEN(said) && spec->respond.place.node != NULL; i++) {
        if (said[i].node != NULL) {
            diags_add(linker->diags, DIAG_ERROR, said[i].node->line, said[i].node->column,
                      "%s has no meaning for a route that responds by itself", said[i].what);
        }
    }
}

void link_edits(struct linker *linker, const struct spec_route *spec, struct route *route)
{
    if (spec->strip_prefix.node == NULL && spec->request.place.node == NULL &&
        spec->response.place.node == NULL) {
        return;
    }
    struct route_edits *edits = link_alloc(linker, 1, sizeof(*edits));
    if (edits == NULL) {
        return;
    }
    check_destination(linker, spec);
    link_prefix(linker, &spec->strip_prefix, edits, route);
    link_fields(linker, &spec->request, true, &edits->request);
    link_fields(linker, &spec->response, false, &edits->response);
    route->edits = edits;
}
