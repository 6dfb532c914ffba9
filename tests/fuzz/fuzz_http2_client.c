/* The client's side of an HTTP/2 session (http2/client_session.h): whatever a server sends, cut
 * anywhere, and whatever the owner does with its requests, an event names a request that is there,
 * a head that is accepted has nothing that HTTP/1.1 could not carry, a body has the length that was
 * announced, requests are counted, and memory is bounded. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "http2/client_session.h"

enum {
    REQUESTS_MAX = 6,
    FIELDS_MAX = 8,
    HEAD_BYTES_MAX = 2048,
    MEMORY_MAX = 1024 * 1024,
    STEP_US = 3000,
};

struct request {
    struct http2_stream stream;
    struct head head;
    struct field fields[FIELDS_MAX];
    char bytes[HEAD_BYTES_MAX];
    bool is_sent;    /* its last piece was given */
    bool has_answer; /* the final head came */
    bool is_whole;   /* and all behind it */
    uint64_t body;
};

static const uint8_t *input;
static size_t left;
static struct http2_session *session;
static struct request requests[REQUESTS_MAX];
static struct http2_room room;
static uint64_t now_us;
static const char PIECE[40000];

static unsigned draw(void)
{
    if (left == 0) {
        return 0;
    }
    left--;
    return *input++;
}

static void release(struct request *request)
{
    if (room.stream == &request->stream) {
        room.stream = NULL;
    }
    http2_stream_release(&request->stream);
}

static void begin(struct request *request)
{
    const struct field fields[] = {
        {.name = SPAN(":method"), .value = SPAN("GET")},
        {.name = SPAN(":scheme"), .value = SPAN("http")},
        {.name = SPAN(":path"), .value = SPAN("/")},
    };
    const struct http2_fields list = {fields, ARRAY_LEN(fields)};
    const unsigned how = draw();
    if (!http2_session_may_open(session)) {
        return;
    }
    *request = (struct request){.is_sent = how % 2 == 0};
    MUST_HOLD(http2_session_open(session, &request->stream, &list, how % 8 == 2, how % 2 == 0));
}

/* One action on one request. */
static void act(struct request *request)
{
    static const struct field fields[] = {{.name = {"x", 1}, .value = {"y", 1}}};
    static const struct http2_fields list = {fields, 1};
    struct http2_stream *stream = &request->stream;
    const unsigned what = draw() % 8;
    if (stream->session == NULL) {
        begin(request);
    } else if (what == 0) {
        release(request);
    } else if (what < 4) {
        http2_stream_took(stream, (size_t)stream->untaken);
    } else if (!request->is_sent && stream->piece.len == 0) {
        const size_t len = draw() * 150U;
        request->is_sent = what > 5 || len == 0;
        http2_stream_send(stream, span_of(PIECE, len), request->is_sent, what == 7 ? &list : NULL);
    }
}

static void check_head(struct request *request)
{
    const struct head *head = &request->head;
    MUST_HOLD(!request->has_answer);
    if (head->error.status != 0) {
        MUST_HOLD(head->error.reason != NULL);
        return;
    }
    MUST_HOLD(head->status >= 100 && head->status <= 599 && head->status != 101);
    MUST_HOLD(head->n_fields <= FIELDS_MAX);
    request->has_answer = head->status >= 200;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        MUST_HOLD(field_is_token(field->name) && field_is_value(field->value));
        MUST_HOLD(field->id != FIELD_CONNECTION && field->id != FIELD_TRANSFER_ENCODING);
    }
}

static void end(struct request *request)
{
    const struct head *head = &request->head;
    MUST_HOLD(!request->is_whole);
    request->is_whole = true;
    MUST_HOLD(head->body != BODY_LENGTH || head->content_length == request->body);
    MUST_HOLD(head->body != BODY_NONE || request->body == 0);
}

static void handle(const struct http2_event *event)
{
    struct request *request = (struct request *)event->stream;
    if (event->kind == HTTP2_NONE) {
        return;
    }
    MUST_HOLD(request != NULL && request->stream.session == session && !request->is_whole);
    switch (event->kind) {
    case HTTP2_NEEDS_ROOM:
        if (request->has_answer) {
            static struct head trailers;
            static struct field fields[FIELDS_MAX];
            static char bytes[HEAD_BYTES_MAX];
            room = (struct http2_room){
                &request->stream, &trailers, {.fields = fields, .bytes = bytes}};
        } else {
            room = (struct http2_room){&request->stream,
                                       &request->head,
                                       {.fields = request->fields, .bytes = request->bytes}};
        }
        room.builder.n_fields_max = FIELDS_MAX;
        room.builder.capacity = room.builder.head_bytes_max = HEAD_BYTES_MAX;
        return;
    case HTTP2_HEAD:
        room.stream = NULL;
        check_head(request);
        if (request->head.error.status != 0) {
            release(request);
            return;
        }
        if (event->is_last) {
            end(request);
        }
        break;
    case HTTP2_BODY:
        MUST_HOLD(request->has_answer);
        request->body += event->piece.len;
        if (event->is_last) {
            end(request);
        }
        break;
    case HTTP2_TRAILERS:
    case HTTP2_BAD_TRAILERS:
        room.stream = NULL;
        MUST_HOLD(request->has_answer);
        end(request);
        break;
    case HTTP2_MALFORMED:
        room.stream = NULL;
        release(request);
        return;
    case HTTP2_RESET:
        release(request);
        return;
    case HTTP2_WINDOW:
        break;
    case HTTP2_NONE:
        return;
    }
    act(request);
}

static void hear(const uint8_t *data, size_t len)
{
    struct span bytes = span_of((const char *)data, len);
    struct http2_event event;
    do {
        event = http2_session_read(session, &bytes, &room, now_us);
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
            MUST_HOLD(stream->piece.len == 0);
        }
    }
    hear(NULL, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct http2_config config = {
        .streams_max = REQUESTS_MAX, .head_bytes_max = HEAD_BYTES_MAX, .stream_window = 65535};
    input = data;
    left = size;
    now_us = 1;
    memset(requests, 0, sizeof(requests));
    room = (struct http2_room){0};
    session = http2_session_new_client(&config, now_us);
    MUST_HOLD(session != NULL);
    while (left > 0) {
        const unsigned what = draw();
        const size_t wanted = draw() * (what > 200 ? 64U : 1U);
        size_t n_open = 0;
        act(&requests[what % REQUESTS_MAX]);
        now_us += what % 16 * STEP_US;
        if (what % 4 != 0) {
            pack();
        }
        const size_t n = wanted < left ? wanted : left;
        input += n;
        left -= n;
        hear(input - n, n);
        for (size_t i = 0; i < REQUESTS_MAX; i++) {
            n_open += requests[i].stream.session != NULL;
        }
        MUST_HOLD(http2_session_streams(session) == n_open);
        MUST_HOLD(http2_session_memory(session) < MEMORY_MAX);
    }
    http2_session_free(session);
    return 0;
}
