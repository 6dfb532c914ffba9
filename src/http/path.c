/* One pass, a segment at a time: read it from the raw path into the buffer, decoded and without its
 * parameters, then keep it, drop it (empty, ".") or drop the one before it too (".."). Merging
 * slashes therefore comes before "..", as most servers read it; where it would make a difference
 * ("/a//../b") the path is refused.
 *
 * An octet that may stand raw in a segment is written raw, however it was sent: servers take "%3A"
 * and ":" for the same. What delimits ("/", ";", "?", "%") and what cannot stand raw keeps its
 * escape. */

#include "http/octet.h"
#include "http/path_doubt.h"
#include "http/target.h"

enum { CONTROL_LAST = 0x1f, DELETE = 0x7f };

struct reader {
    struct span raw;
    size_t at; /* the next byte of raw */
    const struct path_rules *rules;
    char *buffer;
    size_t len;          /* bytes written; never more than were read */
    bool has_parameters; /* the segment that was read last */
    bool has_wide;       /* an octet from WIDE_FIRST on was read */
    bool is_doubtful;    /* so it may be: see path_doubt() */
    bool is_after_gap;   /* an empty segment stands right before what comes next */
    bool was_after_gap[PATH_SEGMENTS_MAX]; /* of the segments kept */
};

static void put(struct reader *reader, char c)
{
    if (reader->rules->ignore_case) {
        c = ascii_lower(c);
    }
    reader->buffer[reader->len++] = c;
}

static void put_escape(struct reader *reader, unsigned octet)
{
    static const char digits[] = "0123456789ABCDEF";

    reader->buffer[reader->len++] = '%';
    reader->buffer[reader->len++] = digits[octet >> 4];
    reader->buffer[reader->len++] = digits[octet & 15];
}

static const char *read_escape(struct reader *reader)
{
    const char *escape = reader->raw.data + reader->at;

    if (reader->raw.len - reader->at < 3 || !octet_is(escape[1], OCTET_HEX) ||
        !octet_is(escape[2], OCTET_HEX)) {
        return "the path holds a % that is no escape";
    }
    const unsigned octet = octet_hex_value(escape[1]) << 4 | octet_hex_value(escape[2]);
    if (octet <= CONTROL_LAST || octet == DELETE) {
        return "the path holds an encoded control character";
    }
    if (octet == '/' || octet == '\\') {
        if (!reader->rules->allow_encoded_slash) {
            return "the path holds an encoded slash or backslash";
        }
        reader->is_doubtful = true;
    }
    reader->is_doubtful = reader->is_doubtful || octet == '%' || octet >= OVERLONG_FIRST;
    reader->has_wide = reader->has_wide || octet >= WIDE_FIRST;
    reader->at += 3;
    if (octet_is((char)octet, OCTET_PLAIN) || octet == '\\') {
        put(reader, (char)octet);
    } else {
        put_escape(reader, octet);
    }
    return NULL;
}

static const char *read_octet(struct reader *reader)
{
    const char c = reader->raw.data[reader->at];

    if (c == '%') {
        return read_escape(reader);
    }
    if (c == '\\') {
        if (!reader->rules->allow_encoded_slash) {
            return "the path holds a backslash";
        }
        reader->is_doubtful = true;
    }
    if (c == '?' || !octet_is(c, OCTET_TARGET)) {
        return "the path holds a byte that no path may hold";
    }
    put(reader, c);
    reader->at++;
    return NULL;
}

/* Bytes that stand for themselves: most of them. */
static void copy_plain(struct reader *reader)
{
    const struct span raw = reader->raw;
    size_t at = reader->at;
    size_t len = reader->len;

    while (at < raw.len && octet_is(raw.data[at], OCTET_PLAIN)) {
        reader->buffer[len++] = raw.data[at++];
    }
    reader->at = at;
    reader->len = len;
}

/* Read up to the next slash. What is refused anywhere is refused in parameters too; then they are
 * taken back. */
