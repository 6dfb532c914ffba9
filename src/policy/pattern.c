#include "policy/pattern.h"

#include <assert.h>
#include <string.h>

#include "policy/load/node.h"

static bool is_capture_name(struct span name)
{
    bool has_letter = false;
    if (name.len == 0 || name.len > NAME_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        const char lower = ascii_lower(c);
        const bool letter = (lower >= 'a' && lower <= 'z') || c == '_';
        if (!letter && c != '-' && !(c >= '0' && c <= '9')) {
            return false;
        }
        has_letter = has_letter || letter;
    }
    return has_letter;
}

static bool add_capture(struct span name, struct pattern *pattern, struct text *problem)
{
    if (!is_capture_name(name)) {
        return text_refuse(problem, "a {name} is letters, digits, \"_\" and \"-\", at least one a "
                                    "letter");
    }
    for (size_t i = 0; i < pattern->n_captures; i++) {
        if (span_equals(pattern->capture_names[i], name)) {
            return text_refuse(problem, "has {%.*s} twice", SPAN_ARGS(name));
        }
    }
    if (pattern->n_captures == CAPTURES_MAX) {
        return text_refuse(problem, "has more than %d {name}s", CAPTURES_MAX);
    }
    pattern->capture_names[pattern->n_captures++] = name;
    return true;
}

/* Normalise one literal segment as a separate path; it must remain one segment. */
static bool normalise_literal(struct span piece, const struct path_rules *rules,
                              struct arena *arena, struct span *literal, struct text *problem)
{
    char raw[PATTERN_LITERAL_BYTES_MAX + 1];
    char buffer[PATTERN_LITERAL_BYTES_MAX + 2];
    if (piece.len > PATTERN_LITERAL_BYTES_MAX) {
        return text_refuse(problem, "has a segment of more than %d bytes",
                           PATTERN_LITERAL_BYTES_MAX);
    }
    raw[0] = '/';
    memcpy(raw + 1, piece.data, piece.len);

    struct path path;
    const char *refusal = path_normalise(span_of(raw, piece.len + 1), rules, buffer, &path);
    if (refusal != NULL) {
        return text_refuse(problem, "segment \"%.*s\": %s", SPAN_ARGS(quote_clip(piece)), refusal);
    }
    if (path.n_segments != 1 || path.segments[0].len == 0 || span_find(piece, ';') < piece.len) {
        return text_refuse(problem, "segment \"%.*s\" can never match: paths are normalised first",
                           SPAN_ARGS(quote_clip(piece)));
    }
    *literal = arena_copy(arena, path.segments[0]);
    if (literal->data == NULL) {
        return text_refuse(problem, "out of memory");
    }
    return true;
}

static bool has_wildcard(struct span piece)
{
    return span_find(piece, '*') < piece.len || span_find(piece, '{') < piece.len ||
           span_find(piece, '}') < piece.len;
}

static bool is_braced(struct span piece)
{
    return piece.len >= 2 && piece.data[0] == '{' && piece.data[piece.len - 1] == '}';
}

/* Normalise the literal before or after a `*`; it may be empty. */
static bool normalise_piece(struct span piece, const struct path_rules *rules, struct arena *arena,
                            struct span *literal, struct text *problem)
{
    *literal = SPAN("");
    /* with an added letter, because dots alone are not a dot segment here */
    char guarded[PATTERN_LITERAL_BYTES_MAX];
    if (piece.len == 0) {
        return true;
    }
    if (piece.len >= sizeof(guarded)) {
        return text_refuse(problem, "has a segment of more than %d bytes",
                           PATTERN_LITERAL_BYTES_MAX);
    }
    memcpy(guarded, piece.data, piece.len);
    guarded[piece.len] = 'x';
    if (!normalise_literal(span_of(guarded, piece.len + 1), rules, arena, literal, problem)) {
        return false;
    }
    literal->len--;
    return true;
}

/* `login.*`: one `*` among other characters. */
static bool compile_part(struct span piece, const struct path_rules *rules, struct arena *arena,
                         struct pattern_segment *segment, struct text *problem)
{
    const size_t star = span_find(piece, '*');
    const struct span behind = span_from(piece, star + 1);
    segment->kind = SEGMENT_PART;
    return normalise_piece(span_of(piece.data, star), rules, arena, &segment->text, problem) &&
           normalise_piece(behind, rules, arena, &segment->suffix, problem);
}

static bool has_one_star_alone(struct span piece)
{
    const size_t star = span_find(piece, '*');
    return star < piece.len && span_find(piece, '{') == piece.len &&
           span_find(piece, '}') == piece.len &&
           span_find(span_from(piece, star + 1), '*') == piece.len - star - 1;
}

