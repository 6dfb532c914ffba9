#include "http/path_doubt.h"

#include <stddef.h>
#include <string.h>

#include "base/utf8.h"
#include "http/octet.h"
#include "http/target.h"

enum { ESCAPE_BYTES = 3, UTF8_BYTES_MAX = 4 };

/* The octet that two hexadecimal digits at @at stand for, or -1 when they are none. */
static int hex_pair_at(struct span segment, size_t at)
{
    if (segment.len < at + 2 || !octet_is(segment.data[at], OCTET_HEX) ||
        !octet_is(segment.data[at + 1], OCTET_HEX)) {
        return -1;
    }
    return (int)(octet_hex_value(segment.data[at]) << 4 | octet_hex_value(segment.data[at + 1]));
}

/* The octet that an escape at @at stands for, or -1 when none is there. */
static int escape_at(struct span segment, size_t at)
{
    return at < segment.len && segment.data[at] == '%' ? hex_pair_at(segment, at + 1) : -1;
}

/* What decoding again and again makes of an escape at @at, or -1 when none is there: each "25"
 * behind the "%" is one more turn. *end is behind it. */
static int innermost_at(struct span segment, size_t at, size_t *end)
{
    size_t digits = at + 1;
    while (hex_pair_at(segment, digits) == '%' && hex_pair_at(segment, digits + 2) >= 0) {
        digits += 2;
    }
    *end = digits + 2;
    return segment.data[at] == '%' ? hex_pair_at(segment, digits) : -1;
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

/* More octets than the character needs: 2 for ASCII, 3 for what fits into 2, 4 for what fits into
 * 3. */
static bool is_overlong(int first, int second)
{
    const bool is_continued = second >= 0x80 && second < 0xC0;
    return is_continued && (first == 0xC0 || first == 0xC1 || (first == 0xE0 && second < 0xA0) ||
                            (first == 0xF0 && second < 0x90));
}

/* Bytes of the separator at @at, 0: there is none. */
static size_t separator_len(struct span segment, size_t at)
{
    const int octet = escape_at(segment, at);
    if (segment.data[at] == '\\') {
        return 1;
    }
    return octet == '/' || octet == '\\' ? ESCAPE_BYTES : 0;
}

/* "..", be it with parameters, which some servers drop before they look at dots. */
static bool is_climbing_piece(struct span segment, size_t start, size_t end)
{
    const struct span piece = span_of(segment.data + start, end - start);
    return span_starts_with(piece, SPAN("..")) && (piece.len == 2 || piece.data[2] == ';');
}

/* Whether a server that takes encoded separators for slashes would find ".." in it. */
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

const char *path_doubt(struct span segment, bool allow_encoded_slash)
{
    for (size_t at = 0; at < segment.len; at++) {
        const int octet = escape_at(segment, at);
        if (octet == '%' && !allow_encoded_slash && hides_a_character(segment, at)) {
            return "the path holds an escape of an escape";
        }
        if (octet >= OVERLONG_FIRST && is_overlong(octet, escape_at(segment, at + ESCAPE_BYTES))) {
            return "the path holds an overlong escape";
        }
    }
    return climbs_inside(segment) ? "the path holds \"..\" beside an encoded slash" : NULL;
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

/* Bytes of the escapes at @at that stand for one character beyond ASCII; 0: they do not. */
static size_t wide_len(struct span path, size_t at)
{
    char octets[UTF8_BYTES_MAX];
    size_t n = 0;
    while (n < sizeof(octets) && escape_at(path, at + n * ESCAPE_BYTES) >= WIDE_FIRST) {
        octets[n] = (char)escape_at(path, at + n * ESCAPE_BYTES);
        n++;
    }
    return utf8_front(span_of(octets, n)) * ESCAPE_BYTES;
}

bool path_drop_broken(struct span path, char *buffer, struct span *sound)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len;) {
        const size_t n = escape_at(path, at) >= WIDE_FIRST ? wide_len(path, at) : 1;
        memmove(buffer + len, path.data + at, n);
        len += n;
        at += n > 0 ? n : ESCAPE_BYTES;
    }
    *sound = span_of(buffer, len);
    return len < path.len;
}

bool path_unnest(struct span path, char *buffer, struct span *unnested)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len; len++) {
        const bool is_nested =
            escape_at(path, at) == '%' && hex_pair_at(path, at + ESCAPE_BYTES) >= 0;
        buffer[len] = path.data[at];
        at += is_nested ? ESCAPE_BYTES : 1;
    }
    *unnested = span_of(buffer, len);
    return len < path.len;
}
