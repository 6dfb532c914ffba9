/* From answers to frames. Heads are encoded as they come (queue.c); of DATA the batch has the heads
 * of the frames, and slices of the pieces. */

#include <assert.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "http2/client_session.h"
#include "http2/session_inner.h"
#include "http2/share.h"
#include "http2/windows.h"

enum {
    COPIED_BYTES_MAX = 512, /* of a piece: a slice costs more than copying these */
    STATUS_BYTES = 3,
};

/* --- the batch --- */

/* Two slices, the head of a frame, and all other frames but heads. */
static bool has_room(const struct http2_batch *batch)
{
    return batch->n + 2 <= batch->n_max && batch->capacity - batch->used >= COPIED_BYTES_MAX;
}

static void add_slice(struct http2_batch *batch, const void *data, size_t len)
{
    struct iovec *last = batch->n > 0 ? &batch->slices[batch->n - 1] : NULL;
    if (last != NULL && (const char *)last->iov_base + last->iov_len == data) {
        last->iov_len += len;
    } else {
        /* iov_base is written to by readv() alone. */
        batch->slices[batch->n++] = (struct iovec){(void *)(uintptr_t)data, len};
    }
}

void batch_add_copy(struct http2_batch *batch, const void *data, size_t len)
{
    char *at = batch->bytes + batch->used;
    memcpy(at, data, len);
    batch->used += len;
    add_slice(batch, at, len);
}

/* --- heads --- */

bool http2_stream_send_head(struct http2_stream *stream, uint16_t status,
                            const struct http2_fields *lists, size_t n_lists, bool is_last)
{
    const bool is_interim = status < 200;
    const char digits[STATUS_BYTES] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
                                       (char)('0' + status % 10)};
    const struct head_lines lines = {
        .status = span_of(digits, sizeof(digits)),
        .lists = lists,
        .n_lists = n_lists,
        .has_no_length = is_interim || status == 204,
        .is_interim = is_interim,
        .is_last = is_last,
    };
    if (stream->is_closed) {
        return !stream->session->is_broken;
    }
    stream->is_head_sent = stream->is_head_sent || !is_interim;
    return queue_head(stream, &lines);
}

/* They go behind the body. */
static void send_trailers(struct http2_stream *stream)
{
    const struct http2_fields list = {stream->trailers, stream->n_trailers};
    const struct head_lines lines = {.lists = &list, .n_lists = 1, .is_last = true};
    (void)queue_head(stream, &lines); /* else the session is broken */
}

/* Our side has ended. */
static void end(struct http2_stream *stream)
{
    struct http2_session *session = stream->session;
    stream->is_answered = true;
    list_remove(&stream->node);
    list_push_back(&session->sent, &stream->node);
    if (stream->is_body_ended) {
        session_end_stream(stream);
    }
}

void send_on_head_packed(struct http2_stream *stream, bool is_last)
{
    struct http2_session *session = stream->session;
    if (session->is_client && !stream->is_opened) {
        session_begin_stream(session, stream->id);
        stream->began_us = session->now_us;
    }
    stream->is_opened = true;
    if (is_last) {
        end(stream);
    }
}

/* --- bodies --- */

static bool has_bytes(const struct http2_stream *stream)
{
    return stream->piece.len > 0 || stream->is_last;
}

void send_note_ready(struct http2_stream *stream)
{
    if (!stream->is_closed && !stream->is_answered && has_bytes(stream) &&
        (stream->send_window > 0 || stream->piece.len == 0) && list_is_empty(&stream->ready)) {
        list_push_back(&stream->session->ready, &stream->ready);
    }
}

void http2_stream_send(struct http2_stream *stream, struct span piece, bool is_last,
                       const struct http2_fields *trailers)
{
    assert(stream->piece.len == 0 && !stream->is_last && (piece.len > 0 || is_last));
    stream->piece = piece;
    stream->is_last = is_last;
    stream->trailers = trailers != NULL ? trailers->fields : NULL;
    stream->n_trailers = trailers != NULL ? trailers->n : 0;
    send_note_ready(stream);
}

static void pack_data(struct http2_stream *stream, struct http2_batch *batch, size_t len)
{
    char head[FRAME_HEAD_BYTES];
    const bool is_end = stream->is_last && len == stream->piece.len && stream->n_trailers == 0;
    write_frame_head(head, len, NGHTTP2_DATA, is_end ? (unsigned)NGHTTP2_FLAG_END_STREAM : 0U,
                     stream->id);
    batch_add_copy(batch, head, sizeof(head));
    if (len > 0 && len <= COPIED_BYTES_MAX && len <= batch->capacity - batch->used) {
        batch_add_copy(batch, stream->piece.data, len);
    } else if (len > 0) {
        add_slice(batch, stream->piece.data, len);
    }
    if (UNLIKELY(len < HTTP2_SMALL_BYTES) && !is_end && stream->session->is_client) {
        stream->small_us = stream->session->now_us;
    }
    stream->send_window -= (int64_t)len;
    stream->session->send_window -= (int64_t)len;
    budget_on_data_sent(&stream->session->budget, len);
    stream->piece = span_of(stream->piece.data + len, stream->piece.len - len);
}

