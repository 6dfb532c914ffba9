#include "http/values.h"

#include <string.h>

#include "http/octet.h"

static struct span from(struct span span, size_t at)
{
    return span_of(span.data + at, span.len - at);
}

/* --- the ends of a value --- */

/* Blanks of Unicode beyond ASCII, in UTF-8: NEL, NBSP, Ogham, U+2000 to U+200A, line and paragraph
 * separators, narrow NBSP, the mathematical one, the ideographic one. */
static size_t wide_blank_len(const unsigned char *c, size_t len)
{
    if (len >= 2 && c[0] == 0xc2 && (c[1] == 0x85 || c[1] == 0xa0)) {
        return 2;
    }
    if (len < 3) {
        return 0;
    }
    const bool is_blank =
        (c[0] == 0xe1 && c[1] == 0x9a && c[2] == 0x80) ||
        (c[0] == 0xe2 && c[1] == 0x80 &&
         ((c[2] >= 0x80 && c[2] <= 0x8a) || c[2] == 0xa8 || c[2] == 0xa9 || c[2] == 0xaf)) ||
        (c[0] == 0xe2 && c[1] == 0x81 && c[2] == 0x9f) ||
        (c[0] == 0xe3 && c[1] == 0x80 && c[2] == 0x80);
    return is_blank ? 3 : 0;
}

static bool is_narrow_blank(unsigned char c)
{
    return c <= ' ' || c == 0x85 || c == 0xa0;
}

static size_t leading_blank(struct span span)
{
    const unsigned char *data = (const unsigned char *)span.data;
    return is_narrow_blank(data[0]) ? 1 : wide_blank_len(data, span.len);
}

static size_t trailing_blank(struct span span)
{
    const unsigned char *data = (const unsigned char *)span.data;
    for (size_t len = 3; len >= 2; len--) {
        if (span.len >= len && wide_blank_len(data + span.len - len, len) == len) {
            return len;
        }
    }
    return is_narrow_blank(data[span.len - 1]) ? 1 : 0;
}

/* Whether @c may begin or end a blank. */
static bool may_be_blank(char c)
{
    return (unsigned char)c <= ' ' || (unsigned char)c >= 0x80;
}

struct span value_trim(struct span span)
{
    size_t len;
    while (span.len > 0 && may_be_blank(span.data[0]) && (len = leading_blank(span)) > 0) {
        span = from(span, len);
    }
    while (span.len > 0 && may_be_blank(span.data[span.len - 1]) &&
           (len = trailing_blank(span)) > 0) {
        span.len -= len;
    }
    return span;
}

/* --- names --- */

static bool is_escape(struct span text)
{
    return text.len >= 3 && text.data[0] == '%' && octet_is(text.data[1], OCTET_HEX) &&
           octet_is(text.data[2], OCTET_HEX);
}

/* Cut the first octet off @text, which is not empty; a "%" that is no escape stands for itself. */
static char next_octet(struct span *text, bool is_form)
{
    char octet = text->data[0];
    size_t len = 1;
    if (is_form && octet == '+') {
        octet = ' ';
    } else if (octet == '%' && is_escape(*text)) {
        octet = (char)(octet_hex_value(text->data[1]) << 4 | octet_hex_value(text->data[2]));
        len = 3;
    }
    *text = from(*text, len);
    return octet;
}

/* PHP makes "_" of these in a name. */
static char fold(char c)
{
    return c == '.' || c == ' ' || c == '[' ? '_' : c;
}

/* Cut the blanks off the front of @text, escaped ones too. */
static void skip_blanks(struct span *text, bool is_form)
{
    struct span rest = *text;
    size_t len;
    while (rest.len > 0) {
        if (!is_form && (len = leading_blank(rest)) > 0) {
            rest = from(rest, len);
        } else {
            const char c = next_octet(&rest, is_form);
            if (c == '\0' || !is_narrow_blank((unsigned char)c)) {
                return;
            }
        }
        *text = rest;
    }
}

/* Whether @text, without blanks in front, begins with @name, decoded. *behind is what follows the
 * name then. Looks at no more than the name is long. */
static bool starts_with_name(struct span text, struct span name, bool is_form, struct span *behind)
{
    for (size_t i = 0; i < name.len; i++) {
        if (text.len == 0 || text.data[0] == '=' ||
            fold(next_octet(&text, is_form)) != fold(name.data[i])) {
            return false;
        }
    }
    *behind = text;
    return true;
}

/* Whether a name may end in front of @rest: at a NUL, where PHP's names end, or at its end. */
static bool ends_name(struct span rest)
{
    return rest.len == 0 || next_octet(&rest, true) == '\0';
}

