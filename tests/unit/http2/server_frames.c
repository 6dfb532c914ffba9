#include "unit/http2/server_frames.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct http2_session *session;
struct request requests[REQUESTS_MAX];
struct http2_room room;
char text[SERVER_TEXT_MAX];
uint64_t now_us = 1;

PRINTF_LIKE(1, 2) static void say(const char *format, ...)
{
    va_list arguments;
    const size_t len = strlen(text);
    va_start(arguments, format);
    (void)vsnprintf(text + len, sizeof(text) - len, format, arguments);
    va_end(arguments);
}

/* --- frames of ours --- */

static void report_frames(const char *bytes, size_t len)
{
    static const char *const NAMES[] = {"DATA", "HEADERS", "PRIORITY", "RST_STREAM",   "SETTINGS",
                                        "PUSH", "PING",    "GOAWAY",   "WINDOW_UPDATE"};
    if (len >= HTTP2_PREFACE_BYTES && memcmp(bytes, HTTP2_PREFACE.data, HTTP2_PREFACE_BYTES) == 0) {
        say("preface\n");
        bytes += HTTP2_PREFACE_BYTES;
        len -= HTTP2_PREFACE_BYTES;
    }
    while (len > 0) {
        const unsigned char *head = (const unsigned char *)bytes;
        const size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        const unsigned id = (unsigned)head[7] << 8 | head[8];
        const bool has_code = head[3] == 3 || head[3] == 7;
        say("%s %u", NAMES[head[3]], id);
        if (has_code) {
            say(" %u", head[FRAME_HEAD + (head[3] == 3 ? 3 : 7)]);
        } else if (head[3] == 0) {
            say(" %zu", n);
        }
        say("%s\n", (head[3] <= 1 && (head[4] & 1) != 0) ? " end" : "");
        ck_assert_uint_le(FRAME_HEAD + n, len);
        bytes += FRAME_HEAD + n;
        len -= FRAME_HEAD + n;
    }
}

void pack_all(void)
{
    static char out[256 * 1024];
    for (;;) {
        struct iovec slices[8];
        char bytes[1024];
        struct http2_batch batch = {
            .slices = slices, .n_max = 8, .bytes = bytes, .capacity = sizeof(bytes)};
        size_t len = 0;
        ck_assert(http2_session_pack(session, &batch, now_us));
        for (int i = 0; i < batch.n; i++) {
            memcpy(out + len, slices[i].iov_base, slices[i].iov_len);
            len += slices[i].iov_len;
        }
        report_frames(out, len);
        while (http2_session_next_sent(session) != NULL) {
        }
        if (batch.n == 0) {
            return;
        }
    }
}

/* --- frames of the server --- */

void take_events(struct span bytes)
{
    struct http2_event event;
    do {
        event = http2_session_read(session, &bytes, &room, now_us);
        struct request *request = (struct request *)event.stream;
        const unsigned id = request != NULL ? (unsigned)request->stream.id : 0;
        const char *last = event.is_last ? " last" : "";
        switch (event.kind) {
        case HTTP2_NONE:
            break;
        case HTTP2_NEEDS_ROOM:
            room = (struct http2_room){
                .stream = &request->stream,
                .head = &request->head,
                .builder = {.fields = request->fields,
                            .n_fields_max = ARRAY_LEN(request->fields),
                            .bytes = request->bytes,
                            .capacity = sizeof(request->bytes),
                            .head_bytes_max = sizeof(request->bytes)},
            };
            break;
        case HTTP2_HEAD:
            room.stream = NULL;
            say("head %u %u body=%d error=%u%s\n", id, request->head.status,
                (int)request->head.body, request->head.error.status, last);
            break;
        case HTTP2_MALFORMED:
            room.stream = NULL;
            say("malformed %u\n", id);
            break;
        case HTTP2_BODY:
            say("body %u %.*s%s\n", id, SPAN_ARGS(event.piece), last);
            break;
        case HTTP2_TRAILERS:
        case HTTP2_BAD_TRAILERS:
            room.stream = NULL;
            say("trailers %u %zu\n", id, request->head.n_fields);
            break;
        case HTTP2_RESET:
            say("reset %u%s%s\n", id, event.is_by_peer ? " by peer" : "",
                http2_stream_is_unprocessed(&request->stream) ? " unprocessed" : "");
            break;
        case HTTP2_WINDOW:
            say("window %u\n", id);
            break;
        }
    } while (event.kind != HTTP2_NONE);
}

void frame(unsigned type, unsigned flags, unsigned id, const void *payload, size_t len)
{
    char bytes[1024];
    const char head[FRAME_HEAD] = {0, (char)(len >> 8), (char)len, (char)type, (char)flags, 0,
                                   0, (char)(id >> 8),  (char)id};
    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), payload, len);
    take_events(span_of(bytes, sizeof(head) + len));
}

void headers(unsigned flags, unsigned id, const char *fields)
{
    char block[512];
    size_t n = 0;
    char copy[512];
    (void)snprintf(copy, sizeof(copy), "%s", fields);
    for (char *save, *word = strtok_r(copy, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        *value++ = 0;
        block[n++] = 0;
        block[n++] = (char)strlen(word);
        memcpy(block + n, word, strlen(word));
        n += strlen(word);
        block[n++] = (char)strlen(value);
        memcpy(block + n, value, strlen(value));
        n += strlen(value);
    }
    frame(1, flags | 4, id, block, n);
}

void open_request(unsigned i, bool is_head, bool is_last)
{
    const struct field fields[] = {
        {.name = SPAN(":method"), .value = SPAN("GET")},
        {.name = SPAN(":scheme"), .value = SPAN("http")},
        {.name = SPAN(":path"), .value = SPAN("/")},
        {.name = SPAN(":authority"), .value = SPAN("a")},
    };
    const struct http2_fields list = {fields, ARRAY_LEN(fields)};
    ck_assert(http2_session_open(session, &requests[i].stream, &list, is_head, is_last));
}

/* --- the fixture --- */

void set_up(void)
{
    const struct http2_config config = {
        .streams_max = REQUESTS_MAX, .head_bytes_max = 65536, .stream_window = WINDOW};
    memset(requests, 0, sizeof(requests));
    room = (struct http2_room){0};
    text[0] = 0;
    session = http2_session_new_client(&config, 0);
    ck_assert_ptr_nonnull(session);
}

void tear_down(void)
{
    http2_session_free(session);
}
