/* Frames of a session other than DATA that wait to be packed. */

#ifndef SLUICE_HTTP2_FRAME_QUEUE_H
#define SLUICE_HTTP2_FRAME_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct http2_batch;
struct http2_fields;
struct http2_session;
struct http2_stream;

/* Frames that wait to be packed, one item behind the other: see queue.c. */
struct frame_queue {
    char *bytes;
    size_t begin, end, capacity;
    size_t n_before; /* bytes that were before @bytes, in all: places count from the first one */
    size_t n_gone;   /* of the first item: bytes that are packed */
};

/* Queue a frame. On no memory the session is broken. */
void queue_frame(struct http2_session *session, unsigned type, unsigned flags, int32_t id,
                 const void *payload, size_t len);

/* The first bytes of a client. */
void queue_preface(struct http2_session *session);

/* Lines of a head, or of trailers: those that are hop_by_hop are left out. */
struct head_lines {
    struct span status; /* of an answer, before the others; empty: none */
    const struct http2_fields *lists;
    size_t n_lists;
    bool has_no_length; /* without Content-Length */
    bool is_interim;
    bool is_last; /* END_STREAM */
};

/* Queue the frames of a head. @stream hears when they are packed (send_on_head_packed()), unless
 * the head is an interim one. False: no memory. */
bool queue_head(struct http2_stream *stream, const struct head_lines *lines);

/* What is queued of @stream is not sent. False: it is, since later heads build on it, or since its
 * begin is sent; or nothing is queued. */
bool queue_withdraw(struct http2_stream *stream);

/* Whether frames are to be packed. */
static inline bool queue_has_frames(const struct frame_queue *queue)
{
    return queue->begin < queue->end;
}

/* Move frames to @batch. True: none are left. */
bool queue_pack(struct http2_session *session, struct http2_batch *batch);

#endif /* SLUICE_HTTP2_FRAME_QUEUE_H */
