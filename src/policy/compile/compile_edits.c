/* Compiles strip_prefix, request and response of a route: checks which fields may be changed and
 * whether a prefix can be stripped; and removes from all routes what a claim sets on one. */

#include "policy/compile/compile.h"

#include "http/field.h"
#include "http/target.h"
#include "jwt/token.h"
#include "policy/edits.h"
#include "policy/load/node.h"

enum { PREFIX_BYTES_MAX = 1024 };

enum change {
    REQUEST_SET = 1 << 0,
    REQUEST_REMOVE = 1 << 1,
    RESPONSE_SET = 1 << 2,
    RESPONSE_REMOVE = 1 << 3,
    DENIAL_SET = 1 << 4,
    RESPOND_SET = 1 << 5,

    REQUEST = REQUEST_SET | REQUEST_REMOVE,
    REPLY_SET = DENIAL_SET | RESPOND_SET,
    RESPONSE = RESPONSE_SET | RESPONSE_REMOVE | REPLY_SET,
    ANY = REQUEST | RESPONSE,
};

#define IS_FRAMING ANY, "says where the message ends"
#define IS_OF_CONNECTION ANY, "belongs to one connection"
#define IS_HOST ANY, "is what the upstream's \"host\" says"
#define IS_OF_LIMITS RESPONSE, "belongs to the limits: see \"headers\" at the top"
#define IS_OF_PROXIES REQUEST, "is between proxies"
#define IS_OF_CLIENT REQUEST_SET, "says who the client is, which sluice finds out"

/* Fields that cannot be changed, and why. */
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
    {FIELD_RETRY_AFTER, RESPONSE & ~RESPOND_SET,
     "belongs to the limits: see \"headers\" at the top"},
    {FIELD_DATE, RESPONSE, "says when the response was made"},
    {FIELD_VIA, IS_OF_PROXIES},
    {FIELD_EXPECT, IS_OF_PROXIES},
    {FIELD_MAX_FORWARDS, IS_OF_PROXIES},
    {FIELD_X_REQUEST_ID, REQUEST, "stands in the access log as it was passed on"},
    {FIELD_X_FORWARDED_FOR, IS_OF_CLIENT},
    {FIELD_X_REAL_IP, IS_OF_CLIENT},
    {FIELD_FORWARDED, IS_OF_CLIENT},
    {FIELD_CLIENT_CERT, IS_OF_CLIENT},
    {FIELD_CLIENT_CERT_CHAIN, IS_OF_CLIENT},
    {FIELD_EARLY_DATA, IS_OF_PROXIES},
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
    if ((change & REPLY_SET) != 0 && span_equals_ignore_case(name, SPAN("Content-Type"))) {
        return "is what content_type says";
    }
    if ((change & DENIAL_SET) != 0 && span_equals_ignore_case(name, SPAN("Cache-Control"))) {
        return "is always no-store in a denial";
    }
    if (field_is_underscore_variant(name)) {
        return "is a known one with \"_\" or \".\" for \"-\"";
    }
    const size_t start_len = strlen("X-RateLimit-");
    const bool is_legacy =
        name.len > start_len &&
        span_equals_ignore_case(span_of(name.data, start_len), SPAN("X-RateLimit-"));
    return is_legacy && (change & RESPONSE) != 0
               ? "belongs to the limits: see \"headers\" at the top"
               : NULL;
}

/* Whether @edits already contain @name; adds it if not. */
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

/* Whether the field @name, written at @node, may be changed and occurs only once. */
static bool check_name(struct compiler *compiler, struct field_edits *edits, struct span name,
                       const struct node *node, unsigned change)
{
    const char *why = why_not(name, change);
    if (why != NULL) {
        node_report(compiler->diags, node, "field", " cannot be %s: it %s",
                    (change & (REQUEST_SET | RESPONSE_SET | REPLY_SET)) != 0 ? "set" : "removed",
                    why);
    } else if (is_repeated(edits, name)) {
        node_report(compiler->diags, node, "field", " is named twice");
    } else {
        return true;
    }
    return false;
}

