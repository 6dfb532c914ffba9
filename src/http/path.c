/* Path normalisation in one pass over the segments: read a segment from the raw path into the
 * buffer, decoded and without its parameters; then keep it, drop it (empty, "."), or drop the one
 * before it too (".."). So slashes are merged before ".." is resolved, as in most servers. If the
 * order matters ("/a//../b"), the path is refused.
 *
 * An octet that may stand raw in a segment is written raw, even if it was escaped: to servers "%3A"
 * and ":" are the same. Delimiters ("/", ";", "?", "%") and octets that may not stand raw keep
 * their escape. */

#include "base/span.h"
#include "http/octet.h"
#include "http/target.h"

enum {
    CONTROL_LAST = 0x1f,
    DELETE = 0x7f,
    WIDE_FIRST = 0x80,     /* octets from here on are not ASCII */
    OVERLONG_FIRST = 0xC0, /* octets from here on may begin an overlong encoding of UTF-8 */
    ESCAPE_BYTES = 3,
    UTF8_BYTES_MAX = 4,
};

/* --- what servers read differently --- */

/* The octet that repeated decoding gives for the escape at @at, or -1 if there is none: each "25"
 * after the "%" is one more level. *end is the index after it. */
static int innermost_at(struct span segment, size_t at, size_t *end)
{
    size_t digits = at + 1;
    while (octet_hex_pair(segment, digits) == '%' && octet_hex_pair(segment, digits + 2) >= 0) {
        digits += 2;
    }
    *end = digits + 2;
    return segment.data[at] == '%' ? octet_hex_pair(segment, digits) : -1;
}

static bool is_plain(int octet)
{
    return octet > 0 && octet_is((char)octet, OCTET_PLAIN);
}

static bool hides_a_character(struct span segment, size_t at)
{
    size_t end;
    const int octet = innermost_at(segment, at, &end);
    return octet == 0 || octet == '/' || octet == '\\' || is_plain(octet);
}

/* Whether the encoding has more octets than the character needs: 2 for ASCII, 3 where 2 suffice, 4
 * where 3 suffice. */
static bool is_overlong(int first, int second)
{
    const bool is_continued = second >= 0x80 && second < 0xC0;
    return is_continued && (first == 0xC0 || first == 0xC1 || (first == 0xE0 && second < 0xA0) ||
                            (first == 0xF0 && second < 0x90));
}

/* The length of the separator at @at; 0: there is none. */
static size_t separator_len(struct span segment, size_t at)
{
    const int octet = octet_escape(segment, at);
    if (segment.data[at] == '\\') {
        return 1;
    }
    return octet == '/' || octet == '\\' ? ESCAPE_BYTES : 0;
}

/* Whether the piece is "..", maybe with parameters, which some servers drop before they resolve
 * dots. */
static bool is_climbing_piece(struct span segment, size_t start, size_t end)
{
    const struct span piece = span_of(segment.data + start, end - start);
    return span_starts_with(piece, SPAN("..")) && (piece.len == 2 || piece.data[2] == ';');
}

/* Whether a server that reads encoded separators as slashes would find ".." in @segment. */
static bool climbs_inside(struct span segment)
{
    size_t start = 0;
    for (size_t at = 0; at < segment.len; at++) {
        const size_t len = separator_len(segment, at);
        if (len > 0) {
            if (is_climbing_piece(segment, start, at)) {
                return true;
            }
            start = at + len;
        }
    }
    return start > 0 && is_climbing_piece(segment, start, segment.len);
}

/* Ends the reasons of paths that a route can allow by this key of its match. */
#define ENCODED_SLASH_ALLOWS ", which only a route with encoded_slash: allow takes"

/* The reason to refuse @segment, whose escapes of OCTET_PLAIN are decoded, because servers read it
 * differently: a static phrase, or NULL. @segment contains "%", a backslash or an octet >=
 * OVERLONG_FIRST; its escapes are in upper case. Refused are an overlong escape (%C0%AE), and ".."
 * next to an encoded separator (..%2F). Unless @allow_encoded_slash, an escape of an escape is
 * refused too if it would give an octet of OCTET_PLAIN, a separator or NUL (%252e, %2540,
 * %2525252f), because a server that decodes twice sees that octet. */
