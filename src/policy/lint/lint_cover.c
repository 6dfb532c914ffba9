/* Whether one match covers every request of another one. A true result is always correct. A false
 * result may be wrong only in the cases that each function names. */

#include "policy/lint/lint.h"

#include "policy/pattern.h"
#include "policy/route_index.h"

/* --- paths --- */

static bool has_letters(struct span span)
{
    for (size_t i = 0; i < span.len; i++) {
        const char lower = ascii_lower(span.data[i]);
        if (lower >= 'a' && lower <= 'z') {
            return true;
        }
    }
    return false;
}

/* Whether @wide matches all that the literal @narrow matches. */
static bool covers_literal(const struct pattern_segment *wide, bool wide_ignores_case,
                           const struct pattern_segment *narrow, bool narrow_ignores_case)
{
    if (wide_ignores_case) {
        return span_equals_ignore_case(wide->text, narrow->text);
    }
    return span_equals(wide->text, narrow->text) &&
           !(narrow_ignores_case && has_letters(narrow->text));
}

/* Another SEGMENT_PART is covered only if both are equal. */
static bool covers_part(const struct pattern_segment *wide, bool wide_ignores_case,
                        const struct pattern_segment *narrow, bool narrow_ignores_case)
{
    if (narrow_ignores_case && !wide_ignores_case &&
        (has_letters(wide->text) || has_letters(wide->suffix))) {
        return false;
    }
    if (narrow->kind == SEGMENT_LITERAL) {
        return pattern_part_matches(wide, narrow->text, wide_ignores_case);
    }
    return narrow->kind == SEGMENT_PART && span_equals(wide->text, narrow->text) &&
           span_equals(wide->suffix, narrow->suffix);
}

/* For one segment; neither is "**". Wildcards do not match an empty segment. */
static bool covers_segment(const struct pattern_segment *wide, bool wide_ignores_case,
                           const struct pattern_segment *narrow, bool narrow_ignores_case)
{
    if (wide->kind == SEGMENT_LITERAL) {
        return narrow->kind == SEGMENT_LITERAL &&
               covers_literal(wide, wide_ignores_case, narrow, narrow_ignores_case);
    }
    if (wide->type != CAPTURE_TEXT) {
        return narrow->type == wide->type;
    }
    if (wide->kind == SEGMENT_PART) {
        return covers_part(wide, wide_ignores_case, narrow, narrow_ignores_case);
    }
    return narrow->kind != SEGMENT_LITERAL || narrow->text.len > 0;
}

static bool covers_pattern(const struct pattern *wide, bool wide_ignores_case,
                           const struct pattern *narrow, bool narrow_ignores_case)
{
    size_t i = 0;
    while (i < wide->n_segments && wide->segments[i].kind != SEGMENT_REST) {
        if (i == narrow->n_segments || narrow->segments[i].kind == SEGMENT_REST ||
            !covers_segment(&wide->segments[i], wide_ignores_case, &narrow->segments[i],
                            narrow_ignores_case)) {
            return false;
        }
        i++;
    }
    return i < wide->n_segments || i == narrow->n_segments;
}

/* A route without a path also matches `OPTIONS *`, which no pattern matches. */
static bool covers_path(const struct pattern *wide, bool wide_ignores_case,
                        const struct pattern *narrow, bool narrow_ignores_case, struct span method)
{
    if (wide == NULL) {
        return true;
    }
    if (narrow == NULL) {
        const bool may_be_asterisk = method.len == 0 || span_equals(method, SPAN("OPTIONS"));
        return !may_be_asterisk && wide->segments[0].kind == SEGMENT_REST;
    }
    return covers_pattern(wide, wide_ignores_case, narrow, narrow_ignores_case);
}

/* --- the rest of a match --- */

static bool covers_host(struct span wide, struct span narrow)
{
    if (wide.len == 0 || span_equals(wide, narrow)) {
        return true;
    }
    if (wide.data[0] != '*' || narrow.len == 0) {
        return false;
    }
    /* "*.example.com" matches hosts that end with ".example.com" and have a label before it. */
    const struct span tail = span_from(wide, 1);
    const struct span end = narrow.data[0] == '*' ? span_from(narrow, 1) : narrow;
    const bool is_longer = narrow.data[0] == '*' ? end.len >= tail.len : end.len > tail.len;
    return is_longer && span_equals(tail, span_of(end.data + end.len - tail.len, tail.len));
}

static bool covers_method(const struct route_match *wide, struct span method)
{
    for (size_t i = 0; i < wide->n_methods; i++) {
        if (method.len > 0 && span_equals(wide->methods[i], method)) {
            return true;
        }
    }
    return wide->n_methods == 0;
}

