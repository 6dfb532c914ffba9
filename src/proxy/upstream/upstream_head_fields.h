/* The head of a request, as HTTP/1.1 writes it, as fields of HTTP/2. */
#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_HEAD_FIELDS_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_HEAD_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/field.h"

/* Room for HEAD_FIELDS_MAX of a client and its binary fields, and for all that the proxy adds. */
enum { UPSTREAM_HEAD_FIELDS_MAX = 1024 };

struct upstream_head_fields {
    struct field fields[UPSTREAM_HEAD_FIELDS_MAX]; /* they point into the head */
    size_t n;
    uint16_t status;   /* of the answer, where the head cannot be sent: 400 or 431 */
    const char *fault; /* then: why; a static phrase */
    size_t n_more;     /* private: see below */
};

/* Fill @fields. Names become lower case in the memory of @head. ":authority" is its Host, or
 * @own_name without one. Each member of the list of a binary field (see grpc.h) is a field; those
 * beyond the first of each line are @n_more_max at most. No field is ever left out: the server
 * would take the request for another one. False: it is refused, and @fields say why. */
MUST_USE bool upstream_head_fields_read(struct upstream_head_fields *fields, struct span head,
                                        bool is_https, struct span own_name, size_t n_more_max);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_HEAD_FIELDS_H */
