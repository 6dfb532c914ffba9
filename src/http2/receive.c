/* From bytes to events. A frame is judged by its head before its payload is read (judge.c). Blocks
 * of heads go through nghttp2's decoder as they come. */

#include "http/grpc.h"
#include "http2/session_inner.h"
#include "http2/share.h"
#include "http2/windows.h"

enum {
    FIELD_UNITS = 5,                  /* of the abuse budget */
    DIGITS_MAX = 8,                   /* of grpc-timeout */
    MOST_FRAME_BYTES = (1 << 24) - 1, /* that a peer may say it takes */
    REFUSAL_US = 250000,              /* within which a server refuses what it does not begin */
};

/* --- heads --- */

/* The time that a gRPC client waits, "100m". False: there is none, or it is malformed. */
static bool read_grpc_timeout(const struct head *head, uint64_t *us)
{
    static const struct {
        char unit;
        uint64_t us;
        uint64_t per;
    } UNITS[] = {{'H', UINT64_C(3600000000), 1},
                 {'M', 60000000, 1},
                 {'S', 1000000, 1},
                 {'m', 1000, 1},
                 {'u', 1, 1},
                 {'n', 1, 1000}};
    const struct span value = head_find_only(head, SPAN("grpc-timeout"));
    uint64_t number;
    if (value.len == 0 || value.len > DIGITS_MAX + 1 ||
        !span_to_u64(span_of(value.data, value.len - 1), UINT64_MAX, &number)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        if (value.data[value.len - 1] == UNITS[i].unit) {
            *us = number * UNITS[i].us / UNITS[i].per;
            return true;
        }
    }
    return false;
}

/* Whether the head is that of a gRPC call which says how long its client waits. A time within which
 * a reset is an early one anyway is none. */
static bool read_deadline(const struct head *head, uint64_t *timeout_us)
{
    return grpc_is_call(head) && read_grpc_timeout(head, timeout_us) &&
           *timeout_us >= BUDGET_RESET_US;
}

static void find(struct http2_session *session, enum http2_event_kind kind,
                 struct http2_stream *stream, bool is_last)
{
    session->event = (struct http2_event){.kind = kind, .stream = stream, .is_last = is_last};
}

/* Reset @stream for a fault of the peer. */
static void fault(struct http2_session *session, struct http2_stream *stream, enum http2_abuse kind,
                  unsigned units)
{
    (void)session_close_stream(stream, FATE_IGNORED);
    session_reset_stream(session, stream->id, NGHTTP2_PROTOCOL_ERROR);
    budget_on_end(&session->budget, false);
    session_spend(session, kind, units);
    find(session, HTTP2_RESET, stream, true);
}

static void begin_stream(struct http2_session *session, int32_t id, bool is_last)
{
    const struct head *head = session->room->head;
    struct http2_stream *stream = session->room->stream;
    const uint64_t head_bytes = session->room->builder.counted;
    const bool is_repeated = head_bytes > session->block_bytes && !session->config.is_shared;
    uint64_t timeout_us;
    *stream = (struct http2_stream){
        .session = session,
        .id = id,
        .has_length = head->has_content_length,
        .body_left = head->content_length,
        .is_body_ended = is_last,
        .began_us = session->now_us,
        .repeated = is_repeated
                        ? budget_repeated(head_bytes - session->block_bytes, head->target.whole.len)
                        : 0,
    };
    session_add_stream(session, stream);
    if (read_deadline(head, &timeout_us)) {
        stream->has_deadline = true;
        stream->deadline_us = session->now_us + timeout_us;
    }
    find(session, HTTP2_HEAD, stream, is_last);
}

static void end_request_head(struct http2_session *session, int32_t id, bool is_last)
{
    struct http2_room *room = session->room;
    if (head_builder_end(&room->builder, !is_last, room->head) == HEAD_MALFORMED) {
        session_reset_stream(session, id, NGHTTP2_PROTOCOL_ERROR);
        session_spend(session, HTTP2_ABUSE_FIELD, FIELD_UNITS);
        find(session, HTTP2_MALFORMED, NULL, is_last);
    } else {
        begin_stream(session, id, is_last);
    }
}