static const char *find_doubt(struct span segment, bool allow_encoded_slash)
{
    for (size_t at = 0; at < segment.len; at++) {
        const int octet = octet_escape(segment, at);
        if (octet == '%' && !allow_encoded_slash && hides_a_character(segment, at)) {
            return "the path holds an escape of an escape" ENCODED_SLASH_ALLOWS;
        }
        if (octet >= OVERLONG_FIRST &&
            is_overlong(octet, octet_escape(segment, at + ESCAPE_BYTES))) {
            return "the path holds an overlong escape";
        }
    }
    return climbs_inside(segment) ? "the path holds \"..\" beside an encoded slash" : NULL;
}

/* --- normalisation --- */

struct reader {
    struct span raw;
    size_t at; /* the next byte of raw */
    const struct path_rules *rules;
    char *buffer;
    size_t len;                            /* bytes written; never more than bytes read */
    bool has_parameters;                   /* of the last segment read */
    bool has_wide;                         /* an octet from WIDE_FIRST on was read */
    bool is_doubtful;                      /* the segment needs a check by find_doubt() */
    bool is_after_gap;                     /* an empty segment directly precedes the next one */
    bool was_after_gap[PATH_SEGMENTS_MAX]; /* is_after_gap of the kept segments */
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
    const int octet = octet_escape(reader->raw, reader->at);

    if (octet < 0) {
        return "the path holds a % that is no escape";
    }
    if (octet <= CONTROL_LAST || octet == DELETE) {
        return "the path holds an encoded control character";
    }
    if (octet == '/' || octet == '\\') {
        if (!reader->rules->allow_encoded_slash) {
            return "the path holds an encoded slash or backslash" ENCODED_SLASH_ALLOWS;
        }
        reader->is_doubtful = true;
    }
    reader->is_doubtful = reader->is_doubtful || octet == '%' || octet >= OVERLONG_FIRST;
    reader->has_wide = reader->has_wide || octet >= WIDE_FIRST;
    reader->at += ESCAPE_BYTES;
    if (octet_is((char)octet, OCTET_PLAIN) || octet == '\\') {
        put(reader, (char)octet);
    } else {
        put_escape(reader, (unsigned)octet);
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
            return "the path holds a backslash" ENCODED_SLASH_ALLOWS;
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

/* Copy literal bytes: the common case. */
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

/* Read up to the next slash. Parameters are checked like the rest of the segment, then removed. */
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
        reader->is_doubtful ? find_doubt(whole, reader->rules->allow_encoded_slash) : NULL;
    reader->has_parameters = end != SIZE_MAX && !reader->rules->keep_parameters;
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

/* Apply "..": remove the segment before it. */
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

/* Write nothing for @segment. At the end of the path an empty segment takes its place, for the
 * trailing slash (RFC 3986 section 5.2.4: "/a/.." is "/"). */
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
    if (segment.len > 0 && path->n_segments > 0) {
        return "the path ends in a dot segment"; /* Tomcat takes the slash before it off, too */
    }
    put(reader, '/');
    return keep(reader, path, span_of(reader->buffer + reader->len, 0));
}

/* Whether @segment is empty, or a dot segment to resolve. */
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

/* --- as other servers read a path --- */

static char hex_upper(char digit)
{
    return digit >= 'a' && digit <= 'f' ? (char)(digit - 'a' + 'A') : digit;
}

/* The octet at @at, as it is read; *n is its length. */
static char written_octet(struct span raw, size_t at, bool decodes, size_t *n)
{
    const int octet = decodes ? octet_escape(raw, at) : -1;
    const bool is_digit =
        (at >= 1 && raw.data[at - 1] == '%') || (at >= 2 && raw.data[at - 2] == '%');
    *n = is_plain(octet) ? ESCAPE_BYTES : 1;
    if (is_plain(octet)) {
        return (char)octet;
    }
    return is_digit ? hex_upper(raw.data[at]) : raw.data[at];
}

bool path_split_raw(struct span raw, bool decodes, char *buffer, struct path *path)
{
    size_t start = 1;
    size_t len = 0;
    size_t n;
    path->n_segments = 0;
    path->climbs = false;
    path->has_wide = false;
    for (size_t at = 0; at <= raw.len; at += n) {
        n = 1;
        if (at == raw.len || (at > 0 && raw.data[at] == '/')) {
            if (path->n_segments == PATH_SEGMENTS_MAX) {
                return false;
            }
            path->segments[path->n_segments++] = span_of(buffer + start, len - start);
            start = len + 1;
        }
        if (at < raw.len) {
            buffer[len++] = written_octet(raw, at, decodes, &n);
        }
    }
    path->text = span_of(buffer, len);
    return true;
}

struct span path_split_encoded(struct span path, char *buffer)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len;) {
        const size_t separator = separator_len(path, at);
        buffer[len++] = separator > 0 ? '/' : path.data[at];
        at += separator > 0 ? separator : 1;
    }
    return span_of(buffer, len);
}

