#include "base/text.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/span.h"

enum { U64_DIGITS_MAX = 20 };

/* The two digits of each octet. */
#define HEX_ROW(high)                                                                              \
    {high, '0'}, {high, '1'}, {high, '2'}, {high, '3'}, {high, '4'}, {high, '5'}, {high, '6'},     \
        {high, '7'}, {high, '8'}, {high, '9'}, {high, 'a'}, {high, 'b'}, {high, 'c'}, {high, 'd'}, \
        {high, 'e'},                                                                               \
    {                                                                                              \
        high, 'f'                                                                                  \
    }

static const char HEX[256][2] = {
    HEX_ROW('0'), HEX_ROW('1'), HEX_ROW('2'), HEX_ROW('3'), HEX_ROW('4'), HEX_ROW('5'),
    HEX_ROW('6'), HEX_ROW('7'), HEX_ROW('8'), HEX_ROW('9'), HEX_ROW('a'), HEX_ROW('b'),
    HEX_ROW('c'), HEX_ROW('d'), HEX_ROW('e'), HEX_ROW('f'),
};

/* A piece that takes several writes is added as a whole or not at all: it is written to the free
 * room first, then @text grows. */
static struct text room_of(const struct text *text)
{
    return text_of(text->data + text->len, text->capacity - text->len);
}

static void take(struct text *text, const struct text *written)
{
    if (written->truncated) {
        text->truncated = true;
    } else {
        text->len += written->len;
    }
}

