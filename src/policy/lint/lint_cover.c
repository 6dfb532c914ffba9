/* Whether one match covers every request of another one. A true result is always correct. A false
 * result may be wrong only in the cases that each function names. */

#include "policy/lint/lint.h"

#include "policy/pattern.h"

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
    if (wide->kind == SEGMENT_PART) {
        return covers_part(wide, wide_ignores_case, narrow, narrow_ignores_case);
    }
    return narrow->kind != SEGMENT_LITERAL || narrow->text.len > 0;
}

static bool covers_pattern(const struct route_match *wide, const struct route_match *narrow)
{
    size_t i = 0;
    while (i < wide->n_segments && wide->segments[i].kind != SEGMENT_REST) {
        if (i == narrow->n_segments || narrow->segments[i].kind == SEGMENT_REST ||
            !covers_segment(&wide->segments[i], wide->ignore_case, &narrow->segments[i],
                            narrow->ignore_case)) {
            return false;
        }
        i++;
    }
    return i < wide->n_segments || i == narrow->n_segments;
}

/* A route without a path also matches `OPTIONS *`, which no pattern matches. */
static bool covers_path(const struct route_match *wide, const struct route_match *narrow,
                        struct span method)
{
    if (wide->segments == NULL) {
        return true;
    }
    if (narrow->segments == NULL) {
        const bool may_be_asterisk = method.len == 0 || span_equals(method, SPAN("OPTIONS"));
        return !may_be_asterisk && wide->segments[0].kind == SEGMENT_REST;
    }
    return covers_pattern(wide, narrow);
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
    const struct span tail = span_of(wide.data + 1, wide.len - 1);
    const struct span end =
        narrow.data[0] == '*' ? span_of(narrow.data + 1, narrow.len - 1) : narrow;
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

bool cover_prefix(const struct address_prefix *wide, const struct address_prefix *narrow)
{
    return wide->bits <= narrow->bits && address_prefix_covers(wide, &narrow->base);
}

static bool covers_client(const struct route_match *wide, const struct address_prefix *client)
{
    for (size_t i = 0; i < wide->n_clients && client != NULL; i++) {
        if (cover_prefix(&wide->clients[i], client)) {
            return true;
        }
    }
    return wide->n_clients == 0;
}

/* Whether @narrow has the condition @field. */
static bool is_asked(const struct field_match *field, const struct route_match *narrow)
{
    for (size_t i = 0; i < narrow->n_fields; i++) {
        const struct field_match *other = &narrow->fields[i];
        if (span_equals_ignore_case(field->name, other->name) &&
            (field->kind == FIELD_MATCH_PRESENT ||
             (other->kind == FIELD_MATCH_EQUALS && span_equals(field->value, other->value)))) {
            return true;
        }
    }
    return false;
}

static bool covers_fields(const struct route_match *wide, const struct route_match *narrow)
{
    for (size_t i = 0; i < wide->n_fields; i++) {
        if (!is_asked(&wide->fields[i], narrow)) {
            return false;
        }
    }
    return true;
}

bool cover_takes(const struct route_match *earlier, const struct route_match *later,
                 const struct cover_part *part)
{
    return covers_host(earlier->host, later->host) && covers_path(earlier, later, part->method) &&
           covers_method(earlier, part->method) && covers_client(earlier, part->client) &&
           covers_fields(earlier, later);
}
