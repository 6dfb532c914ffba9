/* A run of bytes that somebody else owns. It may hold any byte, NUL too, and is not terminated. */

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

/* Letters of ASCII are compared without regard to case. */
bool span_equals_ignore_case(struct span a, struct span b);

/* Whether @span starts with @prefix. */
bool span_starts_with(struct span span, struct span prefix);

/* Where @byte first stands in @span, or span.len. */
size_t span_find(struct span span, char byte);

/* @span without the spaces and tabs at both ends. */
struct span span_trim(struct span span);

/* Cut the piece up to the next @separator off the front of @rest, and the separator with it. The
 * last piece leaves @rest with data NULL; with data NULL there is none and the result is false. An
 * empty @rest that is not NULL yields one empty piece. */
bool span_split(struct span *rest, char separator, struct span *piece);

/* Read @span as a decimal number: digits alone, at least one, at most @max.
 * Returns false, and leaves @value, for anything else. */
bool span_to_u64(struct span span, uint64_t max, uint64_t *value);

#endif /* SLUICE_BASE_SPAN_H */
