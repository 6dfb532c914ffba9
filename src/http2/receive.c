/* From bytes to events. Each frame is judged by its head before nghttp2 gets it: nghttp2 passes
 * over frames on streams that are closed, which end the connection here (RFC 9113 section 5.1). */

#include "http/grpc.h"
#include "http2/session_inner.h"

enum {
    FAULT_UNITS = 2, /* of the abuse budget */
    FIELD_UNITS = 5,
    DIGITS_MAX = 8, /* of grpc-timeout */
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
    stream->is_closed = true;
    nghttp2_session_set_stream_user_data(session->nghttp2, stream->id, NULL);
    session_reset_stream(session, stream->id, NGHTTP2_PROTOCOL_ERROR);
    budget_on_end(&session->budget, false);
    session_spend(session, kind, units);
    find(session, HTTP2_RESET, stream, true);
}

static void begin_stream(struct http2_session *session, int32_t id, bool is_last)
{
    const struct head *head = session->room->head;
    struct http2_stream *stream = session->room->stream;
    uint64_t timeout_us;
    *stream = (struct http2_stream){
        .session = session,
        .id = id,
        .has_length = head->has_content_length,
        .body_left = head->content_length,
        .is_body_ended = is_last,
        .began_us = session->now_us,
    };
    list_init(&stream->node);
    if (read_deadline(head, &timeout_us)) {
        stream->has_deadline = true;
        stream->deadline_us = session->now_us + timeout_us;
    }
    session->n_streams++;
    nghttp2_session_set_stream_user_data(session->nghttp2, id, stream);
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
        stream->is_body_ended = is_last;
    }
    find(session, HTTP2_HEAD, stream, is_last);
}

static void end_trailers(struct http2_session *session, struct http2_stream *stream, bool is_last)
{
    struct http2_room *room = session->room;
    const enum built_head built = head_builder_end_trailers(&room->builder, room->head);
    if (built == HEAD_MALFORMED || !is_last || (stream->has_length && stream->body_left > 0)) {
        fault(session, stream, HTTP2_ABUSE_FIELD, FIELD_UNITS);
        return;
    }
    stream->is_body_ended = true;
    find(session, built == HEAD_BUILT ? HTTP2_TRAILERS : HTTP2_BAD_TRAILERS, stream, true);
}

/* No stream is taken: the places are, or GOAWAY is due. */
static bool is_full(const struct http2_session *session)
{
    return session->is_last_goaway || session->n_streams >= session->config.streams_max;
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user)
{
    static const nghttp2_extpri IN_TURN = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    struct http2_session *session = user;
    const int32_t id = frame->hd.stream_id;
    const bool is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    const struct http2_stream *known = session_stream(session, id);
    session->is_building = is_request || known != NULL;
    session->building_id = id;
    if (session->is_client) {
        if (known != NULL && !known->has_answer) {
            head_builder_begin_response(&session->room->builder);
        } else if (known != NULL) {
            head_builder_begin(&session->room->builder, true);
        }
        return 0;
    }
    if (is_request && is_full(session)) {
        session->is_building = false;
        session_reset_stream(session, id, NGHTTP2_REFUSED_STREAM);
        if (!session->is_last_goaway) {
            session_spend(session, HTTP2_ABUSE_REFUSED, 1);
        }
    } else if (is_request) {
        budget_on_stream(&session->budget);
        session_check(session,
                      nghttp2_session_change_extpri_stream_priority(nghttp2, id, &IN_TURN, 1));
    }
    if (session->is_building) {
        head_builder_begin(&session->room->builder, !is_request);
    }
    return 0;
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct http2_session *session = user;
    (void)nghttp2, (void)frame, (void)flags;
    if (session->is_building) {
        head_builder_add(&session->room->builder, span_of((const char *)name, name_len),
                         span_of((const char *)value, value_len));
    }
    return 0;
}

