#include "base/compiler.h"
#include "policy/pattern.h"

enum {
    INT_DIGITS_MAX = 19, /* of a signed number of 64 bits */
    UUID_BYTES = 36,
    UUID_DIGITS_MIN = 16, /* int() skips leading zeros, blanks and "_" */
    UUID_HYPHENS = 4,
};

static const struct span WORDS[] = {[CAPTURE_TEXT] = {"", 0},
                                    [CAPTURE_INT] = {"int", 3},
                                    [CAPTURE_UUID] = {"uuid", 4},
                                    [CAPTURE_WORD] = {"word", 4}};

bool capture_type_parse(struct span word, enum capture_type *type)
{
    for (size_t i = CAPTURE_INT; i < ARRAY_LEN(WORDS); i++) {
        if (span_equals(word, WORDS[i])) {
            *type = (enum capture_type)i;
            return true;
        }
    }
    return false;
}

struct span capture_type_word(enum capture_type type)
{
    return WORDS[type];
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(unsigned char c)
{
    const char lower = ascii_lower((char)c);
    return lower >= 'a' && lower <= 'z';
}

static bool is_hex(unsigned char c)
{
    const char lower = ascii_lower((char)c);
    return is_digit(c) || (lower >= 'a' && lower <= 'f');
}

/* Of a hexadecimal digit. */
static unsigned value_of(char c)
{
    const char lower = ascii_lower(c);
    return (unsigned)(lower >= 'a' ? lower - 'a' + 10 : lower - '0');
}

/* The next octet of @rest, which is not empty. In a normalised path each "%" begins an escape. */
static unsigned char next_octet(struct span *rest)
{
    const bool is_escape = rest->data[0] == '%' && rest->len >= 3;
    const size_t n = is_escape ? 3 : 1;
    const unsigned octet = is_escape ? value_of(rest->data[1]) << 4 | value_of(rest->data[2])
                                     : (unsigned char)rest->data[0];
    *rest = span_from(*rest, n);
    return (unsigned char)octet;
}

/* Skip @octets at the start of *rest; false: others are there. */
static bool skip_octets(struct span *rest, const char *octets)
{
    while (*octets != '\0') {
        if (rest->len == 0 || next_octet(rest) != (unsigned char)*octets) {
            return false;
        }
        octets++;
    }
    return true;
}

/* --- numbers --- */

static bool is_plain_int(struct span found)
{
    for (size_t i = 0; i < found.len; i++) {
        if (!is_digit((unsigned char)found.data[i])) {
            return false;
        }
    }
    return found.len > 0 && found.len <= INT_DIGITS_MAX && (found.data[0] != '0' || found.len == 1);
}

/* Whether characters that begin with the octet @c, of UTF-8, may be digits: none is before U+0660,
 * nor in the scripts of China, Japan and Korea. */
static bool begins_digit(unsigned char c)
{
    return c >= 0xd9 && !(c >= 0xe3 && c <= 0xe9) && !(c >= 0xeb && c <= 0xed);
}

/* Whether @c may be an octet of a blank: below U+0021, or U+00A0, U+1680, U+2000 to U+3000,
 * U+FEFF. */
static bool is_of_blank(unsigned char c)
{
    const bool is_lead = c == 0xc2 || c == 0xe1 || c == 0xe2 || c == 0xe3 || c == 0xef;
    return c <= ' ' || is_lead || (c >= 0x80 && c < 0xc0);
}

/* Whether @found is blanks alone, which Number() takes for 0. */
static bool is_blank(struct span found)
{
    static const char *const WIDE[] = {
        "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82",
        "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87",
        "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
        "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80", "\xef\xbb\xbf"};
    while (found.len > 0) {
        const struct span rest = found;
        if (next_octet(&found) <= ' ') {
            continue;
        }
        bool is_wide = false;
        for (size_t i = 0; i < ARRAY_LEN(WIDE) && !is_wide; i++) {
            found = rest;
            is_wide = skip_octets(&found, WIDE[i]);
        }
        if (!is_wide) {
            return false;
        }
    }
    return true;
}

/* parseInt() and casts read the digits at the start, behind signs and blanks of any script; int()
 * reads digits of any script, and Java's decode() hexadecimal ones behind "#". */
static bool may_be_int(struct span found)
{
    if (is_blank(found)) {
        return true;
    }
    bool is_at_start = true;
    bool is_hash = false;
    bool is_wide = false;
    bool has_letter = false;
    while (found.len > 0) {
        const unsigned char c = next_octet(&found);
        if (is_at_start && (is_digit(c) || (is_hash && is_hex(c)))) {
            return true;
        }
        is_hash = is_hash || c == '#';
        is_at_start = is_at_start &&
                      (is_of_blank(c) || c == '+' || c == '-' || c == '_' || c == '.' || c == '#');
        is_wide = is_wide || begins_digit(c);
        has_letter = has_letter || is_letter(c);
    }
    return is_wide && !has_letter;
}

/* --- UUIDs --- */

static bool is_plain_uuid(struct span found)
{
    for (size_t i = 0; i < found.len; i++) {
        const char c = found.data[i];
        const bool is_hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_hyphen ? c != '-' : !is_hex((unsigned char)c) || ascii_lower(c) != c) {
            return false;
        }
    }
    return found.len == UUID_BYTES;
}

/* Whether @c, a letter, may stand within a UUID: of a digit, of "urn:uuid:", which Python removes
 * wherever it stands, or of "0x". */
static bool is_uuid_letter(unsigned char c)
{
    const char lower = ascii_lower((char)c);
    return is_hex(c) || lower == 'u' || lower == 'r' || lower == 'n' || lower == 'i' ||
           lower == 'x';
}

/* Hexadecimal digits of any case and script with or without hyphens and braces, for which Go takes
 * any letter; or five runs of them of any length, which Java reads. */
static bool may_be_uuid(struct span found)
{
    unsigned n_digits = 0; /* since the last letter that is none of a UUID */
    unsigned n_hyphens = 0;
    bool is_short = true; /* so far, but for the number of its hyphens */
    while (found.len > 0 && n_digits < UUID_DIGITS_MIN) {
        const unsigned char c = next_octet(&found);
        const bool is_one = is_hex(c) || begins_digit(c);
        n_digits = is_letter(c) && !is_uuid_letter(c) ? 0 : n_digits + is_one;
        n_hyphens += c == '-';
        is_short = is_short && (is_one || c == '-' || c == '+' || c <= ' ' || c >= 0x80);
    }
    return n_digits >= UUID_DIGITS_MIN || (is_short && n_hyphens == UUID_HYPHENS);
}

/* --- words --- */

static bool is_word(struct span found)
{
    for (size_t i = 0; i < found.len; i++) {
        const unsigned char c = (unsigned char)found.data[i];
        if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_') {
            return false;
        }
    }
    return found.len > 0;
}

bool capture_type_is_canonical(enum capture_type type, struct span found)
{
    switch (type) {
    case CAPTURE_TEXT:
        break;
    case CAPTURE_INT:
        return is_plain_int(found);
    case CAPTURE_UUID:
        return is_plain_uuid(found);
    case CAPTURE_WORD:
        return is_word(found);
    }
    return true;
}

bool capture_type_may_be(enum capture_type type, struct span found)
{
    switch (type) {
    case CAPTURE_TEXT:
    case CAPTURE_WORD: /* frameworks cut a word out of almost anything: `ann.json`, `ann;x` */
        break;
    case CAPTURE_INT:
        return may_be_int(found);
    case CAPTURE_UUID:
        return may_be_uuid(found);
    }
    return true;
}
