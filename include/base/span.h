/* A borrowed run of bytes. It may contain any byte, including NUL, and is not terminated. */

#ifndef SLUICE_BASE_SPAN_H
#define SLUICE_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const char *data; /* borrowed; may be NULL when len is 0 */
    size_t len;       /* bytes */
};

/* The span of a string literal. */
#define SPAN(literal) ((struct span){("" literal), sizeof(literal) - 1})

/* For printf's "%.*s". Text from a client is escaped first: see text.h. */
#define SPAN_ARGS(span) (int)(span).len, (span).data

static inline struct span span_of(const char *data, size_t len)
{
    return (struct span){data, len};
}

/* @span without its first @n bytes, of which it has at least so many. */
static inline struct span span_from(struct span span, size_t n)
{
    return (struct span){span.data + n, span.len - n};
}

/* @text is NUL-terminated. */
static inline struct span span_of_text(const char *text)
{
    return (struct span){text, strlen(text)};
}

static inline bool span_equals(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* A letter of ASCII or a digit. */
static inline bool ascii_is_alphanumeric(char c)
{
    const char lower = ascii_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

/* Letters of ASCII are compared without regard to case. */
bool span_equals_ignore_case(struct span a, struct span b);

/* Whether @span starts with @prefix. */
bool span_starts_with(struct span span, struct span prefix);

/* The index of the first @byte in @span, or span.len. */
size_t span_find(struct span span, char byte);

/* The same of the last @byte, and of the first @text, which is not empty. */
size_t span_find_last(struct span span, char byte);
size_t span_find_text(struct span span, struct span text);

/* Whether all bytes of @span are letters of ASCII, digits, or in @others. */
bool span_has_only(struct span span, const char *others);

/* @span without the spaces and tabs at both ends. */
struct span span_trim(struct span span);

/* Remove the piece before the next @separator, and the separator, from the front of @rest. After
 * the last piece the data of @rest is NULL; a call with data NULL returns false. An empty @rest
 * with non-NULL data gives one empty piece. */
bool span_split(struct span *rest, char separator, struct span *piece);

/* Parse @span as a decimal number: digits only, at least one, value at most @max. False for
 * anything else; @value is then unchanged. */
bool span_to_u64(struct span span, uint64_t max, uint64_t *value);

/* The length in bytes (1 … 4) of the UTF-8 character at the front of @span. 0 if there is no
 * valid one, by The Unicode Standard, table 3-7: a stray or missing continuation byte, an overlong
 * form, a surrogate, a value beyond U+10FFFF, or an empty span. */
size_t utf8_front(struct span span);

/* Sorted sets of texts. */

/* The order of two spans, by length first; for qsort(). */
int span_compare(const void *a, const void *b);

/* Sort @spans and remove duplicates. Returns how many are left. */
size_t span_set_sort(struct span *spans, size_t n);

/* The index of @span among the @n sorted @spans, or @n. */
size_t span_set_find(const struct span *spans, size_t n, struct span span);

#endif /* SLUICE_BASE_SPAN_H */
