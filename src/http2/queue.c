/* Frames other than DATA, from when they are made until they are packed. An item is a frame, or the
 * frames of a head, which must not be parted. A head is encoded when it is queued, so heads must be
 * sent in the order of the queue; one that nobody waits for any more is left out if later ones do
 * not build on it. */

#include <stdlib.h>

#include "http2/session_inner.h"

enum {
    QUEUE_BYTES_MIN = 1024,
    QUEUE_BYTES_KEPT = 4096, /* by an empty queue */
    STATUS_LINE_BYTES = 32,
    /* Longer heads are cut: more than an upstream may send. */
    SENT_HEAD_BYTES_MAX = 4 * 1024 * 1024,
    ACKS_MAX = 128, /* of PING and SETTINGS, that a peer leaves unread */
};

/* Before the bytes of an item. */
struct item {
    struct http2_stream *stream; /* that hears of it; NULL: none */
    uint32_t len;
    bool is_dropped;
    bool is_needed; /* the table of the encoder changed with it */
    bool is_last;   /* of the stream */
};

static struct item item_at(const struct frame_queue *queue, size_t at)
{
    struct item item;
    memcpy(&item, queue->bytes + at, sizeof(item));
    return item;
}

static void set_item(struct frame_queue *queue, size_t at, const struct item *item)
{
    memcpy(queue->bytes + at, item, sizeof(*item));
}

/* Move what waits to the begin of the memory. */
static void compact(struct frame_queue *queue)
{
    queue->n_before += queue->begin;
    queue->end -= queue->begin;
    memmove(queue->bytes, queue->bytes + queue->begin, queue->end);
    queue->begin = 0;
}

/* Room for @n bytes at the end. NULL: no memory. */
static char *reserve(struct http2_session *session, size_t n)
{
    struct frame_queue *queue = &session->queue;
    if (session->is_broken) {
        return NULL;
    }
    if (queue->capacity - queue->end < n && queue->begin >= queue->capacity / 2 &&
        queue->begin > 0) {
        compact(queue);
    }
    if (queue->capacity - queue->end < n) {
        size_t capacity = queue->capacity > 0 ? queue->capacity : QUEUE_BYTES_MIN;
        while (capacity - queue->end < n) {
            capacity *= 2;
        }
        char *bytes = realloc(queue->bytes, capacity);
        if (bytes == NULL) {
            session_break(session);
            return NULL;
        }
        queue->bytes = bytes;
        queue->capacity = capacity;
    }
    return queue->bytes + queue->end;
}

/* --- into the queue --- */

void queue_preface(struct http2_session *session)
{
    const struct span preface = HTTP2_PREFACE;
    const struct item item = {.len = (uint32_t)preface.len};
    char *at = reserve(session, sizeof(item) + preface.len);
    if (at != NULL) {
        set_item(&session->queue, session->queue.end, &item);
        memcpy(at + sizeof(item), preface.data, preface.len);
        session->queue.end += sizeof(item) + preface.len;
    }
}

void queue_frame(struct http2_session *session, unsigned type, unsigned flags, int32_t id,
                 const void *payload, size_t len)
{
    const struct item item = {.len = (uint32_t)(FRAME_HEAD_BYTES + len)};
    char *at = reserve(session, sizeof(item) + item.len);
    if (at == NULL) {
        return;
    }
    if ((flags & NGHTTP2_FLAG_ACK) != 0 && (type == NGHTTP2_PING || type == NGHTTP2_SETTINGS) &&
        ++session->n_acks > ACKS_MAX) {
        session_fail(session, NGHTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    set_item(&session->queue, session->queue.end, &item);
    at += sizeof(item);
    write_frame_head(at, len, type, flags, id);
    if (len > 0) {
        memcpy(at + FRAME_HEAD_BYTES, payload, len);
    }
    session->queue.end += sizeof(item) + item.len;
}

static bool is_sent(const struct field *field, bool has_no_length)
{
    return !field->hop_by_hop && !(has_no_length && field->id == FIELD_CONTENT_LENGTH);
}

static size_t bytes_of(const struct http2_fields *list)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->n; i++) {
        bytes += list->fields[i].name.len + list->fields[i].value.len + HPACK_LINE_BYTES;
    }
    return bytes;
}

static char *encode(struct hpack_encoder *encoder, char *at, const struct head_lines *lines)
{
    if (lines->status.len > 0) {
        at = hpack_encode_line(encoder, at, SPAN(":status"), lines->status);
    }
    for (size_t i = 0; i < lines->n_lists; i++) {
        const struct http2_fields *list = &lines->lists[i];
        for (size_t k = 0; k < list->n; k++) {
            const struct field *field = &list->fields[k];
            if (is_sent(field, lines->has_no_length)) {
                at = hpack_encode_line(encoder, at, field->name, field->value);
            }
        }
    }
    return at;
}

/* Put the heads of frames into a block of @len bytes at @block, before which there is room for one
 * and behind which there is room for the others. Returns the length of all. */
