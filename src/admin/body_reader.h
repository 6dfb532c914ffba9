/* The body of one request to the admin API: its framing and its bound. */

#ifndef SLUICE_ADMIN_BODY_READER_H
#define SLUICE_ADMIN_BODY_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/chunked.h"
#include "http/head.h"

struct body_reader {
    enum body_kind kind;
    uint64_t left; /* BODY_LENGTH */
    struct chunked_decoder decoder;
    uint64_t bytes;     /* of content, so far */
    uint64_t bytes_max; /* of content */
};

/* Begin the body of @head. False: it is known to be longer than @bytes_max. */
MUST_USE bool body_reader_begin(struct body_reader *reader, const struct head *head,
                                uint64_t bytes_max);

/* Read the content of @data, in place. *content is within it; *consumed bytes of it were used, all
 * unless the body ended. PARSE_DONE: the body has ended. PARSE_PARTIAL: more is needed. PARSE_BAD:
 * see *error; 413 where there is more than bytes_max. */
MUST_USE enum parse_result body_reader_take(struct body_reader *reader, struct span data,
                                            struct span *content, size_t *consumed,
                                            struct http_error *error);

#endif /* SLUICE_ADMIN_BODY_READER_H */
