/* The chunked transfer coding, both ways. Strict: extensions are bounded and dropped, trailers are
 * bounded, checked, and dropped unless somebody wants them.
 *
 * Our own and not llhttp's: llhttp 8 tells nothing of extensions and takes any byte in them, a bare
 * LF too.
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
    uint64_t chunk_left; /* bytes of the chunk not seen yet */
    uint32_t line_bytes; /* of the chunk line, or of the trailer line, so far */
    uint32_t ext_bytes;  /* extensions of the body so far */
    uint32_t trailer_bytes;
    uint32_t n_digits; /* of the chunk size */
    char
        *trailers; /* the caller's: where the trailer section goes as it comes, TRAILER_BYTES_MAX at
                          most, trailer_bytes when done; NULL: it is dropped */
};

void chunked_decoder_init(struct chunked_decoder *decoder);

/* Decode what is in @data, in place. *content is the decoded bytes found, one run within @data
 * (chunks that lie apart are moved together); *consumed is how much of @data was used: all of it,
 * unless the body ended. PARSE_DONE: the body has ended, trailers included. PARSE_PARTIAL: more is
 * needed. PARSE_BAD: *error says why; content found before the fault is dropped. Content that comes
 * out byte by byte is the same. */
MUST_USE enum parse_result chunked_decode(struct chunked_decoder *decoder, char *data, size_t len,
                                          struct span *content, size_t *consumed,
                                          struct http_error *error);

enum { CHUNK_HEAD_BYTES_MAX = 18 };

/* Write the chunk line of a chunk of @content_bytes (>= 1) into @buffer; returns its bytes. The
 * chunk ends with CR LF, the body with CHUNKED_END. */
size_t chunked_write_head(char buffer[CHUNK_HEAD_BYTES_MAX], uint64_t content_bytes);

#define CHUNKED_END SPAN("0\r\n\r\n")

#endif /* SLUICE_HTTP_CHUNKED_H */
