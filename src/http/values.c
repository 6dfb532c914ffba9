#include "http/values.h"

#include <string.h>

#include "http/octet.h"

/* --- the ends of a value --- */

/* The length of a Unicode blank beyond ASCII, in UTF-8: NEL, NBSP, Ogham, U+2000 to U+200A, line
 * and paragraph separators, narrow NBSP, the mathematical and the ideographic one; and what Laravel
 * trims as well: U+200B, U+200E, U+FEFF. */
static size_t wide_blank_len(const unsigned char *c, size_t len)
{
    if (len >= 2 && c[0] == 0xc2 && (c[1] == 0x85 || c[1] == 0xa0)) {
        return 2;
    }
    if (len < 3) {
        return 0;
    }
    const bool is_blank = (c[0] == 0xe1 && c[1] == 0x9a && c[2] == 0x80) ||
                          (c[0] == 0xe2 && c[1] == 0x80 &&
                           ((c[2] >= 0x80 && c[2] <= 0x8b) || c[2] == 0x8e || c[2] == 0xa8 ||
                            c[2] == 0xa9 || c[2] == 0xaf)) ||
                          (c[0] == 0xe2 && c[1] == 0x81 && c[2] == 0x9f) ||
                          (c[0] == 0xe3 && c[1] == 0x80 && c[2] == 0x80) ||
                          (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf);
    return is_blank ? 3 : 0;
}

/* Whether @c is a blank of ASCII or of Latin-1. One of Latin-1 may be part of a letter of UTF-8 at
 * the end of a value, see ends_in_letter(), but not at its front. */
static bool is_narrow_blank(unsigned char c)
{
    return c <= ' ' || c == 0x85 || c == 0xa0;
}

static size_t leading_blank(struct span span)
{
    const unsigned char *data = (const unsigned char *)span.data;
    return is_narrow_blank(data[0]) ? 1 : wide_blank_len(data, span.len);
}

/* Whether the last byte of @span belongs to a letter of several bytes in UTF-8. */
static bool ends_in_letter(struct span span)
{
    for (size_t len = 2; len <= 4 && len <= span.len; len++) {
        if (utf8_front(span_from(span, span.len - len)) == len) {
            return true;
        }
    }
    return false;
}

static size_t trailing_blank(struct span span)
{
    const unsigned char *data = (const unsigned char *)span.data;
    for (size_t len = 3; len >= 2; len--) {
        if (span.len >= len && wide_blank_len(data + span.len - len, len) == len) {
            return len;
        }
    }
    const unsigned char last = data[span.len - 1];
    return is_narrow_blank(last) && (last <= ' ' || !ends_in_letter(span)) ? 1 : 0;
}

/* Whether @c may be the first or last byte of a blank. */
static bool may_be_blank(char c)
{
    return (unsigned char)c <= ' ' || (unsigned char)c >= 0x80;
}

struct span value_trim(struct span span)
{
    size_t len;
    while (span.len > 0 && may_be_blank(span.data[0]) && (len = leading_blank(span)) > 0) {
        span = span_from(span, len);
    }
    while (span.len > 0 && may_be_blank(span.data[span.len - 1]) &&
           (len = trailing_blank(span)) > 0) {
        span.len -= len;
    }
    return span;
}

/* --- names --- */

/* Remove the first octet from @text, which is not empty, and return it decoded; a "%" that begins
 * no escape is literal. */
static char next_octet(struct span *text, bool is_form)
{
    const int escaped = octet_escape(*text, 0);
    const char octet = text->data[0];
    *text = span_from(*text, escaped < 0 ? 1 : 3);
    if (escaped >= 0) {
        return (char)escaped;
    }
    return is_form && octet == '+' ? ' ' : octet;
}