/* Write the digits of @value so that they end at @end, two per division. Returns their start. */
static char *digits_before(char *end, uint64_t value)
{
    static const char PAIRS[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    while (value >= 100) {
        end -= 2;
        memcpy(end, PAIRS + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        end -= 2;
        memcpy(end, PAIRS + value * 2, 2);
    } else {
        *--end = (char)('0' + value);
    }
    return end;
}

/* By the number of bits: a value of 10^at or more has at + 1 digits, a smaller one has at. */
static size_t count_digits(uint64_t value)
{
    static const uint64_t POWERS[U64_DIGITS_MAX] = {
        0,
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    const unsigned n_bits = 64 - (unsigned)__builtin_clzll(value | 1);
    const size_t at = n_bits * 1233 >> 12; /* n_bits * log10(2): exact up to 64 */
    return at + (value >= POWERS[at]);
}

void text_add_u64(struct text *text, uint64_t value)
{
    if (value < 10) { /* the common case */
        text_add_char(text, (char)('0' + value));
        return;
    }
    const size_t n = count_digits(value);
    if (n > text->capacity - text->len) {
        text->truncated = true;
        return;
    }
    text->len += n;
    (void)digits_before(text->data + text->len, value);
}

void text_add_i64(struct text *text, int64_t value)
{
    char digits[1 + U64_DIGITS_MAX];
    char *end = digits + sizeof(digits);
    char *front = digits_before(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);

    if (value < 0) {
        *--front = '-';
    }
    text_add(text, span_of(front, (size_t)(end - front)));
}

void text_add_hex(struct text *text, const uint8_t *bytes, size_t len)
{
    if (len > (text->capacity - text->len) / 2) {
        text->truncated = true;
        return;
    }
    char *to = text->data + text->len;
    for (size_t i = 0; i < len; i++) {
        memcpy(to + 2 * i, HEX[bytes[i]], 2);
    }
    text->len += 2 * len;
}

PRINTF_LIKE(2, 0)
static void add_format_list(struct text *text, const char *format, va_list args)
{
    const size_t room = text->capacity - text->len;
    char *formatted = NULL;
    va_list again;

    va_copy(again, args);
    int len = vsnprintf(room > 0 ? text->data + text->len : NULL, room, format, args);
    if (len >= 0 && (size_t)len < room) {
        text->len += (size_t)len;
    } else if (vasprintf(&formatted, format, again) < 0) { /* printf needs room for its NUL */
        text->truncated = true;
    } else {
        text_add(text, span_of(formatted, (size_t)len));
        free(formatted);
    }
    va_end(again);
}

void text_add_format(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_format_list(text, format, args);
    va_end(args);
}

bool text_refuse(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_format_list(text, format, args);
    va_end(args);
    return false;
}

/* --- escapers --- */

static void add_hex_escape(struct text *text, char byte)
{
    uint8_t value = (uint8_t)byte;

    text_add_literal(text, "\\x");
    text_add_hex(text, &value, 1);
}

/* The code point of a character of one to three bytes, UTF-8. A longer one: UINT32_MAX. */
static uint32_t code_point(struct span character)
{
    const uint32_t first = (uint8_t)character.data[0];
    if (character.len == 1) {
        return first;
    }
    const uint32_t second = (uint8_t)character.data[1] & 0x3f;
    if (character.len == 2) {
        return (first & 0x1f) << 6 | second;
    }
    return character.len == 3
               ? (first & 0x0f) << 12 | second << 6 | ((uint8_t)character.data[2] & 0x3f)
               : UINT32_MAX;
}

/* Whether a character controls what shows it: C0, DEL, C1, which terminals obey too; separators of
 * lines; characters that turn the direction of text, or are not seen. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

/* Where an octet may stand unescaped. */
enum kind {
    KIND_QUOTED = 1, /* in every quoted form: printable ASCII but `"` and `\` */
    KIND_BARE = 2,   /* in a bare word of logfmt too */
};

#define KIND(c)                                                                                    \
    ((c) < ' ' || (c) > '~' || (c) == '"' || (c) == '\\' ? 0                                       \
     : (c) == ' ' || (c) == '='                          ? KIND_QUOTED                             \
                                                         : KIND_QUOTED | KIND_BARE)
#define KINDS_4(c) KIND(c), KIND((c) + 1), KIND((c) + 2), KIND((c) + 3)
#define KINDS_16(c) KINDS_4(c), KINDS_4((c) + 4), KINDS_4((c) + 8), KINDS_4((c) + 12)
#define KINDS_64(c) KINDS_16(c), KINDS_16((c) + 16), KINDS_16((c) + 32), KINDS_16((c) + 48)

static const uint8_t KINDS[256] = {KINDS_64(0), KINDS_64(64), KINDS_64(128), KINDS_64(192)};

/* The number of octets of @kind at the front of @span. */
static size_t run_of(struct span span, enum kind kind)
{
    size_t n = 0;
    while (n < span.len && (KINDS[(uint8_t)span.data[n]] & kind) != 0) {
        n++;
    }
    return n;
}

/* Move the octets that need no escape from the front of @rest to @text. False: nothing is left. */
static bool add_plain(struct text *text, struct span *rest)
{
    if (rest->len == 0) {
        return false; /* data may be NULL, which allows no arithmetic */
    }
    const size_t n = run_of(*rest, KIND_QUOTED);
    text_add(text, span_of(rest->data, n));
    *rest = span_of(rest->data + n, rest->len - n);
    return rest->len > 0;
}

/* Remove the character at the front of @rest. False: it is a byte that is not UTF-8. */
static bool next_character(struct span *rest, struct span *character)
{
    size_t len = utf8_front(*rest);
    bool is_utf8 = len > 0;

    *character = span_of(rest->data, is_utf8 ? len : 1);
    *rest = span_of(rest->data + character->len, rest->len - character->len);
    return is_utf8;
}

/* @quoted: one more byte that gets a backslash before it. */
static void add_escaped(struct text *text, struct span span, struct span quoted)
{
    while (add_plain(text, &span)) {
        struct span character;
        bool is_utf8 = next_character(&span, &character);

        if (!is_utf8 || is_control(code_point(character))) {
            for (size_t i = 0; i < character.len; i++) {
                add_hex_escape(text, character.data[i]);
            }
            continue;
        }
        if (span_find(quoted, character.data[0]) < quoted.len) {
            text_add_char(text, '\\');
        }
        text_add(text, character);
    }
}

void text_add_printable(struct text *text, struct span span)
{
    struct text out = room_of(text);

    add_escaped(&out, span, SPAN(""));
    take(text, &out);
}

/* Not inlined: a bare word does not need its stack frame. */
static NEVER_INLINE void add_quoted(struct text *text, struct span span)
{
    struct text out = room_of(text);
    text_add_char(&out, '"');
    add_escaped(&out, span, SPAN("\"\\"));
    text_add_char(&out, '"');
    take(text, &out);
}

bool text_is_plain_word(struct span span)
{
    return span.len > 0 && run_of(span, KIND_BARE) == span.len;
}

void text_add_logfmt(struct text *text, struct span span)
{
    if (text_is_plain_word(span)) {
        text_add(text, span);
    } else {
        add_quoted(text, span);
    }
}

static void add_json_character(struct text *text, struct span character)
{
    static const char SHORT[] = "\"\\\b\f\n\r\t";
    static const char LETTERS[] = "\"\\bfnrt";
    const uint32_t code = code_point(character);
    char c = character.data[0];
    size_t i = span_find(span_of(SHORT, sizeof(SHORT) - 1), c);

    if (i < sizeof(SHORT) - 1) {
        text_add_char(text, '\\');
        text_add_char(text, LETTERS[i]);
    } else if (is_control(code)) {
        const uint8_t bytes[2] = {(uint8_t)(code >> 8), (uint8_t)code};
        text_add_literal(text, "\\u");
        text_add_hex(text, bytes, sizeof(bytes));
    } else {
        text_add(text, character);
    }
}

void text_add_json(struct text *text, struct span span)
{
    struct text out = room_of(text);

    text_add_char(&out, '"');
    while (add_plain(&out, &span)) {
        struct span character;
        if (next_character(&span, &character)) {
            add_json_character(&out, character);
        } else {
            text_add_literal(&out, "\xef\xbf\xbd");
        }
    }
    text_add_char(&out, '"');
    take(text, &out);
}

/* --- times, for people --- */

static uint64_t divide_up(uint64_t number, uint64_t by)
{
    return number / by + (number % by > 0);
}

/* Write "1m05s": @value is in the smaller unit, @worth of which make one of the greater. "1m" if
 * the smaller part is zero. */
static void add_two_units(struct text *text, uint64_t value, uint64_t worth, const char units[2])
{
    text_add_u64(text, value / worth);
    text_add(text, span_of(&units[0], 1));
    if (value % worth > 0) {
        text_add(text, value % worth < 10 ? SPAN("0") : SPAN(""));
        text_add_u64(text, value % worth);
        text_add(text, span_of(&units[1], 1));
    }
}

static void add_seconds(struct text *text, uint64_t tenths)
{
    text_add_u64(text, tenths / 10);
    if (tenths % 10 > 0) {
        text_add_literal(text, ".");
        text_add_u64(text, tenths % 10);
    }
    text_add_literal(text, "s");
}

void text_add_time(struct text *text, uint64_t us)
{
    const uint64_t ms = divide_up(us, 1000);
    const uint64_t tenths = divide_up(ms, 100);
    const uint64_t s = divide_up(ms, 1000);
    const uint64_t minutes = divide_up(s, 60);
    struct text written = room_of(text);
    if (ms < 1000) {
        text_add_u64(&written, ms);
        text_add_literal(&written, "ms");
    } else if (tenths < 600) {
        add_seconds(&written, tenths);
    } else if (s < 3600) {
        add_two_units(&written, s, 60, "ms");
    } else if (minutes < UINT64_C(24) * 60) {
        add_two_units(&written, minutes, 60, "hm");
    } else {
        add_two_units(&written, divide_up(minutes, 60), 24, "dh");
    }
    take(text, &written);
}

bool base64url_decode(struct span text, uint8_t *out, size_t capacity, size_t *len)
{
    *len = 0;
    return text.len == 0 || sodium_base642bin(out, capacity, text.data, text.len, NULL, len, NULL,
                                              sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0;
}
