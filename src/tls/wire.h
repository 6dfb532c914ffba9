/* Numbers and vectors in messages of TLS: RFC 8446 section 3. */

#ifndef SLUICE_TLS_WIRE_H
#define SLUICE_TLS_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

static inline unsigned wire_byte_at(struct span bytes, size_t i)
{
    return (unsigned char)bytes.data[i];
}

/* The number of @n bytes at @i, the most significant first. */
static inline size_t wire_number_at(struct span bytes, size_t i, size_t n)
{
    size_t number = 0;
    for (size_t end = i + n; i < end; i++) {
        number = number << 8 | wire_byte_at(bytes, i);
    }
    return number;
}

/* Take @len bytes from the front of @rest. */
static inline bool wire_take(struct span *rest, size_t len, struct span *taken)
{
    if (len > rest->len) {
        return false;
    }
    *taken = span_of(rest->data, len);
    *rest = span_of(rest->data + len, rest->len - len);
    return true;
}

static inline bool wire_take_number(struct span *rest, size_t n, size_t *number)
{
    struct span bytes;
    if (!wire_take(rest, n, &bytes)) {
        return false;
    }
    *number = wire_number_at(bytes, 0, n);
    return true;
}

/* Take a vector whose length stands before it, in @n bytes. */
static inline bool wire_take_vector(struct span *rest, size_t n, struct span *vector)
{
    size_t len;
    return wire_take_number(rest, n, &len) && wire_take(rest, len, vector);
}

#endif /* SLUICE_TLS_WIRE_H */