/* The peer's side of @stream has ended. */
static void end_body(struct http2_stream *stream)
{
    stream->is_body_ended = true;
    windows_shrink(stream);
    if (stream->is_answered) {
        session_end_stream(stream);
    }
}

/* --- heads of answers --- */

static void end_answer_head(struct http2_session *session, struct http2_stream *stream,
                            bool is_last)
{
    struct http2_room *room = session->room;
    struct head *head = room->head;
    const enum built_head built =
        head_builder_end_response(&room->builder, !is_last, stream->is_answer_to_head, head);
    if (built == HEAD_MALFORMED) {
        fault(session, stream, HTTP2_ABUSE_FIELD, 0);
        session->event.kind = HTTP2_MALFORMED;
        return;
    }
    if (head->status >= 200) {
        stream->has_answer = true;
        stream->has_length = head->body != BODY_CHUNKED;
        stream->body_left = head->body == BODY_LENGTH ? head->content_length : 0;
    }
    find(session, HTTP2_HEAD, stream, is_last);
    if (is_last) {
        end_body(stream);
    }
}

static void end_trailers(struct http2_session *session, struct http2_stream *stream, bool is_last)
{
    struct http2_room *room = session->room;
    const enum built_head built = head_builder_end_trailers(&room->builder, room->head);
    if (built == HEAD_MALFORMED || !is_last || (stream->has_length && stream->body_left > 0)) {
        fault(session, stream, HTTP2_ABUSE_FIELD, FIELD_UNITS);
        return;
    }
    find(session, built == HEAD_BUILT ? HTTP2_TRAILERS : HTTP2_BAD_TRAILERS, stream, true);
    end_body(stream);
}

/* No stream is taken: the places are, or GOAWAY is due. */
static bool is_full(const struct http2_session *session)
{
    return session->is_last_goaway || session->n_streams >= session->config.streams_max;
}

/* The stream of DATA or of a block. NULL: it is not open, or of ours and its answer has ended. */
static struct http2_stream *find_open_stream(struct http2_session *session, int32_t id)
{
    return session->frame.is_ignored ? NULL : session_stream(session, id);
}

/* A stream that GOAWAY does not take. A client that had not read it yet has no more under way than
 * it may have open. */
static void begin_late_head(struct http2_session *session)
{
    if (session->n_late < session->config.streams_max) {
        session->n_late++;
    } else {
        session_spend(session, HTTP2_ABUSE_REFUSED, 1);
    }
}

/* A head of @id begins, whose prefix was read. */
static void begin_head(struct http2_session *session, int32_t id)
{
    struct http2_room *room = session->room;
    struct http2_stream *known = find_open_stream(session, id);
    session->building_id = id;
    session->is_building = known != NULL;
    session->is_late_block = session->is_client && known == NULL;
    if (session->is_client || known != NULL) {
        if (known != NULL && session->is_client && !known->has_answer) {
            known->has_heads = true;
            head_builder_begin_response(&room->builder);
        } else if (known != NULL) {
            head_builder_begin(&room->builder, true);
        }
        return;
    }
    if (session->frame.is_ignored) {
        return;
    }
    if (session->is_goaway_sent) {
        begin_late_head(session);
        return;
    }
    session->last_taken = id;
    if (is_full(session)) {
        session_reset_stream(session, id, NGHTTP2_REFUSED_STREAM);
        if (!session->is_last_goaway) {
            session_spend(session, HTTP2_ABUSE_REFUSED, 1);
        }
        return;
    }
    budget_on_stream(&session->budget);
    session->is_building = true;
    head_builder_begin(&room->builder, false);
}

static void end_head(struct http2_session *session, bool is_last)
{
    const int32_t id = session->building_id;
    if (!session->is_building) {
        return;
    }
    struct http2_stream *stream = session_stream(session, id);
    session->is_building = false;
    if (stream == NULL) {
        end_request_head(session, id, is_last);
    } else if (session->is_client && !stream->has_answer) {
        end_answer_head(session, stream, is_last);
    } else {
        end_trailers(session, stream, is_last);
    }
}