/* ":id" and "<id>": other routers write captures so. Empty: @piece is not of that form. */
static struct span foreign_capture(struct span piece)
{
    struct span name = SPAN("");
    if (piece.len > 1 && piece.data[0] == ':') {
        name = span_from(piece, 1);
    } else if (piece.len > 2 && piece.data[0] == '<' && piece.data[piece.len - 1] == '>') {
        name = span_of(piece.data + 1, piece.len - 2);
    }
    return is_capture_name(name) ? quote_clip(name) : SPAN("");
}

static bool compile_literal(struct span piece, const struct path_rules *rules, struct arena *arena,
                            struct span *literal, struct text *problem)
{
    const struct span name = foreign_capture(piece);
    if (name.len > 0) {
        return text_refuse(problem,
                           "segment \"%.*s\": for a segment of any text write \"{%.*s}\", for "
                           "this text write its first character as \"%%%02X\"",
                           SPAN_ARGS(quote_clip(piece)), SPAN_ARGS(name), piece.data[0]);
    }
    return normalise_literal(piece, rules, arena, literal, problem);
}

/* `name` or `name:type` */
static bool compile_capture(struct span piece, struct arena *arena, struct pattern_segment *segment,
                            struct text *problem)
{
    const size_t colon = span_find(piece, ':');
    segment->kind = SEGMENT_CAPTURE;
    segment->text = arena_copy(arena, span_of(piece.data, colon));
    if (colon < piece.len && !capture_type_parse(span_from(piece, colon + 1), &segment->type)) {
        return text_refuse(problem, "\"{%.*s}\": a segment is of the type int, uuid or word",
                           SPAN_ARGS(quote_clip(piece)));
    }
    return segment->text.data != NULL || text_refuse(problem, "out of memory");
}

static bool compile_segment(struct span piece, bool is_last, const struct path_rules *rules,
                            struct arena *arena, struct pattern *pattern, struct text *problem)
{
    struct pattern_segment segment = {.kind = SEGMENT_LITERAL};
    if (span_equals(piece, SPAN("**"))) {
        segment.kind = SEGMENT_REST;
        if (!is_last) {
            return text_refuse(problem, "\"**\" must be the last segment");
        }
    } else if (span_equals(piece, SPAN("*"))) {
        segment.kind = SEGMENT_ANY;
    } else if (is_braced(piece)) {
        if (!compile_capture(span_of(piece.data + 1, piece.len - 2), arena, &segment, problem) ||
            !add_capture(segment.text, pattern, problem)) {
            return false;
        }
    } else if (has_one_star_alone(piece)) {
        if (!compile_part(piece, rules, arena, &segment, problem)) {
            return false;
        }
    } else if (has_wildcard(piece)) {
        return text_refuse(problem,
                           "segment \"%.*s\": \"**\" and \"{name}\" must be whole segments, and a "
                           "segment holds one \"*\"",
                           SPAN_ARGS(quote_clip(piece)));
    } else if (piece.len == 0 && !is_last) {
        return text_refuse(problem, "has an empty segment, which no path has: paths are normalised "
                                    "first");
    } else if (piece.len > 0 && !compile_literal(piece, rules, arena, &segment.text, problem)) {
        return false;
    }
    pattern->segments[pattern->n_segments++] = segment;
    return true;
}

static size_t count_slashes(struct span span)
{
    size_t n_slashes = 0;
    for (size_t i = 0; i < span.len; i++) {
        n_slashes += span.data[i] == '/';
    }
    return n_slashes;
}

bool pattern_compile(struct span span, const struct path_rules *rules, struct arena *arena,
                     struct pattern *pattern, struct text *problem)
{
    struct pattern compiled = {.n_segments = 0};
    if (span.len == 0 || span.data[0] != '/') {
        const bool is_regex = span.len > 0 && (span.data[0] == '^' || span.data[0] == '~');
        return text_refuse(problem, "must start with \"/\"%s",
                           is_regex ? "; there are \"*\", \"**\" and \"{name}\", but no regular "
                                      "expressions"
                                    : "");
    }
    if (span_find(span, '?') < span.len || span_find(span, '#') < span.len) {
        return text_refuse(problem, "must be only a path, without a query");
    }
    const size_t n_segments = count_slashes(span);
    if (n_segments > PATTERN_SEGMENTS_MAX) {
        return text_refuse(problem, "has more than %d segments", PATTERN_SEGMENTS_MAX);
    }
    compiled.segments = arena_calloc(arena, n_segments, sizeof(*compiled.segments));
    compiled.capture_names = arena_calloc(arena, CAPTURES_MAX, sizeof(*compiled.capture_names));
    if (compiled.segments == NULL || compiled.capture_names == NULL) {
        return text_refuse(problem, "out of memory");
    }
    struct span rest = span_from(span, 1);
    struct span piece;
    while (span_split(&rest, '/', &piece)) {
        if (!compile_segment(piece, rest.data == NULL, rules, arena, &compiled, problem)) {
            return false;
        }
    }
    *pattern = compiled;
    return true;
}

