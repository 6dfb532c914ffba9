/* Whether a frame may come now, by its head: its length, its stream and what became of that, the
 * block that is under way, the windows. What may not ends the connection. */

#include "http2/session_inner.h"

enum {
    PRIORITY_BYTES = 5,
    GOAWAY_BYTES = 8,
    WORD_BYTES = 4, /* RST_STREAM, WINDOW_UPDATE */
};

bool session_is_idle(const struct http2_session *session, int32_t id)
{
    return id % 2 == 0 || id > session->last_id;
}

/* An answer may be on its way when its request is over, and gRPC's C core sends some twice. Many
 * clients share the connection, so what comes late is dropped, and is no fault unless it is more
 * than the requests that were sent may bring. An empty frame costs as its head does. */
static void judge_late(struct http2_session *session, const struct frame *frame)
{
    const uint32_t n_bytes = FRAME_HEAD_BYTES + frame->length;
    if (n_bytes > session->late_left) {
        session_fail(session, NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
        session->late_left -= n_bytes;
    }
}

/* The stream of DATA or HEADERS. NULL: it is not open, or of ours and its answer has ended. */
static struct http2_stream *stream_of(struct http2_session *session, int32_t id)
{
    struct http2_stream *stream = session_stream(session, id);
    return stream != NULL && session->is_client && stream->is_body_ended ? NULL : stream;
}

/* DATA or HEADERS of a stream that is not open. */
static void judge_closed(struct http2_session *session, struct frame *frame)
{
    const int32_t id = frame->stream_id;
    frame->is_ignored = true;
    if (session_is_idle(session, id)) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (session->is_client) {
        judge_late(session, frame);
        return;
    }
    switch (session_fate(session, id)) {
    case FATE_IGNORED:
        break;
    case FATE_FORGOTTEN:
        if (frame->type == NGHTTP2_HEADERS) {
            session_fail(session, NGHTTP2_PROTOCOL_ERROR);
        }
        break;
    case FATE_UNUSED:
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
        break;
    case FATE_ENDED:
        session_fail(session, NGHTTP2_STREAM_CLOSED);
        break;
    }
}

static void judge_data(struct http2_session *session, struct frame *frame)
{
    struct http2_stream *stream = stream_of(session, frame->stream_id);
    if (stream == NULL) {
        judge_closed(session, frame);
    } else if (stream->is_body_ended) {
        session_fail(session, NGHTTP2_STREAM_CLOSED);
    } else if (session->is_client && !stream->has_heads) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    }
    if (session->is_terminated) {
        return;
    }
    if ((int64_t)frame->length > session->receive_window ||
        (stream != NULL && (int64_t)frame->length > stream->receive_window)) {
        session_fail(session, NGHTTP2_FLOW_CONTROL_ERROR);
        return;
    }
    session->receive_window -= frame->length;
    if (stream != NULL) {
        stream->receive_window -= frame->length;
    }
    frame->n_prefix = (frame->flags & NGHTTP2_FLAG_PADDED) != 0;
}

static void judge_headers(struct http2_session *session, struct frame *frame)
{
    const int32_t id = frame->stream_id;
    const struct http2_stream *stream = stream_of(session, id);
    if (stream != NULL) {
        if (stream->is_body_ended) {
            session_fail(session, NGHTTP2_STREAM_CLOSED);
        }
    } else if (!session->is_client && id % 2 == 1 && id > session->last_id) {
        session_begin_stream(session, id);
    } else {
        judge_closed(session, frame);
    }
    session->is_in_block = (frame->flags & NGHTTP2_FLAG_END_HEADERS) == 0;
    session->n_continuations = 0;
    session->block_bytes = frame->length;
    frame->n_prefix = (uint8_t)(((frame->flags & NGHTTP2_FLAG_PADDED) != 0 ? 1 : 0) +
                                ((frame->flags & NGHTTP2_FLAG_PRIORITY) != 0 ? PRIORITY_BYTES : 0));
}

static void judge_continuation(struct http2_session *session, const struct frame *frame)
{
    if (!session->is_in_block || frame->stream_id != session->building_id) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (++session->n_continuations > session->continuations_max) {
        session_fail(session, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    if (session->is_late_block) {
        judge_late(session, frame);
    }
    session->block_bytes += frame->length;
    session->is_in_block = (frame->flags & NGHTTP2_FLAG_END_HEADERS) == 0;
}

/* Where a frame may stand, and how long it is. */
enum place { ON_ANY, ON_STREAM, ON_CONNECTION };

static void judge_fixed(struct http2_session *session, const struct frame *frame, enum place place,
                        uint32_t length)
{
    if ((place == ON_STREAM && frame->stream_id == 0) ||
        (place == ON_CONNECTION && frame->stream_id != 0)) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (frame->length != length) {
        session_fail(session, NGHTTP2_FRAME_SIZE_ERROR);
    }
}

static void judge_settings(struct http2_session *session, const struct frame *frame)
{
    const bool is_ack = (frame->flags & NGHTTP2_FLAG_ACK) != 0;
    if (frame->stream_id != 0) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (frame->length % SETTING_BYTES != 0 || (is_ack && frame->length > 0)) {
        session_fail(session, NGHTTP2_FRAME_SIZE_ERROR);
    } else if (is_ack && !session->awaits_ack) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (!session->has_settings) {
        session->peer_streams_max = UINT32_MAX; /* unless they say otherwise */
    }
}

static void judge_kind(struct http2_session *session, struct frame *frame)
{
    switch (frame->type) {
    case NGHTTP2_DATA:
        judge_data(session, frame);
        break;
    case NGHTTP2_HEADERS:
        judge_headers(session, frame);
        break;
    case NGHTTP2_PRIORITY:
        judge_fixed(session, frame, ON_STREAM, PRIORITY_BYTES);
        break;
    case NGHTTP2_RST_STREAM:
        judge_fixed(session, frame, ON_STREAM, WORD_BYTES);
        break;
    case NGHTTP2_SETTINGS:
        judge_settings(session, frame);
        break;
    case NGHTTP2_PUSH_PROMISE: /* they are off, and clients make none */
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
        break;
    case NGHTTP2_PING:
        judge_fixed(session, frame, ON_CONNECTION, FRAME_CAPTURE_BYTES);
        break;
    case NGHTTP2_GOAWAY:
        judge_fixed(session, frame, ON_CONNECTION,
                    frame->length < GOAWAY_BYTES ? GOAWAY_BYTES : frame->length);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        judge_fixed(session, frame, ON_ANY, WORD_BYTES);
        break;
    case NGHTTP2_CONTINUATION:
        judge_continuation(session, frame);
        break;
    default:
        break;
    }
}

void session_judge(struct http2_session *session)
{
    struct frame *frame = &session->frame;
    frame->length = read_u32(frame->head) >> 8;
    frame->left = frame->length;
    frame->type = frame->head[3];
    frame->flags = frame->head[4];
    frame->stream_id = (int32_t)(read_u32(frame->head + 5) & INT32_MAX);
    frame->n_prefix = 0;
    frame->n_behind = 0;
    frame->stream_window = -1;
    frame->is_ignored = false;
    frame->is_judged = true;
    if (frame->length > FRAME_BYTES_MAX) {
        session_fail(session, NGHTTP2_FRAME_SIZE_ERROR);
    } else if ((!session->has_settings &&
                (frame->type != NGHTTP2_SETTINGS || (frame->flags & NGHTTP2_FLAG_ACK) != 0)) ||
               (session->is_in_block && frame->type != NGHTTP2_CONTINUATION)) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else {
        judge_kind(session, frame);
    }
}