/* A part of a block. @is_end: nothing follows. */
static void read_block(struct http2_session *session, struct span part, bool is_end)
{
    const uint8_t *in = (const uint8_t *)part.data;
    size_t left = part.len;
    for (;;) {
        nghttp2_nv line;
        int flags = 0;
        const ssize_t n =
            nghttp2_hd_inflate_hd2(session->inflater, &line, &flags, in, left, is_end);
        if (n < 0) {
            if (n == NGHTTP2_ERR_NOMEM) {
                session_break(session);
            } else {
                session_fail(session, NGHTTP2_COMPRESSION_ERROR);
            }
            return;
        }
        in += n;
        left -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            if (session->is_building) {
                head_builder_add(&session->room->builder,
                                 span_of((const char *)line.name, line.namelen),
                                 span_of((const char *)line.value, line.valuelen));
            }
        } else if (left == 0) {
            break;
        }
    }
    if (is_end) {
        nghttp2_hd_inflate_end_headers(session->inflater);
    }
}

/* --- bodies --- */

/* Bytes of DATA came that nobody takes, or that are padding. */
static void drop_bytes(struct http2_session *session, size_t n)
{
    struct http2_stream *stream = find_open_stream(session, session->frame.stream_id);
    windows_return(session, (uint32_t)n);
    if (stream != NULL) {
        windows_return_of_stream(stream, (uint32_t)n);
    }
}

/* The begin of the content of DATA: the body fits in its length, and ends there. */
static bool judge_length(struct http2_session *session, struct http2_stream *stream)
{
    const uint64_t all = frame_content_bytes(&session->frame);
    const bool is_end = (session->frame.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!stream->has_length) {
        return true;
    }
    if (all > stream->body_left || (all < stream->body_left && is_end)) {
        fault(session, stream, HTTP2_ABUSE_FIELD, FIELD_UNITS);
        return false;
    }
    stream->body_left -= all;
    return true;
}