/* Remove blanks from the front of @text, escaped ones too. */
static void skip_blanks(struct span *text, bool is_form)
{
    struct span rest = *text;
    size_t len;
    while (rest.len > 0) {
        if (!is_form && (len = leading_blank(rest)) > 0) {
            rest = span_from(rest, len);
        } else {
            const char c = next_octet(&rest, is_form);
            if (c == '\0' || !is_narrow_blank((unsigned char)c)) {
                return;
            }
        }
        *text = rest;
    }
}

/* Whether @text, without blanks in front, begins with @name when decoded. Then *behind is the text
 * after the name. Reads no more than the length of the name. */
static bool starts_with_name(struct span text, struct span name, bool is_form, struct span *behind)
{
    for (size_t i = 0; i < name.len; i++) {
        if (text.len == 0 || text.data[0] == '=' ||
            query_name_fold(next_octet(&text, is_form)) != query_name_fold(name.data[i])) {
            return false;
        }
    }
    *behind = text;
    return true;
}

/* Whether a name may end before @rest: at a NUL, where PHP ends names, or at the end of the
 * text. */
static bool ends_name(struct span rest)
{
    return rest.len == 0 || next_octet(&rest, true) == '\0';
}

/* --- cookies --- */

static bool is_soft(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* The index of the first soft separator, or text.len. */
static size_t find_soft(struct span text)
{
    size_t at = 0;
    while (at < text.len && !is_soft(text.data[at])) {
        at++;
    }
    return at;
}

/* The length of the quoted string at the start of @text, quotes included; 0: it is not closed. */
static size_t quoted_len(struct span text)
{
    size_t at = 1;
    while (at < text.len && text.data[at] != '"') {
        at += text.data[at] == '\\' ? 2 : 1;
    }
    return at < text.len ? at + 1 : 0;
}

/* The value at the start of @written, which follows the "="; *other is a second reading. @line is
 * the same text up to the end of the field. */
static struct span cut_value(struct span written, struct span line, struct span *other)
{
    const struct span value = value_trim(written);
    other->data = NULL;
    if (value.len > 0 && value.data[0] == '"') {
        const size_t len = quoted_len(span_from(line, (size_t)(value.data - line.data)));
        if (len > 0) {
            *other = len != value.len ? span_of(value.data, len) : *other;
            return value;
        }
    }
    const size_t soft = find_soft(value);
    if (soft < value.len) {
        *other = span_of(value.data, soft);
    }
    return value;
}

/* Advance past the next soft separators of the piece and the blanks there. So the time for a piece
 * is linear in its length, not quadratic. False: there is no separator. */
static bool skip_soft(struct value_walk *walk)
{
    const size_t soft = find_soft(walk->piece);
    if (soft == walk->piece.len) {
        return false;
    }
    walk->piece = span_from(walk->piece, soft + 1);
    walk->is_first = false;
    skip_blanks(&walk->piece, false);
    return true;
}

/* The index of the first "=" in @behind, which is the end of the piece, or behind.len. Consecutive
 * names without a "=" have the same one, so it is searched once. */
static size_t find_equals(struct value_walk *walk, struct span behind)
{
    if (walk->equals == NULL || walk->equals < behind.data) {
        walk->equals = behind.data + span_find(behind, '=');
    }
    return (size_t)(walk->equals - behind.data);
}

/* Whether the piece begins with the name as it is in the policy. */
static bool is_as_written(const struct value_walk *walk)
{
    return walk->piece.len >= walk->name.len &&
           memcmp(walk->piece.data, walk->name.data, walk->name.len) == 0;
}

/* Whether no server drops a cookie for its @value: Go takes printable ASCII without quotes, but for
 * those around it, and without backslashes. */
static bool cookie_value_is_sure(struct span value)
{
    if (value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"') {
        value = span_of(value.data + 1, value.len - 2);
    }
    for (size_t i = 0; i < value.len; i++) {
        const char c = value.data[i];
        if (c < ' ' || c > '~' || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

bool cookie_at_place(struct value_walk *walk, struct span *value, struct span *other)
{
    struct span behind;
    if (!starts_with_name(walk->piece, walk->name, false, &behind)) {
        return false;
    }
    const size_t equals = find_equals(walk, behind);
    struct span tail = span_of(behind.data, equals);
    skip_blanks(&tail, false);
    if (equals == behind.len || !ends_name(tail)) {
        return false;
    }
    const struct span written = span_from(behind, equals + 1);
    const char *end =
        walk->rest.data != NULL ? walk->rest.data + walk->rest.len : written.data + written.len;
    *value = cut_value(written, span_of(written.data, (size_t)(end - written.data)), other);
    walk->is_doubtful = !walk->is_first || walk->n_pieces > PIECES_SURE || equals > 0 ||
                        !is_as_written(walk) || !cookie_value_is_sure(span_trim(written));
    return true;
}

/* Advance past the empty pieces at the front of @rest: each costs a comparison. Returns their
 * number. */
static uint32_t skip_empty(struct span *rest, char separator)
{
    size_t n = 0;
    while (n < rest->len && rest->data[n] == separator) {
        n++;
    }
    *rest = span_from(*rest, n);
    return (uint32_t)n;
}

bool cookie_next_place(struct value_walk *walk)
{
    if (walk->piece.data != NULL && skip_soft(walk)) {
        return true;
    }
    if (walk->rest.data != NULL) {
        walk->n_pieces += skip_empty(&walk->rest, ';');
    }
    if (!span_split(&walk->rest, ';', &walk->piece)) {
        walk->piece.data = NULL;
        return false;
    }
    const struct span piece = span_trim(walk->piece);
    skip_blanks(&walk->piece, false);
    walk->is_first = walk->piece.data == piece.data;
    walk->n_pieces++;
    walk->equals = NULL; /* that of another piece, which may be in any other memory */
    return true;
}

void cookie_name_read(struct span place, size_t bytes_max, struct query_name *name)
{
    size_t len = 0;
    while (place.len > 0 && place.data[0] != '=' && len < bytes_max + 2) {
        name->octets[len++] = next_octet(&place, false);
    }
    name->len = len;
    name->is_whole = place.len > 0 && place.data[0] == '=';
    name->is_plain = false;
}

bool cookie_name_may_end(const struct query_name *name, size_t end)
{
    return end == name->len ? name->is_whole : may_be_blank(name->octets[end]);
}

bool cookie_next(struct value_walk *walk, struct span *value)
{
    if (walk->second.data != NULL) {
        *value = walk->second;
        walk->second.data = NULL;
        return true;
    }
    while (cookie_next_place(walk)) {
        if (cookie_at_place(walk, value, &walk->second)) {
            return true;
        }
    }
    return false;
}

/* Decode the escapes of @text to @out; a space becomes "+". Returns the length. *is_sound: each "%"
 * begins an escape. */
static size_t decode_percent(struct span text, char *out, bool *is_sound)
{
    size_t len = 0;
    while (text.len > 0) {
        *is_sound = *is_sound && (text.data[0] != '%' || octet_escape(text, 0) >= 0);
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

/* Write @text to @out without its quotes, with `\ooo` and `\c` decoded as in RFC 2109 and Python.
 * If @text is not in quotes, it is copied. Returns the length. */
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
        text = span_from(text, taken);
    }
    return len;
}

/* Whether Express parses the value as a JSON string or number, which has unlimited spellings. */
static bool is_json(struct span value)
{
    if (!span_starts_with(value, SPAN("j:"))) {
        return false;
    }
    value = value_trim(span_from(value, 2));
    while (value.len > 0 && value.data[0] == '+') {
        value = span_from(value, 1); /* it was a space */
    }
    return value.len > 0 && (value.data[0] == '"' || value.data[0] == '-' ||
                             (value.data[0] >= '0' && value.data[0] <= '9'));
}

/* @value without quotes, as npm's cookie removes them: the last byte goes whatever it is. */
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
    if (value.len > capacity / VALUE_COPIES_MAX) {
        return false;
    }
    /* Unquoted, then decoded: as Python, libraries that follow it, and Go do. */
    char *out = buffer;
    size_t len = unquote(value, out);
    len = decode_percent(span_of(out, len), out, &is_sound);
    readings[0] = span_of(out, len);
    /* Decoded, as PHP does, then unquoted. */
    out += len;
    len = decode_percent(value, out, &is_sound);
    len = unquote(span_of(out, len), out);
    readings[(*n)++] = span_of(out, len);
    if (is_quoted) { /* npm's cookie */
        out += len;
        len = decode_percent(strip_quotes(value), out, &is_sound);
        readings[(*n)++] = span_of(out, len);
    }
    if (!is_sound) { /* then npm's cookie does not decode the value */
        readings[(*n)++] = strip_quotes(value);
    }
    if (is_quoted && value.len > 1 && value.data[value.len - 1] != '"') { /* Tomcat */
        readings[(*n)++] = span_from(value, 1);
    }
    for (size_t i = 0; i < *n; i++) {
        if (is_json(readings[i])) {
            return false;
        }
    }
    return true;
}

/* --- queries --- */

bool query_cut_next(struct query_cut *cut, struct query_piece *piece)
{
    for (;;) {
        while (cut->pair.data != NULL) {
            const struct span whole = cut->pair;
            const size_t len = span_find(whole, ';');
            const struct span text = span_of(whole.data, len);
            const size_t equals = span_find(text, '=');
            const size_t start = equals < len ? equals + 1 : len;
            const bool is_first = cut->is_first;
            cut->pair = len < whole.len ? span_from(whole, len + 1) : span_of(NULL, 0);
            cut->is_first = false;
            cut->n_pieces++;
            if (len == 0) {
                continue;
            }
            *piece = (struct query_piece){
                .name = span_of(text.data, equals),
                .value = span_from(text, start),
                .whole = is_first && len < whole.len ? span_from(whole, start) : span_of(NULL, 0),
                .is_pair = is_first && len == whole.len && cut->n_pieces <= PIECES_SURE,
            };
            return true;
        }
        if (cut->rest.data != NULL) {
            cut->n_pieces += skip_empty(&cut->rest, '&');
        }
        if (!span_split(&cut->rest, '&', &cut->pair)) {
            return false;
        }
        cut->is_first = true;
    }
}

static bool escapes_are_sound(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '%' && octet_escape(text, i) < 0) {
            return false;
        }
    }
    return true;
}

/* Whether a "]", which newer versions of qs read escaped too, precedes a "=" in @value. */
static bool has_bracket_equals(struct span value)
{
    for (size_t i = 1; i < value.len; i++) {
        if (value.data[i] == '=' &&
            (value.data[i - 1] == ']' || (i >= 3 && octet_escape(value, i - 3) == ']'))) {
            return true;
        }
    }
    return false;
}

static bool value_is_sure(struct span value)
{
    return escapes_are_sound(value) && !has_bracket_equals(value);
}

bool query_piece_is_sure(const struct query_piece *piece)
{
    return piece->is_pair && escapes_are_sound(piece->name) && value_is_sure(piece->value);
}

/* PHP's built-in server treats several "?" as one, and PHP skips blanks. */
static struct span skip_front(struct span written)
{
    while (written.len > 0 && written.data[0] == '?') {
        written = span_from(written, 1);
    }
    skip_blanks(&written, true);
    return written;
}

/* @text without the brackets at its start, which Express (one) and Rack (any) remove. */
static struct span skip_brackets(struct span text)
{
    struct span rest = text;
    while (rest.len > 0) {
        const char c = next_octet(&rest, true);
        if (c != '[' && c != ']') {
            break;
        }
        text = rest;
    }
    return text;
}

bool query_name_read(struct span written, bool in_brackets, size_t bytes_max,
                     struct query_name *name)
{
    struct span rest = skip_front(written);
    if (in_brackets) {
        const struct span inside = skip_brackets(rest);
        if (inside.data == rest.data) {
            return false;
        }
        rest = inside;
    }
    const bool is_from_start = rest.data == written.data;
    size_t len = 0;
    while (rest.len > 0 && len < bytes_max + 2) {
        name->octets[len++] = next_octet(&rest, true);
    }
    name->len = len;
    name->is_whole = rest.len == 0;
    name->is_plain = name->is_whole && is_from_start;
    return true;
}

bool query_name_may_end(const struct query_name *name, size_t end)
{
    if (end == name->len) {
        return name->is_whole;
    }
    const char c = name->octets[end];
    return c == '\0' || c == '[' || c == ']';
}

/* Whether a parameter's name may end before @rest: it is no list of that name. */
static bool ends_parameter(struct span rest)
{
    return ends_name(rest) || next_octet(&rest, true) == ']';
}

static bool is_parameter(struct span written, struct span name)
{
    struct span behind;
    written = skip_front(written);
    if (starts_with_name(written, name, true, &behind)) {
        return ends_parameter(behind);
    }
    const struct span inside = skip_brackets(written);
    return inside.data != written.data && starts_with_name(inside, name, true, &behind) &&
           ends_parameter(behind);
}

/* Whether every server that decodes @written reads the name. */
static bool is_exact(struct span written, struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (written.len == 0 || next_octet(&written, true) != name.data[i]) {
            return false;
        }
    }
    return written.len == 0;
}