/* The length of the escapes at @at that encode one character beyond ASCII; 0: there is none. */
static size_t wide_len(struct span path, size_t at)
{
    char octets[UTF8_BYTES_MAX];
    size_t n = 0;
    while (n < sizeof(octets) && octet_escape(path, at + n * ESCAPE_BYTES) >= WIDE_FIRST) {
        octets[n] = (char)octet_escape(path, at + n * ESCAPE_BYTES);
        n++;
    }
    return utf8_front(span_of(octets, n)) * ESCAPE_BYTES;
}

bool path_drop_broken(struct span path, char *buffer, struct span *sound)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len;) {
        const size_t n = octet_escape(path, at) >= WIDE_FIRST ? wide_len(path, at) : 1;
        memmove(buffer + len, path.data + at, n);
        len += n;
        at += n > 0 ? n : ESCAPE_BYTES;
    }
    *sound = span_of(buffer, len);
    return len < path.len;
}

/* The ASCII letter that the escapes at @at become if case is ignored; *len is their length. 0:
 * none. */
static char folded_at(struct span path, size_t at, size_t *len)
{
    static const struct {
        int octets[3]; /* -1: unused */
        char letter;
    } ROWS[] = {
        {{0xC4, 0xB0, -1}, 'i'},   /* U+0130, I with a dot */
        {{0xC4, 0xB1, -1}, 'i'},   /* U+0131, i without a dot */
        {{0xC5, 0xBF, -1}, 's'},   /* U+017F, the long s */
        {{0xE2, 0x84, 0xAA}, 'k'}, /* U+212A, the kelvin sign */
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        size_t n = 0;
        while (n < ARRAY_LEN(ROWS[i].octets) && ROWS[i].octets[n] >= 0 &&
               octet_escape(path, at + n * ESCAPE_BYTES) == ROWS[i].octets[n]) {
            n++;
        }
        if (n == ARRAY_LEN(ROWS[i].octets) || ROWS[i].octets[n] < 0) {
            *len = n * ESCAPE_BYTES;
            return ROWS[i].letter;
        }
    }
    return '\0';
}

bool path_fold_wide(struct span path, char *buffer, struct span *folded)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len; len++) {
        size_t n = 1;
        const char letter = path.data[at] == '%' ? folded_at(path, at, &n) : '\0';
        buffer[len] = letter != '\0' ? letter : path.data[at];
        at += n;
    }
    *folded = span_of(buffer, len);
    return len < path.len;
}

bool path_unnest(struct span path, char *buffer, struct span *unnested)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len; len++) {
        const bool is_nested =
            octet_escape(path, at) == '%' && octet_hex_pair(path, at + ESCAPE_BYTES) >= 0;
        buffer[len] = path.data[at];
        at += is_nested ? ESCAPE_BYTES : 1;
    }
    *unnested = span_of(buffer, len);
    return len < path.len;
}