/* @is_begin: no content of the frame came before. */
static void read_data(struct http2_session *session, struct span part, bool is_begin)
{
    struct http2_stream *stream = find_open_stream(session, session->frame.stream_id);
    budget_on_data(&session->budget, part.len);
    if (stream == NULL) {
        windows_return(session, (uint32_t)part.len);
        return;
    }
    stream->untaken += part.len;
    if (session->is_client) {
        windows_return(session, (uint32_t)part.len);
        if (!stream->has_answer) {
            fault(session, stream, HTTP2_ABUSE_FIELD, 0);
            return;
        }
    } else if ((session->frame.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        windows_note_body(stream, (uint32_t)part.len);
    }
    if (!is_begin || judge_length(session, stream)) {
        find(session, HTTP2_BODY, stream, false);
        session->event.piece = part;
    }
}

static void end_data(struct http2_session *session)
{
    struct http2_stream *stream = find_open_stream(session, session->frame.stream_id);
    if (stream == NULL || (session->frame.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        return;
    }
    if ((stream->has_length && stream->body_left > 0) ||
        (session->is_client && !stream->has_answer)) {
        fault(session, stream, HTTP2_ABUSE_FIELD, FIELD_UNITS);
        return;
    }
    if (session->event.kind == HTTP2_NONE) {
        find(session, HTTP2_BODY, stream, true);
    }
    session->event.is_last = true;
    end_body(stream);
}

/* --- frames that are complete --- */

/* HAProxy says REFUSED_STREAM for all that ends without an answer, also when the server behind it
 * has worked on the request for long. */
static bool is_refused_at_once(const struct http2_stream *stream)
{
    const bool has_begun = stream->has_heads || stream->has_window;
    return stream->reset_code == NGHTTP2_REFUSED_STREAM && !has_begun &&
           stream->session->now_us - stream->began_us < REFUSAL_US;
}

static void on_reset(struct http2_session *session, int32_t id)
{
    struct http2_stream *stream = session_stream(session, id);
    if (stream != NULL) {
        stream->reset_code = read_u32(session->frame.payload);
        /* One too many was sent before the peer's SETTINGS came. */
        stream->is_unproven = stream->nth <= session->peer_streams_max;
        session_lose_stream(stream, is_refused_at_once(stream));
    } else if (session_is_idle(session, id)) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    }
}

static void apply_setting(struct http2_session *session, unsigned id, uint32_t value)
{
    uint32_t code = NGHTTP2_NO_ERROR;
    switch (id) {
    case NGHTTP2_SETTINGS_HEADER_TABLE_SIZE:
        hpack_encoder_resize(&session->encoder, value);
        break;
    case NGHTTP2_SETTINGS_ENABLE_PUSH:
        code = value > (session->is_client ? 0 : 1) ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
        break;
    case NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS:
        session->peer_streams_max = value;
        break;
    case NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE:
        session->peer_head_max = value;
        break;
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
        session->frame.stream_window = value;
        code = value > INT32_MAX ? NGHTTP2_FLOW_CONTROL_ERROR : NGHTTP2_NO_ERROR;
        break;
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE:
        code = value < FRAME_BYTES_MAX || value > MOST_FRAME_BYTES ? NGHTTP2_PROTOCOL_ERROR
                                                                   : NGHTTP2_NO_ERROR;
        break;
    case NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL:
    case NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES:
        code = value > 1 ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
        break;
    default:
        break;
    }
    if (code != NGHTTP2_NO_ERROR) {
        session_fail(session, code);
    }
}

/* The windows of all streams change by as much (RFC 9113 section 6.9.2). */
static void change_windows(struct http2_session *session, uint32_t window)
{
    const int64_t change = (int64_t)window - session->peer_stream_window;
    session->peer_stream_window = window;
    for (size_t i = 0; i < STREAM_BUCKETS; i++) {
        struct http2_stream *stream = session->streams[i];
        while (stream != NULL) {
            struct http2_stream *below = stream->below;
            stream->send_window += change;
            if (stream->send_window > INT32_MAX) {
                session_fault_stream(stream, NGHTTP2_FLOW_CONTROL_ERROR);
            } else {
                send_note_ready(stream);
            }
            stream = below;
        }
    }
}

static void on_settings(struct http2_session *session)
{
    if ((session->frame.flags & NGHTTP2_FLAG_ACK) != 0) {
        windows_on_settings_read(session);
        session->awaits_ack = false;
        return;
    }
    session->has_settings = true;
    budget_on_settings(&session->budget);
    queue_frame(session, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
    if (session->frame.stream_window >= 0) {
        change_windows(session, (uint32_t)session->frame.stream_window);
    }
}

/* Streams above @last_id were not begun by the peer. */
static void on_goaway(struct http2_session *session, int32_t last_id)
{
    session->is_refused = true;
    session->goaway_code = read_u32(session->frame.payload + 4);
    for (size_t i = 0; session->is_client && i < STREAM_BUCKETS; i++) {
        struct http2_stream *stream = session->streams[i];
        while (stream != NULL) {
            struct http2_stream *below = stream->below;
            if (stream->id > last_id) {
                session_lose_stream(stream, true);
            }
            stream = below;
        }
    }
}

/* The peer of a request takes its body. */
static void note_window(struct http2_session *session, struct http2_stream *stream)
{
    if (session->is_client && !stream->has_window) {
        stream->has_window = true;
        find(session, HTTP2_WINDOW, stream, false);
    }
}

static void on_window_update(struct http2_session *session, int32_t id, uint32_t increment)
{
    struct http2_stream *stream = id > 0 ? session_stream(session, id) : NULL;
    budget_on_window_update(&session->budget, increment);
    if (increment == 0 || (id > 0 && stream == NULL && session_is_idle(session, id))) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (id == 0) {
        session->send_window += increment;
        if (session->send_window > INT32_MAX) {
            session_fail(session, NGHTTP2_FLOW_CONTROL_ERROR);
        }
        share_on_update(session, increment);
    } else if (stream != NULL) {
        stream->send_window += increment;
        if (stream->send_window > INT32_MAX) {
            session_fault_stream(stream, NGHTTP2_FLOW_CONTROL_ERROR);
        } else {
            share_note_update(session, increment);
            send_note_ready(stream);
            note_window(session, stream);
        }
    }
}

static void on_ping(struct http2_session *session)
{
    const struct frame *frame = &session->frame;
    const bool is_ack = (frame->flags & NGHTTP2_FLAG_ACK) != 0;
    if (!is_ack) {
        queue_frame(session, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, frame->payload,
                    FRAME_CAPTURE_BYTES);
    }
    if (!is_ack || !session_take_pong(session, frame->payload)) {
        budget_on_ping(&session->budget);
    }
}

/* A frame is complete. */
static void settle(struct http2_session *session)
{
    struct frame *frame = &session->frame;
    struct budget *budget = &session->budget;
    const bool is_end = (frame->flags & NGHTTP2_FLAG_END_STREAM) != 0;
    frame->n_head = 0;
    switch (frame->type) {
    case NGHTTP2_DATA:
        if (frame_content_bytes(frame) == 0 && !is_end) {
            budget_spend(budget, HTTP2_ABUSE_EMPTY, 1);
        }
        end_data(session);
        break;
    case NGHTTP2_HEADERS:
        session->is_last_block = is_end;
        if (!session->is_in_block) {
            end_head(session, is_end);
        }
        return;
    case NGHTTP2_CONTINUATION:
        if (frame->length == 0) {
            budget_spend(budget, HTTP2_ABUSE_EMPTY, 1);
        }
        if (!session->is_in_block) {
            end_head(session, session->is_last_block);
        }
        break;
    case NGHTTP2_PRIORITY:
        budget_on_priority(budget);
        if ((read_u32(frame->payload) & INT32_MAX) == (uint32_t)frame->stream_id) {
            session_fail(session, NGHTTP2_PROTOCOL_ERROR); /* it depends on itself */
        }
        break;
    case NGHTTP2_RST_STREAM:
        on_reset(session, frame->stream_id);
        return;
    case NGHTTP2_SETTINGS:
        on_settings(session);
        break;
    case NGHTTP2_PING:
        on_ping(session);
        break;
    case NGHTTP2_GOAWAY:
        on_goaway(session, (int32_t)(read_u32(frame->payload) & INT32_MAX));
        return;
    case NGHTTP2_WINDOW_UPDATE:
        on_window_update(session, frame->stream_id, read_u32(frame->payload) & INT32_MAX);
        break;
    default:
        return;
    }
    session_heed_budget(session);
}

/* --- from bytes to frames --- */

static struct span take(struct span *bytes, size_t most)
{
    const struct span taken = span_of(bytes->data, bytes->len < most ? bytes->len : most);
    if (taken.len == 0) {
        return taken; /* there may be no memory to point into */
    }
    *bytes = span_of(bytes->data + taken.len, bytes->len - taken.len);
    return taken;
}

static void read_preface(struct http2_session *session, struct span *bytes)
{
    const struct span part = take(bytes, session->preface_left);
    const char *expected = HTTP2_PREFACE.data + HTTP2_PREFACE_BYTES - session->preface_left;
    session->preface_left = (uint8_t)(session->preface_left - part.len);
    if (memcmp(part.data, expected, part.len) != 0) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    }
}

static void read_head(struct http2_session *session, struct span *bytes)
{
    struct frame *frame = &session->frame;
    const struct span part = take(bytes, (size_t)FRAME_HEAD_BYTES - frame->n_head);
    memcpy(frame->head + frame->n_head, part.data, part.len);
    frame->n_head = (uint8_t)(frame->n_head + part.len);
    if (frame->n_head == FRAME_HEAD_BYTES) {
        session_judge(session);
    }
}

/* What stands before the content has come. */
static void on_prefix(struct http2_session *session)
{
    struct frame *frame = &session->frame;
    const bool is_padded = (frame->flags & NGHTTP2_FLAG_PADDED) != 0;
    const uint8_t *priority = frame->payload + is_padded;
    if (is_padded && frame->n_prefix > 0) {
        frame->n_behind = frame->payload[0];
    }
    if (frame->n_prefix + frame->n_behind > frame->length) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    } else if (frame->type == NGHTTP2_HEADERS && (frame->flags & NGHTTP2_FLAG_PRIORITY) != 0 &&
               (read_u32(priority) & INT32_MAX) == (uint32_t)frame->stream_id) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR); /* it depends on itself */
    } else if (frame->type == NGHTTP2_HEADERS) {
        begin_head(session, frame->stream_id);
    } else if (frame->type == NGHTTP2_DATA && frame->n_prefix > 0) {
        drop_bytes(session, frame->n_prefix);
    }
}

