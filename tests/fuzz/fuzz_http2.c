/* An HTTP/2 session (http2/session.h): whatever a peer sends, cut anywhere, and whatever its owner
 * does with its streams, no byte is read twice or lost, an event names a stream that is there, a
 * head that is accepted has nothing that HTTP/1.1 could not carry, places are counted, and memory
 * is bounded. The first byte says how: raw bytes, or frames that are made of the rest. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "fuzz/must_hold.h"
#include "http2/session.h"

enum {
    STREAMS_MAX = 4,
    FIELDS_MAX = 8,
    HEAD_BYTES_MAX = 2048,
    MEMORY_MAX = 1024 * 1024,
    FRAME_BYTES_MAX = 64 * 1024,
    STEP_US = 3000,
};

struct exchange {
    struct http2_stream stream;
    struct head head;
    struct field fields[FIELDS_MAX];
    char bytes[HEAD_BYTES_MAX];
    bool is_done; /* its answer was given */
};

/* What is left of the input. */
static const uint8_t *input;
static size_t left;

static struct http2_session *session;
static struct exchange slots[STREAMS_MAX + 1]; /* one for the room */
static struct exchange *next;
static struct http2_room room;
static uint64_t now_us;
static const char ANSWER[40000];

static unsigned draw(void)
{
    if (left == 0) {
        return 0;
    }
    left--;
    return *input++;
}

static void offer_room(void)
{
    for (size_t i = 0; i < ARRAY_LEN(slots) && next == NULL; i++) {
        next = slots[i].stream.session == NULL ? &slots[i] : NULL;
    }
    MUST_HOLD(next != NULL);
    next->is_done = false;
    room = (struct http2_room){
        .stream = &next->stream,
        .head = &next->head,
        .builder = {.fields = next->fields,
                    .n_fields_max = FIELDS_MAX,
                    .bytes = next->bytes,
                    .capacity = HEAD_BYTES_MAX,
                    .head_bytes_max = HEAD_BYTES_MAX},
    };
}

/* No byte ends a line or a field early. */
static void check_fields(const struct head *head)
{
    MUST_HOLD(head->n_fields <= FIELDS_MAX);
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        MUST_HOLD(field_is_token(field->name) && field_is_value(field->value));
        MUST_HOLD(field->id != FIELD_CONNECTION && field->id != FIELD_TRANSFER_ENCODING);
        for (size_t j = 0; j < field->name.len; j++) {
            MUST_HOLD(ascii_lower(field->name.data[j]) == field->name.data[j]);
        }
    }
}

static void check_request(const struct head *head, bool is_last)
{
    if (head->error.status != 0) {
        MUST_HOLD(head->error.reason != NULL);
        return;
    }
    check_fields(head);
    MUST_HOLD(head_has(head, FIELD_HOST) && target_is_host(head->host));
    MUST_HOLD(field_is_token(head->method) && head->method_id != METHOD_CONNECT);
    MUST_HOLD(head->target.form == TARGET_ORIGIN || head->target.form == TARGET_ASTERISK);
    MUST_HOLD(!is_last || head->body == BODY_NONE);
    MUST_HOLD(head->minor == 1 && !head->has_upgrade);
}

/* The owner's side: one action on one stream. */
static void act(struct exchange *exchange)
{
    struct http2_stream *stream = &exchange->stream;
    static const struct field fields[] = {{.name = {"X", 1}, .value = {"y", 1}}};
    static const struct http2_fields list = {fields, 1};
    const unsigned what = draw() % 8;
    if (stream->session == NULL) {
        return;
    }
    if (what == 0) {
        http2_stream_release(stream);
    } else if (what == 1) {
        http2_stream_took(stream, (size_t)stream->untaken);
    } else if (what == 2 && !stream->is_head_sent) {
        MUST_HOLD(http2_stream_send_head(stream, 103, &list, 1, false));
    } else if (what == 3 && !stream->is_head_sent) {
        exchange->is_done = true;
        MUST_HOLD(http2_stream_send_head(stream, 204, &list, 1, true));
    } else if (what > 3 && !stream->is_head_sent) {
        MUST_HOLD(http2_stream_send_head(stream, 200, &list, 1, false));
    } else if (!exchange->is_done && stream->piece.len == 0) {
        const size_t len = draw() * (what == 4 ? 1U : 150U);
        exchange->is_done = what > 5 || len == 0;
        http2_stream_send(stream, span_of(ANSWER, len), exchange->is_done,
                          what == 7 ? &list : NULL);
    }
}

static void handle(const struct http2_event *event)
{
    if (event->kind == HTTP2_NEEDS_ROOM) {
        MUST_HOLD(next == NULL);
        offer_room();
        return;
    }
    if (event->kind == HTTP2_NONE || event->kind == HTTP2_MALFORMED) {
        return;
    }
    MUST_HOLD(event->stream != NULL && event->stream->session == session);
    if (event->kind == HTTP2_HEAD) {
        MUST_HOLD(event->stream == &next->stream);
        check_request(&next->head, event->is_last);
        next = NULL;
        room.stream = NULL;
    } else if (event->kind == HTTP2_TRAILERS) {
        check_fields(room.head);
    } else if (event->kind == HTTP2_RESET) {
        http2_stream_release(event->stream);
        return;
    }
    act(CONTAINER_OF(event->stream, struct exchange, stream));
}

