#include "proxy/framing.h"

#include <stdint.h>

struct iovec framing_slice(struct span span)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)span.data, .iov_len = span.len};
}

int framing_add_piece(struct iovec *slices, int n_slices, char *chunk_head, struct span piece,
                      bool last)
{
    if (piece.len > 0) {
        if (chunk_head != NULL) {
            const size_t len = chunked_write_head(chunk_head, piece.len);
            slices[n_slices++] = framing_slice(span_of(chunk_head, len));
        }
        slices[n_slices++] = framing_slice(piece);
        if (chunk_head != NULL && !last) {
            slices[n_slices++] = framing_slice(SPAN("\r\n"));
        }
    }
    if (chunk_head != NULL && last) {
        slices[n_slices++] = framing_slice(piece.len > 0 ? SPAN("\r\n0\r\n\r\n") : CHUNKED_END);
    }
    return n_slices;
}

int framing_add_end(struct iovec *slices, int n_slices, char *chunk_head, struct span piece,
                    struct span trailers)
{
    if (trailers.len == 0) {
        return framing_add_piece(slices, n_slices, chunk_head, piece, true);
    }
    n_slices = framing_add_piece(slices, n_slices, chunk_head, piece, false);
    slices[n_slices++] = framing_slice(SPAN("0\r\n"));
    slices[n_slices++] = framing_slice(trailers);
    slices[n_slices++] = framing_slice(SPAN("\r\n"));
    return n_slices;
}