/* The payload that has come, of a frame without a prefix and content of its own. */
static void capture(struct http2_session *session, struct span part, size_t at)
{
    struct frame *frame = &session->frame;
    if (frame->type != NGHTTP2_SETTINGS) {
        for (size_t i = 0; i < part.len && at + i < FRAME_CAPTURE_BYTES; i++) {
            frame->payload[at + i] = (uint8_t)part.data[i];
        }
        return;
    }
    for (size_t i = 0; i < part.len && !session->is_terminated; i++) {
        const size_t place = (at + i) % SETTING_BYTES;
        frame->payload[place] = (uint8_t)part.data[i];
        if (place == SETTING_BYTES - 1) {
            apply_setting(session, (unsigned)frame->payload[0] << 8 | frame->payload[1],
                          read_u32(frame->payload + 2));
        }
    }
}

/* A part of the content of DATA, or of a block; maybe empty. */
static void read_content(struct http2_session *session, struct span part, size_t at)
{
    const struct frame *frame = &session->frame;
    const bool is_end = at + part.len == (size_t)frame->n_prefix + frame_content_bytes(frame);
    if (frame->type == NGHTTP2_DATA) {
        if (part.len > 0) {
            read_data(session, part, at == frame->n_prefix);
        }
    } else {
        read_block(session, part, is_end && (frame->flags & NGHTTP2_FLAG_END_HEADERS) != 0);
    }
}