/* Whether @at is inside an escape of @text, so that no character begins there. */
static bool is_inside_escape(struct span text, size_t at)
{
    return (at >= 1 && text.data[at - 1] == '%') || (at >= 2 && text.data[at - 2] == '%');
}

bool pattern_part_matches(const struct pattern_segment *segment, struct span found,
                          bool ignore_case)
{
    const struct span prefix = segment->text;
    const struct span suffix = segment->suffix;
    if (found.len < prefix.len + suffix.len) {
        return false;
    }
    const size_t end = found.len - suffix.len;
    const struct span first = span_of(found.data, prefix.len);
    const struct span last = span_of(found.data + end, suffix.len);
    if (suffix.len > 0 && is_inside_escape(found, end)) {
        return false;
    }
    return ignore_case
               ? span_equals_ignore_case(prefix, first) && span_equals_ignore_case(suffix, last)
               : span_equals(prefix, first) && span_equals(suffix, last);
}

/* Whether @segment, which is not "**", matches @found. */
static bool segment_matches(const struct pattern_segment *segment, struct span found,
                            bool ignore_case)
{
    if (segment->kind == SEGMENT_PART) {
        return pattern_part_matches(segment, found, ignore_case);
    }
    if (segment->kind != SEGMENT_LITERAL) {
        return found.len > 0 &&
               (segment->type == CAPTURE_TEXT || capture_type_may_be(segment->type, found));
    }
    return ignore_case ? span_equals_ignore_case(segment->text, found)
                       : span_equals(segment->text, found);
}

bool pattern_is_canonical(const struct pattern *pattern, const struct span *captures)
{
    size_t n = 0;
    for (size_t i = 0; i < pattern->n_segments; i++) {
        const struct pattern_segment *segment = &pattern->segments[i];
        if (segment->kind == SEGMENT_CAPTURE &&
            !capture_type_is_canonical(segment->type, captures[n++])) {
            return false;
        }
    }
    return true;
}

bool pattern_matches(const struct pattern *pattern, bool ignore_case, const struct path *path,
                     struct span *captures)
{
    const struct pattern_segment *segments = pattern->segments;
    size_t n_captures = 0;
    assert(path->n_segments <= PATH_SEGMENTS_MAX);

    for (size_t i = 0; i < pattern->n_segments; i++) {
        if (segments[i].kind == SEGMENT_REST) {
            return true;
        }
        if (i == path->n_segments ||
            !segment_matches(&segments[i], path->segments[i], ignore_case)) {
            return false;
        }
        if (segments[i].kind == SEGMENT_CAPTURE) {
            captures[n_captures++] = path->segments[i];
        }
    }
    return pattern->n_segments == path->n_segments;
}

/* Bytes that would be read as wildcards are escaped. */
static void write_literal(struct span literal, struct text *text)
{
    for (size_t i = 0; i < literal.len; i++) {
        const char c = literal.data[i];
        if (c == '*' || c == '{' || c == '}') {
            text_add_format(text, "%%%02X", (unsigned)c);
        } else {
            text_add_char(text, c);
        }
    }
}

void pattern_write(const struct pattern_segment *segments, size_t n_segments, struct text *text)
{
    for (size_t i = 0; i < n_segments; i++) {
        text_add_literal(text, "/");
        switch (segments[i].kind) {
        case SEGMENT_LITERAL:
            write_literal(segments[i].text, text);
            break;
        case SEGMENT_PART:
            write_literal(segments[i].text, text);
            text_add_literal(text, "*");
            write_literal(segments[i].suffix, text);
            break;
        case SEGMENT_ANY:
            text_add_literal(text, "*");
            break;
        case SEGMENT_CAPTURE:
            text_add_literal(text, "{");
            text_add(text, segments[i].text);
            text_add(text, segments[i].type != CAPTURE_TEXT ? SPAN(":") : SPAN(""));
            text_add(text, capture_type_word(segments[i].type));
            text_add_literal(text, "}");
            break;
        case SEGMENT_REST:
            text_add_literal(text, "**");
            break;
        }
    }
}
