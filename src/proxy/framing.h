/* Pieces of a body as slices for stream_write(), framed for the wire. The same for both sides. */

#ifndef SLUICE_PROXY_FRAMING_H
#define SLUICE_PROXY_FRAMING_H

#include <stdbool.h>
#include <sys/uio.h>

#include "base/span.h"
#include "http/chunked.h"

/* iovec has no const, writev() does not write there. */
struct iovec framing_slice(struct span span);

/* Append @piece to the @n_slices at @slices; @chunk_head: the storage for its chunk line, which
 * stays until the slices are written, or NULL when the body is not chunked. @last ends the body. At
 * most 4 are added; returns how many there are. */
int framing_add_piece(struct iovec *slices, int n_slices, char *chunk_head, struct span piece,
                      bool last);

/* The same for the last piece of a chunked body, with @trailers, whole field lines, behind
 * it. At most 6 are added. */
int framing_add_end(struct iovec *slices, int n_slices, char *chunk_head, struct span piece,
                    struct span trailers);

#endif /* SLUICE_PROXY_FRAMING_H */