/* Raises *bytes_max to @n_bytes, the size of fields that are set. */
static void check_set_bytes(struct compiler *compiler, const struct section_items *items,
                            size_t n_bytes, size_t *bytes_max)
{
    if (n_bytes > ROUTE_SET_BYTES_MAX) {
        node_error(compiler->diags, items->node, "these fields have more than %d bytes together",
                   ROUTE_SET_BYTES_MAX);
    }
    *bytes_max = n_bytes > *bytes_max ? n_bytes : *bytes_max;
}

/* Raises *bytes_max to the size of the fields. */
static void compile_set(struct compiler *compiler, const struct section_items *items,
                        unsigned change, struct field_edits *edits, size_t *bytes_max)
{
    const struct spec_field *fields = items->items;
    size_t n_bytes = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct span name = compile_copy(compiler, fields[i].position.name);
        if (fields[i].position.node == NULL || compiler->no_memory ||
            !check_name(compiler, edits, name, fields[i].position.name_node, change)) {
            continue;
        }
        n_bytes += name.len + fields[i].value.len + strlen(": \r\n");
        edits->set[edits->n_set++] =
            (struct field_setting){.name = name, .value = compile_copy(compiler, fields[i].value)};
    }
    check_set_bytes(compiler, items, n_bytes, bytes_max);
}

/* The claim that the field at @spec is set from. */
static void compile_from(struct compiler *compiler, const struct spec_request_field *spec,
                         struct field_setting *setting)
{
    const struct key_part *part = &spec->from.part;
    if (part->n_terms != 1 || KEY_SOURCE_ROWS[part->terms[0].source].origin != KEY_FROM_TOKEN) {
        node_report(compiler->diags, spec->from.node, "from", " must be jwt.CLAIM");
        return;
    }
    setting->is_claim = true;
    setting->claim = compile_claim(compiler, part->terms[0].name, spec->from.node);
}

static void compile_request_field(struct compiler *compiler, const struct spec_request_field *spec,
                                  struct field_edits *edits, size_t *n_bytes)
{
    const struct section_position *position = &spec->position;
    const struct span name = compile_copy(compiler, position->name);
    struct field_setting setting = {.name = name};
    if (!field_is_token(name)) {
        node_error(compiler->diags, position->name_node, "the key must be the name of a header");
        return;
    }
    const bool is_mapping = position->node->kind == NODE_MAPPING;
    const bool has_value = !is_mapping || node_find(position->node, SPAN("value")) != NULL;
    const bool has_from = is_mapping && node_find(position->node, SPAN("from")) != NULL;
    if (has_value == has_from) {
        node_error(compiler->diags, position->node,
                   "a field is set to a value or from a claim: {from: jwt.sub}");
        return;
    }
    if ((has_value ? spec->value.node : spec->from.node) == NULL || compiler->no_memory ||
        !check_name(compiler, edits, name, position->name_node, REQUEST_SET)) {
        return;
    }
    if (has_from) {
        compile_from(compiler, spec, &setting);
        edits->n_claims++;
    } else {
        setting.value = compile_copy(compiler, span_trim(spec->value.text));
    }
    *n_bytes += name.len + strlen(": \r\n") +
                (setting.is_claim ? (size_t)JWT_VALUE_BYTES_MAX : setting.value.len);
    edits->set[edits->n_set++] = setting;
}

/* As compile_set(), for requests. */
static void compile_request_set(struct compiler *compiler, const struct section_items *items,
                                struct field_edits *edits, size_t *bytes_max)
{
    const struct spec_request_field *fields = items->items;
    size_t n_bytes = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        if (fields[i].position.node != NULL) {
            compile_request_field(compiler, &fields[i], edits, &n_bytes);
        }
    }
    check_set_bytes(compiler, items, n_bytes, bytes_max);
}

static void compile_removed(struct compiler *compiler, const struct section_items *items,
                            unsigned change, struct field_edits *edits)
{
    const struct spec_text *names = items->items;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct span name = compile_copy(compiler, names[i].text);
        if (names[i].node != NULL && !compiler->no_memory) {
            (void)check_name(compiler, edits, name, names[i].node, change);
        }
    }
}