static void on_headers(struct http2_session *session, const nghttp2_frame *frame)
{
    const int32_t id = frame->hd.stream_id;
    const bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!session->is_building) {
        return;
    }
    struct http2_stream *stream = session_stream(session, id);
    session->is_building = false;
    if (session->is_client && !stream->has_answer) {
        end_answer_head(session, stream, is_last);
    } else if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        end_request_head(session, id, is_last);
    } else {
        end_trailers(session, stream, is_last);
    }
}

/* --- bodies --- */

/* Of DATA, without padding. */
static uint64_t frame_data_bytes(const struct frame *frame)
{
    const uint32_t padding = (frame->flags & NGHTTP2_FLAG_PADDED) != 0 ? 1U + frame->payload[0] : 0;
    return frame->length - padding; /* nghttp2 has refused more padding */
}

static int on_data_chunk(nghttp2_session *nghttp2, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t len, void *user)
{
    struct http2_session *session = user;
    struct http2_stream *stream = session_stream(session, id);
    session->frame.n_data += len;
    budget_on_data(&session->budget, len);
    if (stream == NULL) {
        session_check(session, nghttp2_session_consume(nghttp2, id, len));
        return 0;
    }
    stream->untaken += len;
    session_note_window(session);
    if (session->is_client) {
        session_check(session, nghttp2_session_consume_connection(nghttp2, len));
        if (!stream->has_answer) {
            fault(session, stream, HTTP2_ABUSE_FIELD, 0);
            return 0;
        }
    }
    if (session->frame.n_data == len && stream->has_length) {
        /* Before a byte of a frame is handed over: the body fits in its length, and ends there. */
        const uint64_t all = frame_data_bytes(&session->frame);
        if (all > stream->body_left ||
            (all < stream->body_left && (flags & NGHTTP2_FLAG_END_STREAM) != 0)) {
            fault(session, stream, HTTP2_ABUSE_FIELD, FIELD_UNITS);
            return 0;
        }
        stream->body_left -= all;
    }
    find(session, HTTP2_BODY, stream, false);
    session->event.piece = span_of((const char *)data, len);
    return 0;
}

static void on_data_end(struct http2_session *session, int32_t id)
{
    struct http2_stream *stream = session_stream(session, id);
    if (stream == NULL) {
        return;
    }
    if ((stream->has_length && stream->body_left > 0) ||
        (session->is_client && !stream->has_answer)) {
        fault(session, stream, HTTP2_ABUSE_FIELD, FIELD_UNITS);
        return;
    }
    stream->is_body_ended = true;
    if (session->event.kind == HTTP2_NONE) {
        find(session, HTTP2_BODY, stream, true);
    }
    session->event.is_last = true;
}

static int on_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user)
{
    struct http2_session *session = user;
    (void)nghttp2;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        on_headers(session, frame);
    } else if (frame->hd.type == NGHTTP2_DATA && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        on_data_end(session, frame->hd.stream_id);
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        session->is_refused = true;
    }
    return 0;
}

/* --- ends of streams --- */

static void note_peer_reset(struct http2_session *session, const struct http2_stream *stream)
{
    const bool is_expired = stream->has_deadline && session->now_us >= stream->deadline_us;
    if (stream->is_head_sent || is_expired) {
        budget_on_end(&session->budget, false);
        return;
    }
    budget_on_early_reset(&session->budget, session->now_us - stream->began_us);
    session_heed_budget(session);
}

/* Of a request of ours. GOAWAY closes streams above its last one as if they were refused. */
static void close_request(struct http2_session *session, struct http2_stream *stream, bool is_by_us,
                          uint32_t code)
{
    stream->is_closed = true;
    if (!stream->is_body_ended) {
        stream->is_unprocessed = !is_by_us && code == NGHTTP2_REFUSED_STREAM;
        stream->is_reset_by_peer = !is_by_us;
        list_remove(&stream->node);
        list_push_back(&session->ended, &stream->node);
    }
}

/* While reading: a RST_STREAM of the peer, or the end of the second side. While packing: a
 * RST_STREAM of ours, for a fault that nghttp2 has found, or our end. */
