/* Writes text into a caller's fixed buffer: bounded, without allocation, with a sticky error flag.
 *
 * A piece that does not fit is left out completely and sets `truncated`; the caller checks it once,
 * at the end. The text is not NUL-terminated. The escaping functions make bytes from outside safe
 * for their context. At the end: base64 of URLs. */

#ifndef SLUICE_BASE_TEXT_H
#define SLUICE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/span.h"

struct text {
    char *data;      /* borrowed */
    size_t len;      /* bytes written so far */
    size_t capacity; /* bytes at data */
    bool truncated;  /* something did not fit */
};

static inline struct text text_of(char *data, size_t capacity)
{
    return (struct text){.data = data, .capacity = capacity};
}

static inline struct span text_span(const struct text *text)
{
    return span_of(text->data, text->len);
}

static inline void text_add(struct text *text, struct span span)
{
    if (span.len > text->capacity - text->len) {
        text->truncated = true;
        return;
    }
    if (span.len > 0) {
        memcpy(text->data + text->len, span.data, span.len);
        text->len += span.len;
    }
}

#define text_add_literal(text, literal) text_add((text), SPAN(literal))

static inline void text_add_char(struct text *text, char c)
{
    text_add(text, span_of(&c, 1));
}

/* Decimal, without printf. */
void text_add_u64(struct text *text, uint64_t value);
void text_add_i64(struct text *text, int64_t value);

/* Lower-case hexadecimal of @len bytes, two digits each. */
void text_add_hex(struct text *text, const uint8_t *bytes, size_t len);

/* Not for the hot path. */
void text_add_format(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same, for parsers that write why they refuse their input. Returns false. */
bool text_refuse(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);

/* Write @span as a JSON string, with quotes. Control characters (C0, DEL, C1) are escaped, bytes
 * that are not UTF-8 become U+FFFD. */
void text_add_json(struct text *text, struct span span);

/* Write @span as text for people: control characters (C0, DEL, C1) and bytes that are not UTF-8
 * become \xHH, the rest is unchanged. */
void text_add_printable(struct text *text, struct span span);

/* Write @span as a logfmt value: bare if it is a plain ASCII word, otherwise in quotes. Inside
 * quotes `"` and `\` are preceded by `\`, and the rest is as text_add_printable() writes it. */
void text_add_logfmt(struct text *text, struct span span);

/* Whether @span is such a plain word, which JSON needs not escape either. */
bool text_is_plain_word(struct span span);

/* Write a duration for people, rounded up, in at most two units: 340ms, 12.3s, 1m05s, 2h, 3d04h. */
void text_add_time(struct text *text, uint64_t us);

/* Base64 for URLs, without padding: RFC 4648 section 5. */

/* Decode all of @text into @out. Strict: padding, white space, other alphabets and unused bits that
 * are not 0 are refused, so that two different texts never have the same bytes. False: it is not
 * such a text, or has more than @capacity bytes. */
MUST_USE bool base64url_decode(struct span text, uint8_t *out, size_t capacity, size_t *len);

#endif /* SLUICE_BASE_TEXT_H */
