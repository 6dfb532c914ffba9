/* One pass, a segment at a time: read it from the raw path into the buffer, decoded and without its
 * parameters, then keep it, drop it (empty, ".") or drop the one before it too (".."). Merging
 * slashes therefore comes before "..": "/a//../b" is "/b", as most servers read it. */

#include "http/octet.h"
#include "http/target.h"

struct reader {
    struct span raw;
    size_t at; /* the next byte of raw */
    const struct path_rules *rules;
    char *buffer;
    size_t len; /* bytes written; never more than were read */
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
    if (octet == 0) {
        return "the path holds an encoded NUL";
    }
    if ((octet == '/' || octet == '\\') && !reader->rules->allow_encoded_slash) {
        return "the path holds an encoded slash or backslash";
    }
    reader->at += 3;
    if (octet_is((char)octet, OCTET_UNRESERVED)) {
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
    if (c == '\\' && !reader->rules->allow_encoded_slash) {
        return "the path holds a backslash";
    }
    if (c == '?' || !octet_is(c, OCTET_TARGET)) {
        return "the path holds a byte that no path may hold";
    }
    put(reader, c);
    reader->at++;
    return NULL;
}

/* Read up to the next slash. What is refused anywhere is refused in parameters too; then they are
 * taken back. */
static const char *read_segment(struct reader *reader, struct span *segment)
{
    const size_t start = reader->len;
    size_t end = SIZE_MAX;

    while (reader->at < reader->raw.len && reader->raw.data[reader->at] != '/') {
        if (reader->raw.data[reader->at] == ';' && end == SIZE_MAX) {
            end = reader->len;
        }
        const char *fault = read_octet(reader);
        if (fault != NULL) {
            return fault;
        }
    }
    if (end != SIZE_MAX) {
        reader->len = end;
    }
    *segment = span_of(reader->buffer + start, reader->len - start);
    return NULL;
}

static const char *keep(struct path *path, struct span segment)
{
    if (path->n_segments == PATH_SEGMENTS_MAX) {
        return "the path has too many segments";
    }
    path->segments[path->n_segments++] = segment;
    return NULL;
}

/* Write nothing for @segment; at the end of the path an empty segment stands in its place, for the
 * trailing slash (RFC 3986 section 5.2.4: "/a/." is "/a/", "/a/b/.." is "/a/"). */
static const char *drop(struct reader *reader, struct path *path, struct span segment)
{
    size_t slash = (size_t)(segment.data - reader->buffer) - 1;

    if (span_equals(segment, SPAN("..")) && path->n_segments > 0) {
        path->n_segments--;
        slash = (size_t)(path->segments[path->n_segments].data - reader->buffer) - 1;
    }
    reader->len = slash;
    if (reader->at < reader->raw.len) {
        return NULL;
    }
    put(reader, '/');
    return keep(path, span_of(reader->buffer + reader->len, 0));
}

static bool is_dropped(struct span segment)
{
    return segment.len == 0 || span_equals(segment, SPAN(".")) || span_equals(segment, SPAN(".."));
}

static const char *read_path(struct reader *reader, struct path *path)
{
    while (reader->at < reader->raw.len) {
        struct span segment;
        reader->at++;
        put(reader, '/');
        const char *fault = read_segment(reader, &segment);
        if (fault == NULL) {
            fault = is_dropped(segment) ? drop(reader, path, segment) : keep(path, segment);
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
    struct reader reader = {.raw = raw, .rules = rules, .buffer = buffer};
    const char *fault;

    path->n_segments = 0;
    if (span_equals(raw, SPAN("*"))) {
        put(&reader, '*');
        fault = keep(path, span_of(buffer, 1));
    } else if (raw.len > 0 && raw.data[0] == '/') {
        fault = read_path(&reader, path);
    } else {
        fault = "the path does not start with a slash";
    }
    path->text = span_of(buffer, reader.len);
    return fault;
}