static int on_stream_close(nghttp2_session *nghttp2, int32_t id, uint32_t code, void *user)
{
    struct http2_session *session = user;
    struct http2_stream *stream = session_stream(session, id);
    const bool is_by_us = session->reset_by_us == id;
    const bool is_by_peer = session->batch == NULL && session->frame.type == NGHTTP2_RST_STREAM;
    (void)nghttp2;
    session_set_fate(session, id, is_by_us ? FATE_IGNORED : FATE_ENDED);
    session->reset_by_us = is_by_us ? 0 : session->reset_by_us;
    if (stream == NULL) {
        return 0;
    }
    if (session->is_client) {
        close_request(session, stream, is_by_us, code);
        return 0;
    }
    stream->is_closed = true;
    if (is_by_peer) {
        note_peer_reset(session, stream);
    } else {
        budget_on_end(&session->budget, !is_by_us && !stream->is_own);
    }
    if (is_by_us) {
        session_spend(session, HTTP2_ABUSE_FAULT, FAULT_UNITS);
    }
    if (!stream->is_answered) {
        stream->is_reset_by_peer = is_by_peer;
        list_remove(&stream->node);
        list_push_back(&session->ended, &stream->node);
    }
    return 0;
}

void receive_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

/* --- frames --- */

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* DATA or HEADERS of a stream that may be closed. */
static void judge_stream(struct http2_session *session, const struct frame *frame)
{
    const int32_t id = frame->stream_id;
    if (id % 2 == 0 || id > session->last_id ||
        nghttp2_session_find_stream(session->nghttp2, id) != NULL) {
        return; /* nghttp2's to judge */
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

/* Before a byte of the frame is handed over. nghttp2 would end the stream alone, in mid frame. */
static void judge_window(struct http2_session *session, const struct frame *frame)
{
    nghttp2_session *nghttp2 = session->nghttp2;
    const int32_t id = frame->stream_id;
    const int32_t all = nghttp2_session_get_local_window_size(nghttp2);
    const int32_t own = session_stream(session, id) != NULL
                            ? nghttp2_session_get_stream_local_window_size(nghttp2, id)
                            : INT32_MAX;
    if (frame->length > (uint32_t)(all < own ? all : own) && !session->is_terminated &&
        frame->length <= FRAME_BYTES_MAX) {
        session_fail(session, NGHTTP2_FLOW_CONTROL_ERROR);
    }
}

static void judge_headers(struct http2_session *session, const struct frame *frame)
{
    judge_stream(session, frame);
    if (!session->is_client && frame->stream_id % 2 == 1 && frame->stream_id > session->last_id) {
        session_begin_stream(session, frame->stream_id);
    }
    session->is_in_block = (frame->flags & NGHTTP2_FLAG_END_HEADERS) == 0;
    session->n_continuations = 0;
}

/* The head of a frame has come. */
static void judge(struct http2_session *session)
{
    struct frame *frame = &session->frame;
    frame->length = read_u32(frame->head) >> 8;
    frame->left = frame->length;
    frame->type = frame->head[3];
    frame->flags = frame->head[4];
    frame->stream_id = (int32_t)(read_u32(frame->head + 5) & INT32_MAX);
    frame->n_data = 0;
    frame->is_judged = true;
    if (session->is_in_block) {
        if (frame->type != NGHTTP2_CONTINUATION) {
            session_fail(session, NGHTTP2_PROTOCOL_ERROR);
        } else if (++session->n_continuations > session->continuations_max) {
            session_fail(session, NGHTTP2_ENHANCE_YOUR_CALM);
        }
        session->is_in_block = (frame->flags & NGHTTP2_FLAG_END_HEADERS) == 0;
    } else if (frame->type == NGHTTP2_DATA) {
        judge_stream(session, frame);
        judge_window(session, frame);
    } else if (frame->type == NGHTTP2_HEADERS) {
        judge_headers(session, frame);
    } else if (frame->type == NGHTTP2_PRIORITY && frame->stream_id == 0) {
        session_fail(session, NGHTTP2_PROTOCOL_ERROR);
    }
}

/* A frame is complete, and nghttp2 has taken it. */
static void settle(struct http2_session *session)
{
    struct frame *frame = &session->frame;
    struct budget *budget = &session->budget;
    const bool is_ack = (frame->flags & NGHTTP2_FLAG_ACK) != 0;
    const bool is_end = (frame->flags & NGHTTP2_FLAG_END_STREAM) != 0;
    frame->n_head = 0;
    switch (frame->type) {
    case NGHTTP2_DATA:
        if (frame_data_bytes(frame) == 0 && !is_end) {
            budget_spend(budget, HTTP2_ABUSE_EMPTY, 1);
        }
        break;
    case NGHTTP2_CONTINUATION:
        if (frame->length == 0) {
            budget_spend(budget, HTTP2_ABUSE_EMPTY, 1);
        }
        break;
    case NGHTTP2_PRIORITY:
        budget_on_priority(budget);
        if ((read_u32(frame->payload) & INT32_MAX) == (uint32_t)frame->stream_id) {
            session_fail(session, NGHTTP2_PROTOCOL_ERROR); /* it depends on itself */
        }
        break;
    case NGHTTP2_SETTINGS:
        if (!is_ack) {
            budget_on_settings(budget);
        }
        break;
    case NGHTTP2_WINDOW_UPDATE:
        budget_on_window_update(budget, read_u32(frame->payload) & INT32_MAX);
        break;
    case NGHTTP2_PING:
        if (!is_ack || !session_take_pong(session, frame->payload)) {
            budget_on_ping(budget);
        }
        break;
    default:
        return;
    }
    session_heed_budget(session);
}

static void feed(struct http2_session *session, const void *bytes, size_t len)
{
    session_check(session, nghttp2_session_mem_recv(session->nghttp2, bytes, len));
}

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
        frame->is_whole = part.len == FRAME_HEAD_BYTES;
        judge(session);
    }
}