static void hear(const uint8_t *data, size_t len)
{
    struct span bytes = span_of((const char *)data, len);
    struct http2_event event;
    do {
        const size_t before = bytes.len;
        event = http2_session_read(session, &bytes, &room, now_us);
        MUST_HOLD(bytes.len <= before);
        MUST_HOLD(event.piece.len == 0 ||
                  event.piece.data + event.piece.len == (const char *)data + len - bytes.len ||
                  event.piece.data + event.piece.len < (const char *)data + len - bytes.len);
        handle(&event);
    } while (event.kind != HTTP2_NONE);
    MUST_HOLD(bytes.len == 0);
}

static void pack(void)
{
    static char staging[2048];
    struct iovec slices[6];
    struct http2_batch batch = {slices, 2 + (int)(draw() % 5), staging, sizeof(staging), 0, 0};
    struct http2_stream *stream;
    for (unsigned i = 0; i < 3; i++) {
        if (!http2_session_pack(session, &batch, now_us)) {
            MUST_HOLD(http2_session_is_over(session));
            return;
        }
        MUST_HOLD(batch.n <= batch.n_max && batch.used <= batch.capacity);
        while ((stream = http2_session_next_sent(session)) != NULL) {
            struct exchange *exchange = CONTAINER_OF(stream, struct exchange, stream);
            MUST_HOLD(stream->piece.len == 0);
            if (exchange->is_done) {
                http2_stream_release(stream);
            }
        }
    }
    hear(NULL, 0);
}

/* Between two pieces of the input. */
static void go_on(void)
{
    const unsigned what = draw();
    now_us += what % 16 * STEP_US;
    if (what % 4 != 0) {
        pack();
    }
    if (what > 250) {
        http2_session_drain(session);
    } else if (what > 245) {
        http2_session_ping(session);
    } else if (what > 243) {
        http2_session_stop(session);
    }
    act(&slots[what / 16 % ARRAY_LEN(slots)]);
    size_t n_used = 0;
    for (size_t i = 0; i < ARRAY_LEN(slots); i++) {
        n_used += slots[i].stream.session != NULL;
    }
    MUST_HOLD(n_used == http2_session_streams(session) && n_used <= STREAMS_MAX);
    MUST_HOLD(http2_session_memory(session) < MEMORY_MAX);
}

/* A frame with a head that fits, mostly, and content from the input. */
static size_t make_frame(uint8_t *frame)
{
    static const uint8_t REQUEST[] = {0x82, 0x87, 0x84, 0x41, 1, 'a'};
    const unsigned type = draw() % 12;
    const unsigned flags = draw();
    const unsigned id = draw() % 16;
    size_t len = draw() % 64;
    if (flags > 250) {
        len = 16384;
    }
    memset(frame, 0, 9);
    frame[3] = (uint8_t)type;
    frame[4] = (uint8_t)flags;
    frame[8] = (uint8_t)id;
    uint8_t *content = frame + 9;
    size_t n = 0;
    if (type == 1 && flags % 8 > 1 && (flags & 0x28) == 0) {
        memcpy(content, REQUEST, sizeof(REQUEST));
        n = sizeof(REQUEST);
    }
    while (n < len) {
        content[n++] = (uint8_t)draw();
    }
    frame[1] = (uint8_t)(n >> 8);
    frame[2] = (uint8_t)n;
    return 9 + n;
}

static void say(const uint8_t *bytes, size_t len)
{
    const size_t cut = len > 0 ? draw() % (len + 1) : 0;
    hear(bytes, cut);
    hear(bytes + cut, len - cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t frame[FRAME_BYTES_MAX];
    const struct http2_config config = {
        .streams_max = STREAMS_MAX,
        .head_bytes_max = HEAD_BYTES_MAX,
        .stream_window = 20000,
        .connection_window = 65535,
        .stream_window_max = 40000,
        .shared_window = 50000,
    };
    input = data;
    left = size;
    now_us = 0;
    next = NULL;
    room.stream = NULL;
    memset(slots, 0, sizeof(slots));
    session = http2_session_new(&config, 0);
    MUST_HOLD(session != NULL);
    const bool is_raw = draw() % 2 == 0;
    if (!is_raw) {
        hear((const uint8_t *)HTTP2_PREFACE.data, HTTP2_PREFACE_BYTES);
        hear((const uint8_t *)"\0\0\0\x04\0\0\0\0\0", 9);
    }
    while (left > 0 && !http2_session_is_over(session)) {
        if (is_raw) {
            const size_t len = draw();
            const size_t part = len < left ? len : left;
            memcpy(frame, input, part);
            input += part;
            left -= part;
            say(frame, part);
        } else {
            say(frame, make_frame(frame));
        }
        go_on();
    }
    http2_session_free(session);
    return 0;
}
