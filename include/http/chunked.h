/* The chunked transfer coding, decoding and encoding. The decoder is strict: extensions are limited
 * in length and dropped; trailers are limited, checked, and dropped unless the caller wants them.
 *
 * Source: RFC 9112 section 7.1. */

#ifndef SLUICE_HTTP_CHUNKED_H
#define SLUICE_HTTP_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"

struct chunked_decoder {
    int state;           /* private */
    uint64_t chunk_left; /* bytes of the chunk still to come */
    uint32_t line_bytes; /* of the chunk line, or of the trailer line, so far */
    uint32_t ext_bytes;  /* extensions of the body so far */
    uint32_t trailer_bytes;
    uint32_t n_digits; /* of the chunk size */
    /* the caller's, of TRAILER_BYTES_MAX: gets the trailer section, trailer_bytes long when done;
     * NULL: trailers are dropped */
    char *trailers;
};

void chunked_decoder_init(struct chunked_decoder *decoder);

/* Decode @data in place. *content is the decoded content, one run within @data (separate chunks are
 * moved together). *consumed is the number of bytes used: all of @data, unless the body ended.
 * PARSE_DONE: the body has ended, trailers included. PARSE_PARTIAL: more data is needed. PARSE_BAD:
 * see *error; content before the fault is dropped. The content does not depend on how the input is
 * split. */
MUST_USE enum parse_result chunked_decode(struct chunked_decoder *decoder, char *data, size_t len,
                                          struct span *content, size_t *consumed,
                                          struct http_error *error);

enum { CHUNK_HEAD_BYTES_MAX = 18 };

/* Write the chunk line of a chunk of @content_bytes (>= 1) into @buffer; returns its length. The
 * chunk ends with CR LF, the body with CHUNKED_END. */
size_t chunked_write_head(char buffer[CHUNK_HEAD_BYTES_MAX], uint64_t content_bytes);

#define CHUNKED_END SPAN("0\r\n\r\n")

#endif /* SLUICE_HTTP_CHUNKED_H */