static bool covers_client(const struct route_match *wide, const struct address_prefix *client)
{
    for (size_t i = 0; i < wide->n_clients && client != NULL; i++) {
        if (address_prefix_holds(&wide->clients[i], client)) {
            return true;
        }
    }
    return wide->n_clients == 0;
}

/* Whether each value of @narrow is one of @wide. */
static bool are_among(const struct value_match *wide, const struct value_match *narrow)
{
    for (size_t i = 0; i < narrow->n_values; i++) {
        size_t j = 0;
        while (j < wide->n_values && !span_equals(wide->values[j], narrow->values[i])) {
            j++;
        }
        if (j == wide->n_values) {
            return false;
        }
    }
    return true;
}

/* Whether what fulfils @narrow fulfils @wide, a condition on the same name. */
static bool implies(const struct value_match *narrow, const struct value_match *wide)
{
    switch (wide->kind) {
    case VALUE_MATCH_EQUALS:
        return narrow->kind == VALUE_MATCH_EQUALS && are_among(wide, narrow);
    case VALUE_MATCH_PRESENT:
        return narrow->kind != VALUE_MATCH_ABSENT;
    case VALUE_MATCH_ABSENT:
    case VALUE_MATCH_GRPC:
        return narrow->kind == wide->kind;
    }
    return false;
}

static bool covers_connection(const struct connection_match *wide,
                              const struct connection_match *narrow)
{
    if (wide == NULL || narrow == NULL) {
        return wide == NULL;
    }
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        const struct value_match *facts = &narrow->facts[i];
        if (wide->facts[i].n_values > 0 &&
            (facts->n_values == 0 || !are_among(&wide->facts[i], facts))) {
            return false;
        }
    }
    const bool is_https = narrow->scheme == SCHEME_MATCH_HTTPS || narrow->asks_certificate;
    return (wide->scheme == SCHEME_MATCH_ANY || wide->scheme == narrow->scheme ||
            (wide->scheme == SCHEME_MATCH_HTTPS && is_https)) &&
           (!wide->asks_certificate || narrow->asks_certificate);
}

typedef bool same_name(struct span a, struct span b);

static bool is_implied(const struct value_match *wide, const struct value_match *narrow,
                       size_t n_narrow, same_name *is_same)
{
    for (size_t i = 0; i < n_narrow; i++) {
        if (is_same(wide->name, narrow[i].name) && implies(&narrow[i], wide)) {
            return true;
        }
    }
    return false;
}

static bool covers_values(const struct value_match *wide, size_t n_wide,
                          const struct value_match *narrow, size_t n_narrow, same_name *is_same)
{
    for (size_t i = 0; i < n_wide; i++) {
        if (!is_implied(&wide[i], narrow, n_narrow, is_same)) {
            return false;
        }
    }
    return true;
}

static bool is_same_field(struct span a, struct span b)
{
    return span_equals_ignore_case(a, b);
}

static bool is_same_parameter(struct span a, struct span b)
{
    return span_equals(a, b);
}

bool cover_takes(const struct policy *policy, const struct route_entry *earlier,
                 const struct route_entry *later, const struct cover_part *part)
{
    const struct route_match *wide = &policy->routes[earlier->route].match;
    const struct route_match *narrow = &policy->routes[later->route].match;
    return covers_host(earlier->host, later->host) &&
           covers_path(earlier->path, wide->ignore_case, later->path, narrow->ignore_case,
                       part->method) &&
           covers_method(wide, part->method) &&
           (policy->routes[earlier->route].leaving == NULL ||
            !span_equals(part->method, SPAN("HEAD"))) &&
           covers_client(wide, part->client) &&
           covers_connection(wide->connection, narrow->connection) &&
           covers_values(wide->fields, wide->n_fields, narrow->fields, narrow->n_fields,
                         is_same_field) &&
           covers_values(wide->parameters, wide->n_parameters, narrow->parameters,
                         narrow->n_parameters, is_same_parameter) &&
           wide->n_claims == 0 && wide->geo == NULL;
}

/* Compares entries with @part of the requests of @later. */
struct comparison {
    const struct policy *policy;
    const struct route_entry *later;
    const struct cover_part *part;
};

static bool takes_part(void *context, const struct route_entry *entry)
{
    const struct comparison *comparison = context;
    return cover_takes(comparison->policy, entry, comparison->later, comparison->part);
}

const struct route *cover_find_taker(const struct policy *policy, const struct route_entry *later,
                                     const struct cover_part *part, uint64_t *steps)
{
    struct comparison comparison = {.policy = policy, .later = later, .part = part};
    const struct route_entry *found =
        route_index_find_wider(policy->route_index, later, takes_part, &comparison, steps);
    return found != NULL ? &policy->routes[found->route] : NULL;
}