/* The prefix, the content and the padding of DATA and blocks. */
static void read_parts(struct http2_session *session, struct span part, size_t at)
{
    struct frame *frame = &session->frame;
    const size_t n_prefix = frame->n_prefix;
    while (at < n_prefix && part.len > 0) {
        frame->payload[at++] = (uint8_t)*part.data;
        part = span_of(part.data + 1, part.len - 1);
        if (at == n_prefix) {
            on_prefix(session);
            frame->is_content_due = true;
        }
    }
    if (at < n_prefix || session->is_terminated) {
        return;
    }
    const size_t end = n_prefix + frame_content_bytes(frame);
    if (frame->is_content_due && (part.len > 0 || at == end)) {
        const size_t n = end - at < part.len ? end - at : part.len;
        const struct span content = span_of(part.data, n);
        frame->is_content_due = at + n < end;
        read_content(session, content, at);
        part = n > 0 ? span_of(part.data + n, part.len - n) : part;
    }
    if (part.len > 0 && frame->type == NGHTTP2_DATA && !session->is_terminated) {
        drop_bytes(session, part.len);
    }
}

/* Read what has come of the payload. */
static void read_payload(struct http2_session *session, struct span *bytes)
{
    struct frame *frame = &session->frame;
    const size_t at = frame->length - frame->left;
    const struct span part = take(bytes, frame->left);
    frame->left -= (uint32_t)part.len;
    if (frame->type == NGHTTP2_DATA || frame->type == NGHTTP2_HEADERS ||
        frame->type == NGHTTP2_CONTINUATION) {
        read_parts(session, part, at);
    } else {
        capture(session, part, at);
    }
    if (frame->left == 0 && !session->is_terminated && !session->is_broken) {
        settle(session);
    }
}