/* Give the payload that has come to nghttp2, and before it @n_head bytes, which precede @bytes. */
static void read_payload(struct http2_session *session, struct span *bytes, size_t n_head)
{
    struct frame *frame = &session->frame;
    const size_t at = frame->length - frame->left;
    const struct span part = take(bytes, frame->left);
    if (at < FRAME_CAPTURE_BYTES && part.len > 0) {
        const size_t room = FRAME_CAPTURE_BYTES - at;
        memcpy(frame->payload + at, part.data, part.len < room ? part.len : room);
    }
    frame->left -= (uint32_t)part.len;
    feed(session, part.data - n_head, n_head + part.len);
    if (frame->left == 0) {
        settle(session);
    }
}

/* Whether a head on stream @id needs room. *@stream: the request of ours that it answers. */
static bool lacks_room(struct http2_session *session, int32_t id, struct http2_stream **stream)
{
    if (session->is_client) {
        *stream = session_stream(session, id);
        return *stream != NULL && session->room->stream != *stream;
    }
    return session->room->stream == NULL &&
           !(is_full(session) && nghttp2_session_find_stream(session->nghttp2, id) == NULL);
}

/* The head of a frame is judged: give it to nghttp2. False: there is no room for what it begins. */
static bool begin_frame(struct http2_session *session, struct span *bytes)
{
    struct frame *frame = &session->frame;
    struct http2_stream *stream = NULL; /* of ours, whose head begins */
    if (frame->type == NGHTTP2_HEADERS && lacks_room(session, frame->stream_id, &stream)) {
        frame->is_whole = false; /* the next bytes may be elsewhere */
        find(session, HTTP2_NEEDS_ROOM, stream, false);
        return false;
    }
    frame->is_judged = false;
    if (frame->is_whole && bytes->len > 0 && frame->left > 0) {
        read_payload(session, bytes, FRAME_HEAD_BYTES);
        return true;
    }
    feed(session, frame->head, sizeof(frame->head));
    if (frame->left == 0) {
        settle(session);
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
            read_payload(session, bytes, 0);
        }
    }
    return session->event;
}

bool http2_session_is_in_head(const struct http2_session *session)
{
    return session->is_in_block || (session->frame.n_head == FRAME_HEAD_BYTES &&
                                    (session->frame.type == NGHTTP2_HEADERS ||
                                     session->frame.type == NGHTTP2_CONTINUATION));
}
