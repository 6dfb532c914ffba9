#include "proxy/core/sender.h"

#include <assert.h>
#include <stdint.h>

bool sender_begin_head(struct sender *sender, struct pool *pool, struct text *head)
{
    assert(sender->head_block == NULL);
    sender->pool = pool;
    sender->head_block = pool_take(pool);
    *head = text_of(sender->head_block, sender->head_block == NULL ? 0 : pool->block_bytes);
    return sender->head_block != NULL;
}

void sender_drop_head(struct sender *sender)
{
    pool_give(sender->pool, sender->head_block);
    sender->head_block = NULL;
}

/* The cast drops const because iovec has none; writev() does not modify the bytes. */
static struct iovec slice_of(struct span span)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)span.data, .iov_len = span.len};
}

/* Append those of the pieces that are not empty. */
static int add_pieces(struct iovec *slices, int n_slices, const struct span *pieces, int n_pieces)
{
    for (int i = 0; i < n_pieces; i++) {
        if (pieces[i].len > 0) {
            slices[n_slices++] = slice_of(pieces[i]);
        }
    }
    return n_slices;
}

int sender_frame(struct iovec *slices, int n_slices, char *chunk_head, const struct span *pieces,
                 int n_pieces, bool last, struct span trailers)
{
    const bool has_trailers = last && trailers.len > 0;
    size_t n_bytes = 0;
    if (chunk_head == NULL) {
        return add_pieces(slices, n_slices, pieces, n_pieces);
    }
    for (int i = 0; i < n_pieces; i++) {
        n_bytes += pieces[i].len;
    }
    if (n_bytes > 0) {
        const size_t len = chunked_write_head(chunk_head, n_bytes);
        slices[n_slices++] = slice_of(span_of(chunk_head, len));
        n_slices = add_pieces(slices, n_slices, pieces, n_pieces);
        if (!last || has_trailers) {
            slices[n_slices++] = slice_of(SPAN("\r\n"));
        }
    }
    if (has_trailers) {
        slices[n_slices++] = slice_of(SPAN("0\r\n"));
        slices[n_slices++] = slice_of(trailers);
        slices[n_slices++] = slice_of(SPAN("\r\n"));
    } else if (last) {
        slices[n_slices++] = slice_of(n_bytes > 0 ? SPAN("\r\n0\r\n\r\n") : CHUNKED_END);
    }
    return n_slices;
}

/* Keep the head's block only while the write is blocked. */
static enum stream_result after_write(struct sender *sender, enum stream_result result)
{
    if (result != STREAM_BLOCKED) {
        sender_drop_head(sender);
    }
    return result;
}

enum stream_result sender_write(struct sender *sender, struct span head, const struct span *pieces,
                                int n_pieces, bool last, struct span trailers)
{
    assert(n_pieces <= SENDER_PIECES_MAX && (trailers.len == 0 || n_pieces <= 1));

    struct iovec slices[STREAM_SLICES_MAX];
    int n = 0;
    if (head.len > 0) {
        slices[n++] = slice_of(head);
    }
    n = sender_frame(slices, n, sender->is_chunked ? sender->chunk_head : NULL, pieces, n_pieces,
                     last, trailers);
    return n == 0 ? STREAM_DONE : after_write(sender, stream_write(sender->stream, slices, n));
}

enum stream_result sender_post(struct sender *sender, struct outbox *outbox, struct span message)
{
    const struct iovec slice = slice_of(message);
    const enum stream_result result = outbox_write(outbox, sender->stream, &slice, 1);
    return after_write(sender, result) == STREAM_BLOCKED ? STREAM_DONE : STREAM_BROKEN;
}
