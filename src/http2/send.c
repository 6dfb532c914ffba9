/* From answers to frames. Heads are encoded by nghttp2 and copied into the batch; of a body's
 * frames the batch has the heads, and slices of the pieces. */

#include <assert.h>

#include "base/limits.h"
#include "http2/session_inner.h"

enum {
    COPIED_BYTES_MAX = 512, /* of a piece: a slice costs more than copying these */
    STATUS_BYTES = 3,
    SETTING_BYTES = 6,
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

static void add_copy(struct http2_batch *batch, const void *data, size_t len)
{
    char *at = batch->bytes + batch->used;
    memcpy(at, data, len);
    batch->used += len;
    add_slice(batch, at, len);
}

/* Our SETTINGS, with the number of streams: see greet() in session.c. */
static void add_settings(struct http2_session *session, const uint8_t *frame, size_t len)
{
    const uint32_t n = session->config.streams_max;
    const uint8_t setting[SETTING_BYTES] = {
        0,
        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
        (uint8_t)(n >> 24),
        (uint8_t)(n >> 16),
        (uint8_t)(n >> 8),
        (uint8_t)n,
    };
    uint8_t head[FRAME_HEAD_BYTES];
    memcpy(head, frame, sizeof(head));
    head[2] = (uint8_t)(head[2] + SETTING_BYTES);
    add_copy(session->batch, head, sizeof(head));
    add_copy(session->batch, setting, sizeof(setting));
    add_copy(session->batch, frame + sizeof(head), len - sizeof(head));
}

/* One or more frames but DATA. False: the batch is full. */
static bool add_frame(struct http2_session *session, const uint8_t *frame, size_t len)
{
    struct http2_batch *batch = session->batch;
    if (frame[3] == NGHTTP2_SETTINGS && (frame[4] & NGHTTP2_FLAG_ACK) == 0 && !session->is_client) {
        add_settings(session, frame, len);
    } else if (len <= batch->capacity - batch->used) {
        add_copy(batch, frame, len);
    } else {
        add_slice(batch, frame, len); /* nghttp2 keeps it until it is asked for the next */
        return false;
    }
    return true;
}

bool http2_session_pack(struct http2_session *session, struct http2_batch *batch, uint64_t now_us)
{
    const uint8_t *frame;
    ssize_t len = 1;
    bool has_more = true;
    session->now_us = now_us;
    budget_refill(&session->budget, now_us);
    session_note_window(session); /* its updates are packed now */
    session->batch = batch;
    batch->n = 0;
    batch->used = 0;
    assert(has_room(batch));
    while (has_more && has_room(batch)) {
        len = session->is_broken ? 0 : nghttp2_session_mem_send(session->nghttp2, &frame);
        has_more = session_check(session, len) && len > 0 && add_frame(session, frame, (size_t)len);
    }
    session->batch = NULL;
    return !session->is_broken;
}

/* --- heads --- */

static nghttp2_nv line_of(struct span name, struct span value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name.data,
        .value = (uint8_t *)(uintptr_t)value.data,
        .namelen = name.len,
        .valuelen = value.len,
        .flags = NGHTTP2_NV_FLAG_NONE,
    };
}

size_t send_add_lines(nghttp2_nv *lines, size_t n, const struct http2_fields *list,
                      bool has_no_length)
{
    for (size_t i = 0; i < list->n && n < SENT_FIELDS_MAX; i++) {
        const struct field *field = &list->fields[i];
        if (!field->hop_by_hop && !(has_no_length && field->id == FIELD_CONTENT_LENGTH)) {
            lines[n++] = line_of(field->name, field->value);
        }
    }
    return n;
}

static ssize_t on_read(nghttp2_session *nghttp2, int32_t id, uint8_t *buffer, size_t most,
                       uint32_t *flags, nghttp2_data_source *source, void *user);

const nghttp2_data_provider SEND_BODY = {.read_callback = on_read};

bool http2_stream_send_head(struct http2_stream *stream, uint16_t status,
                            const struct http2_fields *lists, size_t n_lists, bool is_last)
{
    struct http2_session *session = stream->session;
    nghttp2_nv lines[SENT_FIELDS_MAX];
    const bool is_interim = status < 200;
    const char digits[STATUS_BYTES] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
                                       (char)('0' + status % 10)};
    size_t n = 1;
    if (stream->is_closed) {
        return !session->is_broken;
    }
    lines[0] = line_of(SPAN(":status"), span_of(digits, sizeof(digits)));
    for (size_t i = 0; i < n_lists; i++) {
        n = send_add_lines(lines, n, &lists[i], is_interim || status == 204);
    }
    if (is_interim) {
        return session_check(session, nghttp2_submit_headers(session->nghttp2, NGHTTP2_FLAG_NONE,
                                                             stream->id, NULL, lines, n, NULL));
    }
    stream->is_head_sent = true;
    return session_check(session, nghttp2_submit_response(session->nghttp2, stream->id, lines, n,
                                                          is_last ? NULL : &SEND_BODY));
}

static void send_trailers(struct http2_session *session, const struct http2_stream *stream)
{
    nghttp2_nv lines[SENT_FIELDS_MAX];
    const struct http2_fields list = {stream->trailers, stream->n_trailers};
    const size_t n = send_add_lines(lines, 0, &list, false);
    session_check(session, nghttp2_submit_trailer(session->nghttp2, stream->id, lines, n));
}

/* --- bodies --- */