/* --- cookies --- */

static bool is_soft(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* Where the first soft separator stands, or text.len. */
static size_t find_soft(struct span text)
{
    size_t at = 0;
    while (at < text.len && !is_soft(text.data[at])) {
        at++;
    }
    return at;
}

/* Bytes of the quoted string that @text begins with, quotes included; 0: it has no end. */
static size_t quoted_len(struct span text)
{
    size_t at = 1;
    while (at < text.len && text.data[at] != '"') {
        at += text.data[at] == '\\' ? 2 : 1;
    }
    return at < text.len ? at + 1 : 0;
}

/* The value that @written, behind the "=", is, and perhaps another. @line: the same up to the end
 * of the field. */
static struct span cut_value(struct value_walk *walk, struct span written, struct span line)
{
    const struct span value = value_trim(written);
    walk->second.data = NULL;
    if (value.len > 0 && value.data[0] == '"') {
        const size_t len = quoted_len(from(line, (size_t)(value.data - line.data)));
        if (len > 0) {
            walk->second = len != value.len ? span_of(value.data, len) : walk->second;
            return value;
        }
    }
    const size_t soft = find_soft(value);
    if (soft < value.len) {
        walk->second = span_of(value.data, soft);
    }
    return value;
}

/* Go on behind the next soft separators of the piece, and all blanks there. So the time that a
 * piece takes grows with its length, not with the square of it. False: there is none. */
static bool skip_soft(struct value_walk *walk)
{
    const size_t soft = find_soft(walk->piece);
    if (soft == walk->piece.len) {
        return false;
    }
    walk->piece = from(walk->piece, soft + 1);
    skip_blanks(&walk->piece, false);
    return true;
}

/* Whether the piece is a value of the name; the walk stands behind the "=" then. */
static bool look_at_piece(struct value_walk *walk, struct span *value)
{
    struct span behind;
    if (!starts_with_name(walk->piece, walk->name, false, &behind)) {
        return false;
    }
    const size_t equals = span_find(behind, '=');
    struct span tail = span_of(behind.data, equals);
    skip_blanks(&tail, false);
    if (equals == behind.len || !ends_name(tail)) {
        return false;
    }
    const struct span written = from(behind, equals + 1);
    const char *end =
        walk->rest.data != NULL ? walk->rest.data + walk->rest.len : written.data + written.len;
    *value = cut_value(walk, written, span_of(written.data, (size_t)(end - written.data)));
    walk->piece = written;
    return true;
}

bool cookie_next(struct value_walk *walk, struct span *value)
{
    if (walk->second.data != NULL) {
        *value = walk->second;
        walk->second.data = NULL;
        return true;
    }
    for (;;) {
        while (walk->piece.data != NULL) {
            const bool is_found = look_at_piece(walk, value);
            if (!skip_soft(walk)) {
                walk->piece.data = NULL;
            }
            if (is_found) {
                return true;
            }
        }
        if (!span_split(&walk->rest, ';', &walk->piece)) {
            return false;
        }
        skip_blanks(&walk->piece, false);
    }
}

/* Decode the escapes of @text to @out; a space becomes "+". Returns the length. *is_sound: no "%"
 * is anything else. */
static size_t decode_percent(struct span text, char *out, bool *is_sound)
{
    size_t len = 0;
    while (text.len > 0) {
        *is_sound = *is_sound && (text.data[0] != '%' || is_escape(text));
        const char c = next_octet(&text, false);
        out[len++] = c == ' ' ? '+' : c;
    }
    return len;
}

static bool is_octal(struct span text)
{
    return text.len >= 4 && text.data[1] >= '0' && text.data[1] <= '3' && text.data[2] >= '0' &&
           text.data[2] <= '7' && text.data[3] >= '0' && text.data[3] <= '7';
}

/* @text without its quotes, and with `\ooo` and `\c` decoded, as RFC 2109 and Python have it; @text
 * itself, copied, where it is not in quotes. Returns the length. */
static size_t unquote(struct span text, char *out)
{
    size_t len = 0;
    if (text.len < 2 || text.data[0] != '"' || text.data[text.len - 1] != '"') {
        memmove(out, text.data, text.len);
        return text.len;
    }
    text = span_of(text.data + 1, text.len - 2);
    while (text.len > 0) {
        size_t taken = 1;
        char c = text.data[0];
        if (c == '\\' && is_octal(text)) {
            c = (char)((text.data[1] - '0') << 6 | (text.data[2] - '0') << 3 |
                       (text.data[3] - '0'));
            taken = 4;
        } else if (c == '\\' && text.len > 1) {
            c = text.data[1];
            taken = 2;
        }
        out[len++] = c;
        text = from(text, taken);
    }
    return len;
}

/* Whether Express makes a string or a number of it, of which there are spellings without end. */
static bool is_json(struct span value)
{
    if (!span_starts_with(value, SPAN("j:"))) {
        return false;
    }
    value = value_trim(from(value, 2));
    while (value.len > 0 && value.data[0] == '+') {
        value = from(value, 1); /* was a space */
    }
    return value.len > 0 && (value.data[0] == '"' || value.data[0] == '-' ||
                             (value.data[0] >= '0' && value.data[0] <= '9'));
}

/* @value without quotes as npm's cookie takes them off: whatever its last byte is. */
static struct span strip_quotes(struct span value)
{
    return value.len >= 2 && value.data[0] == '"' ? span_of(value.data + 1, value.len - 2) : value;
}

bool cookie_decode(struct span value, char *buffer, size_t capacity,
                   struct span readings[VALUE_READINGS_MAX], size_t *n)
{
    const bool is_quoted = value.len > 0 && value.data[0] == '"';
    bool is_sound = true;
    *n = 1;
    readings[0] = value;
    if (!is_quoted && span_find(value, '%') == value.len && span_find(value, ' ') == value.len) {
        return !is_json(value);
    }
    if (value.len > capacity / VALUE_READINGS_MAX) {
        return false;
    }
    /* Unquoted, then decoded: Python and all that follows it, Go. */
    char *out = buffer;
    size_t len = unquote(value, out);
    len = decode_percent(span_of(out, len), out, &is_sound);
    readings[0] = span_of(out, len);
    /* Decoded, as PHP does, and the same unquoted. */
    out += len;
    len = decode_percent(value, out, &is_sound);
    len = unquote(span_of(out, len), out);
    readings[(*n)++] = span_of(out, len);
    if (is_quoted) { /* npm's cookie */
        out += len;
        len = decode_percent(strip_quotes(value), out, &is_sound);
        readings[(*n)++] = span_of(out, len);
    }
    if (!is_sound) { /* npm's cookie leaves the value as it is then */
        readings[(*n)++] = strip_quotes(value);
    }
    for (size_t i = 0; i < *n; i++) {
        if (is_json(readings[i])) {
            return false;
        }
    }
    return true;
}

/* --- queries --- */

/* Cut the next piece, up to a ";", off the pair. */
static struct span cut_piece(struct value_walk *walk)
{
    const size_t len = span_find(walk->piece, ';');
    const struct span piece = span_of(walk->piece.data, len);
    walk->piece = len < walk->piece.len ? from(walk->piece, len + 1) : span_of(NULL, 0);
    return piece;
}

/* PHP's own server takes any number of "?" for one. */
static bool is_parameter(struct span written, struct span name)
{
    while (written.len > 0 && written.data[0] == '?') {
        written = from(written, 1);
    }
    skip_blanks(&written, true);
    return starts_with_name(written, name, true, &written) && ends_name(written);
}

bool query_next(struct value_walk *walk, struct span *value)
{
    if (walk->second.data != NULL) {
        *value = walk->second;
        walk->second.data = NULL;
        return true;
    }
    for (;;) {
        while (walk->piece.data != NULL) {
            const struct span whole = walk->piece;
            const bool is_first = walk->is_first;
            const struct span piece = cut_piece(walk);
            const size_t equals = span_find(piece, '=');
            const size_t start = equals < piece.len ? equals + 1 : piece.len;
            const struct span written = span_of(piece.data, equals);
            walk->is_first = false;
            if (piece.len == 0 || !is_parameter(written, walk->name)) {
                continue;
            }
            *value = from(piece, start);
            if (is_first && piece.len < whole.len) {
                walk->second = from(whole, start);
            }
            return true;
        }
        if (!span_split(&walk->rest, '&', &walk->piece)) {
            return false;
        }
        walk->is_first = true;
    }
}

bool query_decode(struct span value, char *buffer, size_t capacity,
                  struct span readings[VALUE_READINGS_MAX], size_t *n)
{
    bool is_sound = true;
    size_t len = 0;
    readings[1] = value;
    if (value.len > capacity) {
        return false;
    }
    while (value.len > 0) {
        is_sound = is_sound && (value.data[0] != '%' || is_escape(value));
        buffer[len++] = next_octet(&value, true);
    }
    readings[0] = span_of(buffer, len);
    *n = is_sound ? 1 : 2;
    return true;
}