/* Whether a head on stream @id needs room. *@stream: the request of ours that it answers. */
static bool lacks_room(struct http2_session *session, int32_t id, struct http2_stream **stream)
{
    if (session->is_client) {
        *stream = find_open_stream(session, id);
        return *stream != NULL && session->room->stream != *stream;
    }
    return session->room->stream == NULL && !session->frame.is_ignored &&
           !(is_full(session) && session_stream(session, id) == NULL);
}

/* The head of a frame is judged. False: there is no room for what it begins. */
static bool begin_frame(struct http2_session *session, struct span *bytes)
{
    struct frame *frame = &session->frame;
    struct http2_stream *stream = NULL; /* of ours, whose head begins */
    if (frame->type == NGHTTP2_HEADERS && lacks_room(session, frame->stream_id, &stream)) {
        find(session, HTTP2_NEEDS_ROOM, stream, false);
        return false;
    }
    frame->is_judged = false;
    frame->is_content_due = frame->n_prefix == 0;
    if (frame->n_prefix > frame->length) {
        /* Without room for its own prefix: RFC 9113 sections 6.1 and 6.2. */
        session_fail(session,
                     frame->type == NGHTTP2_HEADERS && (frame->flags & NGHTTP2_FLAG_PRIORITY) != 0
                         ? NGHTTP2_FRAME_SIZE_ERROR
                         : NGHTTP2_PROTOCOL_ERROR);
        return true;
    }
    if (frame->n_prefix == 0) {
        on_prefix(session);
    }
    if (!session->is_terminated && (bytes->len > 0 || frame->left == 0)) {
        read_payload(session, bytes);
    }
    return true;
}

static bool find_ended(struct http2_session *session)
{
    if (list_is_empty(&session->ended)) {
        return false;
    }
    struct http2_stream *stream = CONTAINER_OF(session->ended.next, struct http2_stream, node);
    list_remove(&stream->node);
    find(session, HTTP2_RESET, stream, true);
    session->event.is_by_peer = stream->is_reset_by_peer;
    return true;
}

struct http2_event http2_session_read(struct http2_session *session, struct span *bytes,
                                      struct http2_room *room, uint64_t now_us)
{
    session->now_us = now_us;
    session->room = room;
    budget_refill(&session->budget, now_us);
    session->event = (struct http2_event){.kind = HTTP2_NONE};
    while (session->event.kind == HTTP2_NONE && !find_ended(session)) {
        if (session->is_broken || session->is_terminated) {
            (void)take(bytes, bytes->len);
            break;
        }
        if (session->frame.is_judged) {
            if (!begin_frame(session, bytes)) {
                break;
            }
        } else if (bytes->len == 0) {
            break;
        } else if (session->preface_left > 0) {
            read_preface(session, bytes);
        } else if (session->frame.n_head < FRAME_HEAD_BYTES) {
            read_head(session, bytes);
        } else {
            read_payload(session, bytes);
        }
    }
    return session->event;
}

bool http2_stream_is_reset_ahead(const struct http2_stream *stream, struct span ahead)
{
    if (!stream->is_body_ended || stream->session->frame.n_head > 0) {
        return false; /* padding of the head is still to come */
    }
    for (unsigned i = 0; i < HTTP2_FRAMES_AHEAD && ahead.len >= FRAME_HEAD_BYTES; i++) {
        const uint8_t *head = (const uint8_t *)ahead.data;
        const size_t length = read_u32(head) >> 8;
        const bool is_of_stream = (read_u32(head + 5) & INT32_MAX) == (uint32_t)stream->id;
        if (length > ahead.len - FRAME_HEAD_BYTES) {
            return false;
        }
        if (head[3] == NGHTTP2_RST_STREAM && is_of_stream) {
            return length == sizeof(uint32_t);
        }
        const size_t whole = FRAME_HEAD_BYTES + length;
        ahead = span_of(ahead.data + whole, ahead.len - whole);
    }
    return false;
}

bool http2_session_is_in_head(const struct http2_session *session)
{
    return session->is_in_block || (session->frame.n_head == FRAME_HEAD_BYTES &&
                                    (session->frame.type == NGHTTP2_HEADERS ||
                                     session->frame.type == NGHTTP2_CONTINUATION));
}