void http2_stream_send(struct http2_stream *stream, struct span piece, bool is_last,
                       const struct http2_fields *trailers)
{
    assert(stream->piece.len == 0 && !stream->is_last && (piece.len > 0 || is_last));
    stream->piece = piece;
    stream->is_last = is_last;
    stream->trailers = trailers != NULL ? trailers->fields : NULL;
    stream->n_trailers = trailers != NULL ? trailers->n : 0;
    if (!stream->is_closed) {
        /* It fails if nghttp2 has not asked yet: then it will. */
        (void)nghttp2_session_resume_data(stream->session->nghttp2, stream->id);
    }
}

/* How much of the body is there: the bytes come with on_send_data(). */
static ssize_t on_read(nghttp2_session *nghttp2, int32_t id, uint8_t *buffer, size_t most,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct http2_session *session = user;
    const struct http2_stream *stream = session_stream(session, id);
    (void)nghttp2, (void)buffer, (void)source;
    if (stream == NULL || (stream->piece.len == 0 && !stream->is_last)) {
        return NGHTTP2_ERR_DEFERRED;
    }
    if (!has_room(session->batch)) {
        return NGHTTP2_ERR_PAUSE;
    }
    *flags = NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->piece.len > most) {
        return (ssize_t)most;
    }
    if (stream->is_last) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->n_trailers > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            send_trailers(session, stream);
        }
    }
    return (ssize_t)stream->piece.len;
}

static void note_sent(struct http2_session *session, struct http2_stream *stream)
{
    list_remove(&stream->node);
    list_push_back(&session->sent, &stream->node);
}

static int on_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *head,
                        size_t len, nghttp2_data_source *source, void *user)
{
    struct http2_session *session = user;
    struct http2_stream *stream = session_stream(session, frame->hd.stream_id);
    (void)nghttp2, (void)source;
    assert(stream != NULL && len <= stream->piece.len);
    add_copy(session->batch, head, FRAME_HEAD_BYTES);
    if (len > 0 && len <= session->batch->capacity - session->batch->used &&
        len <= COPIED_BYTES_MAX) {
        add_copy(session->batch, stream->piece.data, len);
    } else if (len > 0) {
        add_slice(session->batch, stream->piece.data, len);
    }
    budget_on_data_sent(&session->budget, len);
    stream->piece = span_of(stream->piece.data + len, stream->piece.len - len);
    stream->is_answered = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (stream->piece.len == 0 && stream->n_trailers == 0) {
        note_sent(session, stream);
    }
    return has_room(session->batch) ? 0 : NGHTTP2_ERR_PAUSE;
}

static void on_headers_sent(struct http2_session *session, const nghttp2_frame *frame)
{
    struct http2_stream *stream = session_stream(session, frame->hd.stream_id);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        session_begin_stream(session, frame->hd.stream_id);
    }
    if (stream != NULL) {
        stream->is_opened = true;
    }
    if (stream != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        stream->is_answered = true;
        note_sent(session, stream);
    }
}

static int on_frame_sent(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user)
{
    struct http2_session *session = user;
    (void)nghttp2;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        session->reset_by_us = frame->hd.stream_id; /* on_stream_close() follows */
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        /* nghttp2 ends a connection by itself for many faults. */
        session->is_terminated =
            session->is_terminated ||
            (session->is_client && frame->goaway.error_code != NGHTTP2_NO_ERROR);
        session_on_goaway_sent(session);
    } else if (frame->hd.type == NGHTTP2_HEADERS) {
        on_headers_sent(session, frame);
    }
    return 0;
}

void send_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
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
    nghttp2_session *nghttp2 = stream->session->nghttp2;
    const int32_t own = nghttp2_session_get_stream_remote_window_size(nghttp2, stream->id);
    const int32_t shared = nghttp2_session_get_remote_window_size(nghttp2);
    const int32_t window = own < shared ? own : shared;
    return window > 0 ? (size_t)window : 0;
}

void http2_stream_took(struct http2_stream *stream, size_t n)
{
    struct http2_session *session = stream->session;
    assert(n <= stream->untaken);
    stream->untaken -= n;
    session_check(session,
                  (session->is_client ? nghttp2_session_consume_stream
                                      : nghttp2_session_consume)(session->nghttp2, stream->id, n));
}

/* The owner no longer has @stream. */
static void forget(struct http2_session *session, struct http2_stream *stream)
{
    stream->session = NULL;
    session->n_streams--;
    list_remove(&stream->node);
    if (session->is_building && session->building_id == stream->id) {
        session->is_building = false; /* the room is gone */
    }
    if (stream->untaken > 0 && !session->is_client) {
        session_check(
            session, nghttp2_session_consume_connection(session->nghttp2, (size_t)stream->untaken));
    }
    if (!stream->is_closed) {
        nghttp2_session_set_stream_user_data(session->nghttp2, stream->id, NULL);
    }
}

void http2_stream_release(struct http2_stream *stream)
{
    struct http2_session *session = stream->session;
    forget(session, stream);
    if (session->is_client && !stream->is_closed) {
        /* A request that is not packed yet is withdrawn without a frame. */
        session_reset_stream(session, stream->id, NGHTTP2_CANCEL);
    } else if (!stream->is_closed) {
        session_reset_stream(session, stream->id,
                             stream->is_answered          ? NGHTTP2_NO_ERROR
                             : stream->is_client_at_fault ? NGHTTP2_ENHANCE_YOUR_CALM
                                                          : NGHTTP2_INTERNAL_ERROR);
        budget_on_end(&session->budget, stream->is_answered && !stream->is_own);
    }
}

void http2_stream_refuse(struct http2_stream *stream)
{
    struct http2_session *session = stream->session;
    forget(session, stream);
    session_reset_stream(session, stream->id, NGHTTP2_REFUSED_STREAM);
}