static const char *read_segment(struct reader *reader, struct span *segment)
{
    const size_t start = reader->len;
    size_t end = SIZE_MAX;

    reader->is_doubtful = false;
    if (!reader->rules->ignore_case) {
        copy_plain(reader);
    }
    while (reader->at < reader->raw.len && reader->raw.data[reader->at] != '/') {
        if (reader->raw.data[reader->at] == ';' && end == SIZE_MAX) {
            end = reader->len;
        }
        const char *fault = read_octet(reader);
        if (fault != NULL) {
            return fault;
        }
    }
    const struct span whole = span_of(reader->buffer + start, reader->len - start);
    const char *doubt =
        reader->is_doubtful ? path_doubt(whole, reader->rules->allow_encoded_slash) : NULL;
    reader->has_parameters = end != SIZE_MAX;
    if (reader->has_parameters) {
        reader->len = end;
    }
    *segment = span_of(reader->buffer + start, reader->len - start);
    return doubt;
}

static const char *keep(struct reader *reader, struct path *path, struct span segment)
{
    if (path->n_segments == PATH_SEGMENTS_MAX) {
        return "the path has too many segments";
    }
    reader->was_after_gap[path->n_segments] = reader->is_after_gap;
    reader->is_after_gap = false;
    path->segments[path->n_segments++] = segment;
    return NULL;
}

/* ".." takes back the segment before it. */
static const char *climb(struct reader *reader, struct path *path, size_t *slash)
{
    path->climbs = true;
    if (reader->is_after_gap) {
        return "the path holds \"..\" behind an empty segment";
    }
    if (path->n_segments > 0) {
        path->n_segments--;
        *slash = (size_t)(path->segments[path->n_segments].data - reader->buffer) - 1;
        reader->is_after_gap = reader->was_after_gap[path->n_segments];
    }
    return NULL;
}

/* Write nothing for @segment; at the end of the path an empty segment stands in its place, for the
 * trailing slash (RFC 3986 section 5.2.4: "/a/." is "/a/", "/a/b/.." is "/a/"). */
static const char *drop(struct reader *reader, struct path *path, struct span segment)
{
    const bool is_last = reader->at == reader->raw.len;
    size_t slash = (size_t)(segment.data - reader->buffer) - 1;

    if (reader->has_parameters && (segment.len > 0 || !is_last)) {
        return "the path holds parameters of an empty or a dot segment";
    }
    if (segment.len == 2) {
        const char *fault = climb(reader, path, &slash);
        if (fault != NULL) {
            return fault;
        }
    }
    reader->is_after_gap = reader->is_after_gap || segment.len == 0;
    reader->len = slash;
    if (!is_last) {
        return NULL;
    }
    put(reader, '/');
    return keep(reader, path, span_of(reader->buffer + reader->len, 0));
}

/* Empty, or a dot segment that is resolved. */
static bool is_dropped(const struct reader *reader, struct span segment)
{
    return segment.len == 0 || (!reader->rules->keep_dots && (span_equals(segment, SPAN(".")) ||
                                                              span_equals(segment, SPAN(".."))));
}

static const char *read_path(struct reader *reader, struct path *path)
{
    while (reader->at < reader->raw.len) {
        struct span segment;
        reader->at++;
        put(reader, '/');
        const char *fault = read_segment(reader, &segment);
        if (fault == NULL) {
            fault = is_dropped(reader, segment) ? drop(reader, path, segment)
                                                : keep(reader, path, segment);
        }
        if (fault != NULL) {
            return fault;
        }
    }
    return NULL;
}

const char *path_normalise(struct span raw, const struct path_rules *rules, char *buffer,
                           struct path *path)
{
    struct reader reader;
    const char *fault;

    reader.raw = raw;
    reader.at = 0;
    reader.rules = rules;
    reader.buffer = buffer;
    reader.len = 0;
    reader.is_after_gap = false;
    reader.has_wide = false;
    path->n_segments = 0;
    path->climbs = false;
    if (span_equals(raw, SPAN("*"))) {
        put(&reader, '*');
        fault = keep(&reader, path, span_of(buffer, 1));
    } else if (raw.len > 0 && raw.data[0] == '/') {
        fault = read_path(&reader, path);
    } else {
        fault = "the path does not start with a slash";
    }
    path->text = span_of(buffer, reader.len);
    path->has_wide = reader.has_wide;
    return fault;
}

void path_lower(struct span path, char *buffer)
{
    for (size_t i = 0; i < path.len; i++) {
        const bool is_digit = (i >= 1 && path.data[i - 1] == '%') ||
                              (i >= 2 && path.data[i - 2] == '%'); /* of an escape */
        buffer[i] = is_digit ? path.data[i] : ascii_lower(path.data[i]);
    }
}