bool query_piece_is(const struct query_piece *piece, const struct query_cut *cut, struct span name,
                    bool *is_doubtful)
{
    if (!is_parameter(piece->name, name)) {
        return false;
    }
    *is_doubtful =
        cut->n_pieces > PIECES_SURE || !value_is_sure(piece->value) || !is_exact(piece->name, name);
    return true;
}

bool query_next(struct value_walk *walk, struct span *value)
{
    struct query_piece piece;
    if (walk->second.data != NULL) {
        *value = walk->second;
        walk->second.data = NULL;
        return true;
    }
    struct query_cut cut = {.rest = walk->rest,
                            .pair = walk->piece,
                            .is_first = walk->is_first,
                            .n_pieces = walk->n_pieces};
    bool is_found = false;
    while (!is_found && query_cut_next(&cut, &piece)) {
        is_found = query_piece_is(&piece, &cut, walk->name, &walk->is_doubtful);
    }
    walk->rest = cut.rest;
    walk->piece = cut.pair;
    walk->is_first = cut.is_first;
    walk->n_pieces = cut.n_pieces;
    if (is_found) {
        *value = piece.value;
        walk->second = piece.whole;
    }
    return is_found;
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
        is_sound = is_sound && (value.data[0] != '%' || octet_escape(value, 0) >= 0);
        buffer[len++] = next_octet(&value, true);
    }
    readings[0] = span_of(buffer, len);
    *n = is_sound ? 1 : 2;
    return true;
}

/* --- one value --- */

static bool decodes_to(struct span encoded, struct span plain)
{
    for (size_t i = 0; i < plain.len; i++) {
        if (encoded.len == 0 || next_octet(&encoded, true) != plain.data[i]) {
            return false;
        }
    }
    return encoded.len == 0;
}

bool query_find(struct span query, struct span name, char *buffer, size_t capacity,
                struct span *value)
{
    struct span pair;

    while (span_split(&query, '&', &pair)) {
        const size_t mark = span_find(pair, '=');
        if (pair.len == 0 || !decodes_to(span_of(pair.data, mark), name)) {
            continue;
        }
        struct span encoded = span_from(pair, mark < pair.len ? mark + 1 : mark);
        size_t len = 0;
        while (encoded.len > 0 && len < capacity) {
            buffer[len++] = next_octet(&encoded, true);
        }
        *value = span_of(buffer, len);
        return true;
    }
    return false;
}
