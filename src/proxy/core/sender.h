/* The output side of a stream: a head from a borrowed block, and pieces of a body, framed for the
 * wire. Used for clients and servers: the mirror of an inbox. */

#ifndef SLUICE_PROXY_CORE_SENDER_H
#define SLUICE_PROXY_CORE_SENDER_H

#include <stdbool.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "http/chunked.h"
#include "net/outbox.h"
#include "net/stream.h"

/* Pieces of a body in one write, if no trailers follow: with a head and a chunk's framing they fill
 * the stream's slices. */
enum { SENDER_PIECES_MAX = STREAM_SLICES_MAX - 3 };

struct sender {
    struct stream *stream; /* borrowed */
    struct pool *pool;     /* of head_block */
    char *head_block;      /* a head, until the kernel has it; NULL otherwise */
    bool is_chunked;       /* the body is sent chunked */
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
};

/* Begin a head: *head covers a whole block of @pool. False: no memory. */
MUST_USE bool sender_begin_head(struct sender *sender, struct pool *pool, struct text *head);

/* The head has been sent, or will not be: return its block. */
void sender_drop_head(struct sender *sender);

/* Send @head, if it is not empty, and @n_pieces of the body, at most SENDER_PIECES_MAX, or 1 with
 * trailers; @last ends it. @trailers, whole field lines, follow the last piece of a chunked body.
 * Results as of stream_write(). With STREAM_BLOCKED the head's block, the pieces' bytes and
 * @trailers must stay until on_drained, then call sender_drop_head(). */
MUST_USE enum stream_result sender_write(struct sender *sender, struct span head,
                                         const struct span *pieces, int n_pieces, bool last,
                                         struct span trailers);

/* Send @message, which is in the head's block, as outbox_write() does: STREAM_DONE also if it waits
 * for room, or STREAM_BROKEN. Call sender_drop_head() on on_drained. */
MUST_USE enum stream_result sender_post(struct sender *sender, struct outbox *outbox,
                                        struct span message);

/* Append the @n_pieces at @pieces, framed as one, to the @n_slices at @slices: at most 5 more than
 * pieces. @chunk_head is the storage for their chunk line; NULL: the body is not chunked. Returns
 * the new number. */
int sender_frame(struct iovec *slices, int n_slices, char *chunk_head, const struct span *pieces,
                 int n_pieces, bool last, struct span trailers);

#endif /* SLUICE_PROXY_CORE_SENDER_H */