static bool check_number(struct compiler *compiler, const struct section_items *items, size_t max)
{
    if (items->n_items > max) {
        node_error(compiler->diags, items->node, "more than %zu fields", max);
        return false;
    }
    return true;
}

static void compile_fields(struct compiler *compiler, const struct spec_edits *spec,
                           bool is_request, struct field_edits *edits)
{
    if (!check_number(compiler, &spec->set, ROUTE_SETS_MAX) ||
        !check_number(compiler, &spec->removed, ROUTE_REMOVALS_MAX)) {
        return;
    }
    edits->set = compile_alloc(compiler, spec->set.n_items, sizeof(*edits->set));
    edits->names =
        compile_alloc(compiler, spec->set.n_items + spec->removed.n_items, sizeof(*edits->names));
    if (compiler->no_memory) {
        return;
    }
    if (is_request) {
        compile_request_set(compiler, &spec->set, edits, &compiler->policy->set_bytes_max);
    } else {
        compile_set(compiler, &spec->set, RESPONSE_SET, edits, &compiler->policy->set_bytes_max);
    }
    compile_removed(compiler, &spec->removed, is_request ? REQUEST_REMOVE : RESPONSE_REMOVE, edits);
}

void compile_reply_set(struct compiler *compiler, const struct section_items *items, bool is_denial,
                       struct reply_spec *reply)
{
    struct field_edits edits = {.n_set = 0};
    size_t *bytes_max = &compiler->policy->reply_set_bytes_max;
    const size_t values_bytes = REPLY_VALUES_MAX * REPLY_VALUE_BYTES_MAX;
    if (items->n_items == 0 || !check_number(compiler, items, REPLY_SETS_MAX)) {
        return;
    }
    edits.set = compile_alloc(compiler, items->n_items, sizeof(*edits.set));
    edits.names = compile_alloc(compiler, items->n_items, sizeof(*edits.names));
    if (compiler->no_memory) {
        return;
    }
    size_t bytes = 0;
    compile_set(compiler, items, is_denial ? DENIAL_SET : RESPOND_SET, &edits, &bytes);
    bytes += is_denial ? values_bytes : 0;
    *bytes_max = bytes > *bytes_max ? bytes : *bytes_max;
    reply->set = edits.set;
    reply->n_set = edits.n_set;
}

/* --- the prefix --- */

static bool starts_path(const struct pattern *path, bool ignore_case, const struct path *prefix)
{
    if (path->n_segments < prefix->n_segments) {
        return false;
    }
    for (size_t i = 0; i < prefix->n_segments; i++) {
        const struct pattern_segment *segment = &path->segments[i];
        const bool is_same = ignore_case
                                 ? span_equals_ignore_case(segment->text, prefix->segments[i])
                                 : span_equals(segment->text, prefix->segments[i]);
        if (segment->kind != SEGMENT_LITERAL || !is_same) {
            return false;
        }
    }
    return true;
}

/* Whether each path of @match starts with @prefix. */
static bool starts_match(const struct route_match *match, const struct path *prefix)
{
    for (size_t i = 0; i < match->n_paths; i++) {
        if (!starts_path(&match->paths[i], match->ignore_case, prefix)) {
            return false;
        }
    }
    return match->n_paths > 0;
}

/* Why @prefix is invalid for a route with @match, or NULL. */
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

static void compile_prefix(struct compiler *compiler, const struct spec_text *spec,
                           struct route_edits *edits, const struct route *route)
{
    if (spec->node == NULL) {
        return;
    }
    const char *fault = find_fault(spec->text, &route->match);
    if (fault != NULL) {
        node_report(compiler->diags, spec->node, "strip_prefix", "%s", fault);
        return;
    }
    edits->prefix = compile_copy(compiler, spec->text);
}

/* --- entry --- */