static size_t frame_block(char *block, size_t len, int32_t id, bool is_last)
{
    const size_t n_frames =
        len > FRAME_BYTES_MAX ? (len + FRAME_BYTES_MAX - 1) / FRAME_BYTES_MAX : 1;
    for (size_t i = n_frames; i-- > 0;) {
        char *part = block + i * FRAME_BYTES_MAX;
        const size_t part_len = i + 1 < n_frames ? FRAME_BYTES_MAX : len - i * FRAME_BYTES_MAX;
        char *moved = part + i * FRAME_HEAD_BYTES;
        memmove(moved, part, part_len);
        write_frame_head(moved - FRAME_HEAD_BYTES, part_len,
                         i == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                         (i + 1 == n_frames ? (unsigned)NGHTTP2_FLAG_END_HEADERS : 0U) |
                             (i == 0 && is_last ? (unsigned)NGHTTP2_FLAG_END_STREAM : 0U),
                         id);
    }
    return len + n_frames * FRAME_HEAD_BYTES;
}

bool queue_head(struct http2_stream *stream, const struct head_lines *lines)
{
    struct http2_session *session = stream->session;
    struct hpack_encoder *encoder = &session->encoder;
    struct frame_queue *queue = &session->queue;
    struct item item = {.stream = lines->is_interim ? NULL : stream, .is_last = lines->is_last};
    size_t most = HPACK_BLOCK_BYTES + STATUS_LINE_BYTES;
    for (size_t i = 0; i < lines->n_lists; i++) {
        most += bytes_of(&lines->lists[i]);
    }
    if (most > SENT_HEAD_BYTES_MAX) {
        session_break(session);
        return false;
    }
    const size_t n_heads = most / FRAME_BYTES_MAX + 1;
    char *at = reserve(session, sizeof(item) + most + n_heads * FRAME_HEAD_BYTES);
    if (at == NULL) {
        return false;
    }
    const uint32_t n_inserted = encoder->n_inserted;
    char *block = at + sizeof(item) + FRAME_HEAD_BYTES;
    item.is_needed = encoder->is_resized;
    const char *end = encode(encoder, hpack_encode_begin(encoder, block), lines);
    item.is_needed = item.is_needed || encoder->n_inserted != n_inserted;
    item.len = (uint32_t)frame_block(block, (size_t)(end - block), stream->id, lines->is_last);
    set_item(queue, queue->end, &item);
    if (!lines->is_interim) {
        stream->is_queued = true;
        stream->queued_at = queue->n_before + queue->end;
    }
    queue->end += sizeof(item) + item.len;
    return true;
}

bool queue_withdraw(struct http2_stream *stream)
{
    struct http2_session *session = stream->session;
    struct frame_queue *queue = &session->queue;
    if (!stream->is_queued) {
        return false;
    }
    const size_t at = stream->queued_at - queue->n_before;
    const bool is_begun = at == queue->begin && queue->n_gone > 0;
    struct item item = item_at(queue, at);
    item.stream = NULL;
    item.is_dropped = !item.is_needed && !is_begun;
    set_item(queue, at, &item);
    stream->is_queued = false;
    return item.is_dropped;
}

/* --- out of the queue --- */

/* An item is out of the queue: packed, or left out. */
static void on_gone(struct http2_session *session, const struct item *item, bool is_packed,
                    const uint8_t *frame)
{
    const unsigned type = frame[3];
    if (item->stream != NULL) {
        item->stream->is_queued = false;
        if (is_packed) {
            send_on_head_packed(item->stream, item->is_last);
        }
    } else if (type == NGHTTP2_GOAWAY) {
        session_on_goaway_sent(session);
    } else if ((frame[4] & NGHTTP2_FLAG_ACK) != 0 &&
               (type == NGHTTP2_PING || type == NGHTTP2_SETTINGS)) {
        session->n_acks--;
    }
}

/* Once the connection is at its end, no more than that is said. */
static bool is_too_late(const struct http2_session *session, const uint8_t *frame)
{
    return session->is_terminated && session->queue.n_gone == 0 && frame[3] != NGHTTP2_SETTINGS &&
           frame[3] != NGHTTP2_GOAWAY && frame[3] != NGHTTP2_WINDOW_UPDATE;
}

static void empty(struct frame_queue *queue)
{
    queue->n_before += queue->end;
    queue->begin = 0;
    queue->end = 0;
    if (queue->capacity > QUEUE_BYTES_KEPT) {
        free(queue->bytes);
        queue->bytes = NULL;
        queue->capacity = 0;
    }
}

bool queue_pack(struct http2_session *session, struct http2_batch *batch)
{
    struct frame_queue *queue = &session->queue;
    while (queue->begin < queue->end) {
        const struct item item = item_at(queue, queue->begin);
        const char *bytes = queue->bytes + queue->begin + sizeof(item);
        const uint8_t *frame = (const uint8_t *)bytes;
        const bool is_packed = !item.is_dropped && !is_too_late(session, frame);
        if (is_packed) {
            const size_t room = batch->capacity - batch->used;
            const size_t left = item.len - queue->n_gone;
            const size_t n = left < room ? left : room;
            batch_add_copy(batch, bytes + queue->n_gone, n);
            if (n < left) {
                queue->n_gone += n;
                return false;
            }
        }
        queue->n_gone = 0;
        queue->begin += sizeof(item) + item.len;
        on_gone(session, &item, is_packed, frame);
    }
    empty(queue);
    return true;
}