/* The next frame of the stream whose turn it is. */
static void pack_stream(struct http2_session *session, struct http2_batch *batch)
{
    struct http2_stream *stream = CONTAINER_OF(session->ready.next, struct http2_stream, ready);
    const size_t len = stream->piece.len > 0 ? share_of_window(stream) : 0;
    list_remove(&stream->ready);
    if (len == 0 && stream->piece.len > 0) {
        return;
    }
    if (stream->piece.len > 0 || stream->n_trailers == 0) {
        pack_data(stream, batch, len);
    }
    if (stream->piece.len > 0) {
        send_note_ready(stream);
    } else if (stream->n_trailers > 0) {
        send_trailers(stream);
    } else if (stream->is_last) {
        end(stream);
    } else {
        list_remove(&stream->node);
        list_push_back(&session->sent, &stream->node);
    }
}

/* Whether a piece can be packed: the connection's window is open, or the piece is empty. */
static bool may_pack_data(const struct http2_session *session)
{
    if (list_is_empty(&session->ready) || session->is_terminated) {
        return false;
    }
    const struct http2_stream *next = CONTAINER_OF(session->ready.next, struct http2_stream, ready);
    return session->send_window > 0 || next->piece.len == 0;
}

bool http2_session_pack(struct http2_session *session, struct http2_batch *batch, uint64_t now_us)
{
    session->now_us = now_us;
    budget_refill(&session->budget, now_us);
    share_note_window(session);
    share_on_time(session);
    batch->n = 0;
    batch->used = 0;
    assert(has_room(batch));
    while (!session->is_broken && has_room(batch)) {
        if (queue_has_frames(&session->queue)) {
            if (!queue_pack(session, batch)) {
                break;
            }
        } else if (may_pack_data(session)) {
            pack_stream(session, batch);
        } else {
            break;
        }
    }
    share_note_window(session);
    return !session->is_broken;
}

struct http2_stream *http2_session_next_sent(struct http2_session *session)
{
    if (list_is_empty(&session->sent)) {
        return NULL;
    }
    struct http2_stream *stream = CONTAINER_OF(session->sent.next, struct http2_stream, node);
    list_remove(&stream->node);
    return stream;
}

/* --- the end of a stream, and its windows --- */

size_t http2_stream_window(const struct http2_stream *stream)
{
    const int64_t own = stream->send_window;
    const int64_t shared = stream->session->send_window;
    const int64_t window = own < shared ? own : shared;
    return window > 0 ? (size_t)window : 0;
}

void http2_stream_took(struct http2_stream *stream, size_t n)
{
    struct http2_session *session = stream->session;
    assert(n <= stream->untaken);
    stream->untaken -= n;
    if (!session->is_client) {
        windows_return(session, (uint32_t)n);
        windows_shrink(stream);
    }
    windows_return_of_stream(stream, (uint32_t)n);
}

/* The owner no longer has @stream. */
static void forget(struct http2_session *session, struct http2_stream *stream)
{
    session->n_streams--;
    list_remove(&stream->node);
    if (session->is_building && session->building_id == stream->id) {
        session->is_building = false; /* the room is gone */
    }
    if (stream->untaken > 0 && !session->is_client) {
        windows_return(session, (uint32_t)stream->untaken);
    }
    stream->untaken = 0;
    stream->is_body_ended = true;
    windows_shrink(stream);
    stream->session = NULL;
}

void http2_stream_release(struct http2_stream *stream)
{
    struct http2_session *session = stream->session;
    if (stream->is_closed) {
        forget(session, stream);
        return;
    }
    const bool is_left_out = session_close_stream(stream, FATE_IGNORED);
    forget(session, stream);
    if (!session->is_client) {
        session_reset_stream(session, stream->id,
                             stream->is_answered          ? NGHTTP2_NO_ERROR
                             : stream->is_client_at_fault ? NGHTTP2_ENHANCE_YOUR_CALM
                                                          : NGHTTP2_INTERNAL_ERROR);
        session_settle_stream(session, stream, stream->is_answered);
    } else if (stream->is_opened || !is_left_out) {
        session_begin_stream(session, stream->id);
        session_reset_stream(session, stream->id, NGHTTP2_CANCEL);
    }
}

void http2_stream_drop(struct http2_stream *stream)
{
    assert(stream->session->is_client && stream->is_opened);
    if (!stream->is_closed) {
        (void)session_close_stream(stream, FATE_IGNORED);
    }
    forget(stream->session, stream);
}

void http2_stream_refuse(struct http2_stream *stream)
{
    struct http2_session *session = stream->session;
    (void)session_close_stream(stream, FATE_IGNORED);
    forget(session, stream);
    session_reset_stream(session, stream->id, NGHTTP2_REFUSED_STREAM);
}