/* A route that responds by itself forwards no request and no response. */
static void check_destination(struct compiler *compiler, const struct spec_route *spec)
{
    const struct {
        const struct node *node;
        const char *what;
    } said[] = {
        {spec->strip_prefix.node, "strip_prefix"},
        {spec->request.position.node, "request"},
        {spec->response.removed.node, "response.remove"},
    };
    for (size_t i = 0; i < ARRAY_LEN(said) && spec->respond.position.node != NULL; i++) {
        if (said[i].node != NULL) {
            node_error(compiler->diags, said[i].node,
                       "%s has no meaning for a route that responds by itself", said[i].what);
        }
    }
}

void compile_edits(struct compiler *compiler, const struct spec_route *spec, struct route *route)
{
    if (spec->strip_prefix.node == NULL && spec->request.position.node == NULL &&
        spec->response.position.node == NULL) {
        return;
    }
    struct route_edits *edits = compile_alloc(compiler, 1, sizeof(*edits));
    if (edits == NULL) {
        return;
    }
    check_destination(compiler, spec);
    compile_prefix(compiler, &spec->strip_prefix, edits, route);
    compile_fields(compiler, &spec->request, true, &edits->request);
    edits->request.folds_names = true;
    compile_fields(compiler, &spec->response, false, &edits->response);
    route->edits = edits;
}

/* --- fields of claims, on all routes --- */

/* Whether clients send the field @name for a reason of their own, so that it stays theirs on routes
 * that do not set it. */
static bool is_of_clients(struct span name)
{
    return field_identify(name) != FIELD_OTHER ||
           span_equals_ignore_case(name, SPAN("Authorization"));
}

/* Adds the fields that @route, which is that of @spec, sets from claims to @fields. */
static void collect_claim_fields(struct compiler *compiler, const struct spec_route *spec,
                                 const struct route *route, struct field_edits *fields)
{
    for (size_t i = 0; route->edits != NULL && i < route->edits->request.n_set; i++) {
        const struct field_setting *setting = &route->edits->request.set[i];
        if (!setting->is_claim || is_of_clients(setting->name)) {
            continue;
        }
        if (!is_repeated(fields, setting->name) && fields->n_names > CLAIM_FIELDS_MAX) {
            fields->n_names--;
            node_error(compiler->diags, spec->request.position.node,
                       "more than %d fields are set from claims, with those of routes before",
                       CLAIM_FIELDS_MAX);
            return;
        }
    }
}

/* A copy of @edits (NULL: none) that removes @fields from requests, too. NULL: no memory. */
static const struct route_edits *without_fields(struct compiler *compiler,
                                                const struct route_edits *edits,
                                                const struct field_edits *fields)
{
    struct route_edits *copy = compile_alloc(compiler, 1, sizeof(*copy));
    if (copy == NULL) {
        return NULL;
    }
    if (edits != NULL) {
        *copy = *edits;
    }
    struct field_edits *request = &copy->request;
    struct span *names =
        compile_alloc(compiler, request->n_names + fields->n_names, sizeof(*names));
    if (names == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < request->n_names; i++) {
        names[i] = request->names[i];
    }
    request->names = names;
    request->folds_names = true;
    for (size_t i = 0; i < fields->n_names; i++) {
        (void)is_repeated(request, fields->names[i]);
    }
    return copy;
}

/* Routes without edits share one. */
static void remove_claim_fields(struct compiler *compiler, const struct field_edits *fields)
{
    struct policy *policy = compiler->policy;
    const struct route_edits *shared = without_fields(compiler, NULL, fields);
    for (size_t i = 0; i < policy->n_routes && !compiler->no_memory; i++) {
        struct route *route = &policy->routes[i];
        if (route->upstream != NULL) {
            route->edits =
                route->edits != NULL ? without_fields(compiler, route->edits, fields) : shared;
        }
    }
}

void compile_claim_fields(struct compiler *compiler)
{
    const struct spec_route *specs = compiler->spec->routes.items;
    struct policy *policy = compiler->policy;
    struct span names[CLAIM_FIELDS_MAX + 1];
    struct field_edits fields = {.names = names, .folds_names = true};
    for (size_t i = 0; i < policy->n_routes; i++) {
        collect_claim_fields(compiler, &specs[i], &policy->routes[i], &fields);
    }
    if (fields.n_names > 0) {
        remove_claim_fields(compiler, &fields);
    }
}
