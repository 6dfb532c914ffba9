/* The client's side of a session, by raw frames of a server. */

#include "http2/client_session.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2/session_inner.h"

enum { TEXT_MAX = 4096, FRAME_HEAD = 9, REQUESTS_MAX = 8, WINDOW = 65535 };

/* A request, with the memory of its answer's heads. */
struct request {
    struct http2_stream stream;
    struct head head;
    struct field fields[8];
    char bytes[512];
};

static struct http2_session *session;
static struct request requests[REQUESTS_MAX];
static struct http2_room room;
static char text[TEXT_MAX];
static uint64_t now_us = 1;

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

/* Write all that is due. */
static void pack(void)
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

static void take_events(struct span bytes)
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

static void frame(unsigned type, unsigned flags, unsigned id, const void *payload, size_t len)
{
    char bytes[1024];
    const char head[FRAME_HEAD] = {0, (char)(len >> 8), (char)len, (char)type, (char)flags, 0,
                                   0, (char)(id >> 8),  (char)id};
    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), payload, len);
    take_events(span_of(bytes, sizeof(head) + len));
}

#define FRAME(type, flags, id, payload) frame(type, flags, id, payload, sizeof(payload) - 1)

/* Fields "name=value name=value", each a literal that is not indexed. */
static void headers(unsigned flags, unsigned id, const char *fields)
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

static void open_request(unsigned i, bool is_head, bool is_last)
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

static void set_up(void)
{
    const struct http2_config config = {
        .streams_max = REQUESTS_MAX, .head_bytes_max = 65536, .stream_window = WINDOW};
    memset(requests, 0, sizeof(requests));
    room = (struct http2_room){0};
    text[0] = 0;
    session = http2_session_new_client(&config, 0);
    ck_assert_ptr_nonnull(session);
}

static void tear_down(void)
{
    http2_session_free(session);
}

/* The handshake, and one request that is out. */
static void begin(bool is_head)
{
    FRAME(4, 0, 0, "");
    open_request(0, is_head, true);
    pack();
    FRAME(4, 1, 0, "");
    text[0] = 0;
}

START_TEST(a_request_and_its_answer)
{
    open_request(0, false, true);
    pack();
    ck_assert_str_eq(text, "preface\nSETTINGS 0\nWINDOW_UPDATE 0\nHEADERS 1 end\n");
    text[0] = 0;
    FRAME(4, 0, 0, "");
    headers(0, 1, ":status=200 a=b");
    FRAME(0, 1, 1, "hello");
    ck_assert_str_eq(text, "head 1 200 body=2 error=0\nbody 1 hello last\n");
    http2_stream_took(&requests[0].stream, 5);
    http2_stream_release(&requests[0].stream);
    text[0] = 0;
    pack();
    ck_assert_str_eq(text, "SETTINGS 0\n");
    ck_assert_uint_eq(http2_session_streams(session), 0);
}
END_TEST

/* Answers, and what they make of the stream of a GET, or of a HEAD. */
static const struct answer {
    const char *what;
    bool is_head;
    const char *fields;
    unsigned flags;
    const char *data; /* NULL: none */
    const char *transcript;
} ANSWERS[] = {
    {"interim", false, ":status=103", 0, NULL, "head 1 103 body=0 error=0\n"},
    {"an interim one that ends", false, ":status=103", 1, NULL, "malformed 1\nRST_STREAM 1 1\n"},
    {"a length", false, ":status=200 content-length=3", 0, "abc",
     "head 1 200 body=1 error=0\nbody 1 abc last\n"},
    {"less than the length", false, ":status=200 content-length=4", 0, "abc",
     "head 1 200 body=1 error=0\nreset 1\nRST_STREAM 1 1\n"},
    {"more than the length", false, ":status=200 content-length=2", 0, "abc",
     "head 1 200 body=1 error=0\nreset 1\nRST_STREAM 1 1\n"},
    {"a length without a body", false, ":status=200 content-length=2", 1, NULL,
     "malformed 1\nRST_STREAM 1 1\n"},
    {"to HEAD", true, ":status=200 content-length=2", 1, NULL, "head 1 200 body=0 error=0 last\n"},
    {"to HEAD, with a body", true, ":status=200 content-length=2", 0, "ab",
     "head 1 200 body=0 error=0\nreset 1\nRST_STREAM 1 1\n"},
    {"204 with a body", false, ":status=204", 0, "ab",
     "head 1 204 body=0 error=0\nreset 1\nRST_STREAM 1 1\n"},
    {"no status", false, "a=b", 0, NULL, "malformed 1\nRST_STREAM 1 1\n"},
    {"101", false, ":status=101", 0, NULL, "malformed 1\nRST_STREAM 1 1\n"},
    {"a pseudo-field of requests", false, ":status=200 :path=/", 0, NULL,
     "malformed 1\nRST_STREAM 1 1\n"},
    {"upper case", false, ":status=200 A=b", 0, NULL, "malformed 1\nRST_STREAM 1 1\n"},
    {"a field of the connection", false, ":status=200 connection=close", 0, NULL,
     "malformed 1\nRST_STREAM 1 1\n"},
    {"too many fields", false, ":status=200 a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1", 0, NULL,
     "head 1 0 body=0 error=431\n"},
};

START_TEST(answers_by_the_rules_of_heads)
{
    const struct answer *answer = &ANSWERS[_i];
    begin(answer->is_head);
    headers(answer->flags, 1, answer->fields);
    if (answer->data != NULL) {
        frame(0, 1, 1, answer->data, strlen(answer->data));
    }
    http2_stream_release(&requests[0].stream);
    const size_t len = strlen(text);
    pack();
    char *settings = strstr(text + len, "SETTINGS 0\n");
    if (settings != NULL) {
        memmove(settings, settings + strlen("SETTINGS 0\n"), strlen(settings + 10));
    }
    if (strstr(answer->transcript, "RST_STREAM") == NULL) {
        text[len] = 0; /* a reset for the release */
    }
    ck_assert_msg(strcmp(text, answer->transcript) == 0, "%s:\n%s", answer->what, text);
}
END_TEST

START_TEST(trailers_end_an_answer)
{
    begin(false);
    headers(0, 1, ":status=200");
    FRAME(0, 0, 1, "x");
    headers(1, 1, "a=b c=d");
    ck_assert_str_eq(text, "head 1 200 body=2 error=0\nbody 1 x\ntrailers 1 2\n");
}
END_TEST

START_TEST(data_before_the_head_is_a_fault_of_the_stream)
{
    begin(false);
    headers(0, 1, ":status=103");
    FRAME(0, 0, 1, "x");
    ck_assert_str_eq(text, "head 1 103 body=0 error=0\nreset 1\n");
}
END_TEST

START_TEST(a_reset_and_a_refusal)
{
    begin(false);
    open_request(1, false, true);
    pack();
    text[0] = 0;
    FRAME(3, 0, 1, "\0\0\0\2");
    FRAME(3, 0, 3, "\0\0\0\7");
    ck_assert_str_eq(text, "reset 1 by peer\nreset 3 by peer unprocessed\n");
}
END_TEST

START_TEST(a_late_refusal_does_not_say_that_nothing_was_done)
{
    begin(false);
    open_request(1, false, true);
    pack();
    text[0] = 0;
    now_us += 249999;
    FRAME(3, 0, 1, "\0\0\0\7");
    now_us += 1;
    FRAME(3, 0, 3, "\0\0\0\7");
    ck_assert_str_eq(text, "reset 1 by peer unprocessed\nreset 3 by peer\n");
}
END_TEST

START_TEST(a_refusal_is_judged_by_what_the_server_said_before)
{
    open_request(0, false, true);
    open_request(1, false, true);
    pack();
    FRAME(4, 0, 0, "\0\3\0\0\0\1");
    open_request(2, false, true);
    open_request(3, false, true);
    pack();
    headers(0, 5, ":status=103");
    FRAME(8, 0, 7, "\0\0\0\1");
    text[0] = 0;
    for (unsigned i = 0; i < 4; i++) {
        FRAME(3, 0, i * 2 + 1, "\0\0\0\7");
    }
    ck_assert_str_eq(text, "reset 1 by peer unprocessed\nreset 3 by peer unprocessed\n"
                           "reset 5 by peer\nreset 7 by peer\n");
    ck_assert(http2_stream_is_declined_unproven(&requests[0].stream));
    ck_assert(!http2_stream_is_declined_unproven(&requests[1].stream)); /* one too many */
}
END_TEST

START_TEST(goaway_tells_what_was_not_processed)
{
    begin(false);
    open_request(1, false, true);
    pack();
    text[0] = 0;
    ck_assert(http2_session_may_open(session));
    FRAME(7, 0, 0, "\0\0\0\1\0\0\0\0");
    ck_assert_str_eq(text, "reset 3 by peer unprocessed\n");
    ck_assert(!http2_session_may_open(session) && !http2_session_takes_requests(session));
    headers(1, 1, ":status=200");
    ck_assert_str_eq(text, "reset 3 by peer unprocessed\nhead 1 200 body=2 error=0 last\n");
}
END_TEST

START_TEST(the_streams_that_are_granted_are_kept_to)
{
    FRAME(4, 0, 0, "\0\3\0\0\0\2");
    ck_assert_uint_eq(http2_session_granted(session), 2);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(http2_session_may_open(session));
        open_request(i, false, true);
    }
    ck_assert(!http2_session_may_open(session) && http2_session_takes_requests(session));
    pack();
    http2_stream_release(&requests[0].stream);
    ck_assert(http2_session_may_open(session));
}
END_TEST

START_TEST(a_request_that_was_not_sent_is_withdrawn_without_a_frame)
{
    FRAME(4, 0, 0, "");
    pack();
    text[0] = 0;
    open_request(0, false, true);
    ck_assert(http2_stream_is_unprocessed(&requests[0].stream));
    http2_stream_release(&requests[0].stream);
    pack();
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_request_that_is_left_is_cancelled_or_dropped)
{
    begin(false);
    ck_assert(!http2_stream_is_unprocessed(&requests[0].stream));
    (_i == 0 ? http2_stream_release : http2_stream_drop)(&requests[0].stream);
    pack();
    ck_assert_str_eq(text, _i == 0 ? "RST_STREAM 1 8\n" : "");
    text[0] = 0;
    headers(0, 1, ":status=200"); /* on its way: ignored */
    FRAME(0, 1, 1, "late");
    ck_assert_str_eq(text, "");
    ck_assert(!http2_session_is_failed(session));
}
END_TEST

START_TEST(a_body_waits_for_the_window)
{
    FRAME(4, 0, 0, "\0\4\0\0\0\3");
    open_request(0, false, false);
    http2_stream_send(&requests[0].stream, SPAN("abcde"), true, NULL);
    pack();
    ck_assert_ptr_nonnull(strstr(text, "HEADERS 1\nDATA 1 3\n"));
    text[0] = 0;
    FRAME(8, 0, 1, "\0\0\0\2");
    pack();
    ck_assert_str_eq(text, "window 1\nDATA 1 2 end\n");
    text[0] = 0;
    FRAME(8, 0, 1, "\0\0\0\2"); /* told once */
    FRAME(8, 0, 0, "\0\0\0\2");
    ck_assert_str_eq(text, "");
}
END_TEST

/* --- what comes late --- */

/* All bytes of the connection's window are open, or are yet to be granted again: once each. */
static void check_window(void)
{
    ck_assert_int_eq(session->receive_window + session->unreturned, INT32_MAX);
}

/* The connection is as it was for others: it answers a request. */
static void check_next(unsigned i)
{
    open_request(i, false, true);
    pack();
    ck_assert_ptr_null(strstr(text, "GOAWAY"));
    text[0] = 0;
    const int id = requests[i].stream.id;
    char expected[64];
    headers(1, (unsigned)id, ":status=200");
    (void)snprintf(expected, sizeof(expected), "head %d 200 body=2 error=0 last\n", id);
    ck_assert_str_eq(text, expected);
    ck_assert(!http2_session_is_failed(session));
    check_window();
}

/* An answer, and frames behind its end. */
static void send_twice(bool is_reset)
{
    headers(1, 1, ":status=200 grpc-status=4");
    if (is_reset) {
        FRAME(3, 0, 1, "\0\0\0\0");
    }
    headers(1, 1, ":status=200 grpc-status=4");
    headers(0, 1, "grpc-status=4");
    FRAME(0, 0, 1, "");
    FRAME(0, 9, 1, "\2late\0\0");
    FRAME(3, 0, 1, "\0\0\0\0");
    ck_assert_str_eq(text, "head 1 200 body=2 error=0 last\n");
}

START_TEST(an_answer_that_comes_twice_is_dropped)
{
    begin(false);
    send_twice(_i == 1);
    check_next(1);
}
END_TEST

START_TEST(an_answer_that_comes_twice_while_its_request_is_sent_is_dropped)
{
    FRAME(4, 0, 0, "");
    open_request(0, false, false);
    pack();
    FRAME(4, 1, 0, "");
    text[0] = 0;
    headers(1, 1, ":status=200");
    headers(1, 1, ":status=200");
    headers(0, 1, "a=b");
    FRAME(0, 9, 1, "\2late\0\0");
    ck_assert_str_eq(text, "head 1 200 body=2 error=0 last\n");
    ck_assert_ptr_null(room.stream);
    text[0] = 0;
    http2_stream_send(&requests[0].stream, SPAN("abc"), true, NULL);
    pack();
    ck_assert_str_eq(text, "DATA 1 3 end\n");
    check_next(1);
}
END_TEST

START_TEST(an_answer_that_was_reset_long_ago_is_dropped)
{
    begin(false);
    http2_stream_release(&requests[0].stream);
    for (unsigned i = 0; i < 300; i++) {
        open_request(1, false, true);
        pack();
        http2_stream_release(&requests[1].stream);
        pack();
        text[0] = 0;
    }
    headers(0, 1, ":status=200");
    FRAME(0, 0, 1, "late");
    headers(1, 1, "a=b");
    ck_assert_str_eq(text, "");
    check_next(2);
}
END_TEST

/* The server's table of fields goes on with what was dropped. */
START_TEST(the_fields_of_a_late_head_are_read)
{
    begin(false);
    open_request(1, false, true);
    pack();
    headers(1, 1, ":status=200");
    text[0] = 0;
    FRAME(1, 1, 1, "\x88\x40\1a");
    FRAME(9, 4, 1, "\1b");
    FRAME(1, 5, 3, "\x88\xbe");
    ck_assert_str_eq(text, "head 3 200 body=2 error=0 last\n");
    ck_assert_uint_eq(requests[1].head.n_fields, 1);
    ck_assert(span_equals(requests[1].head.fields[0].value, SPAN("b")));
    check_next(2);
}
END_TEST

START_TEST(what_comes_late_is_bounded)
{
    static const char piece[1000];
    const bool is_head = _i == 1;
    const size_t n_bytes = FRAME_HEAD + sizeof(piece);
    begin(false);
    headers(1, 1, ":status=200");
    for (uint64_t left = session->late_left; left >= n_bytes; left -= n_bytes) {
        frame(0, 0, 1, piece, sizeof(piece));
        check_window();
    }
    ck_assert(!http2_session_is_failed(session));
    text[0] = 0;
    if (is_head) {
        frame(1, 0, 1, "\x88", 1);
        frame(9, 4, 1, piece, sizeof(piece));
    } else {
        frame(0, 0, 1, piece, sizeof(piece));
    }
    pack();
    ck_assert_ptr_nonnull(strstr(text, "GOAWAY 0 11\n"));
}
END_TEST

START_TEST(late_frames_that_are_empty_are_bounded)
{
    begin(false);
    headers(1, 1, ":status=200");
    for (uint64_t left = session->late_left; left >= FRAME_HEAD; left -= FRAME_HEAD) {
        ck_assert(!http2_session_is_failed(session));
        FRAME(0, 0, 1, "");
    }
    ck_assert(!http2_session_is_failed(session));
    FRAME(0, 0, 1, "");
    ck_assert(http2_session_is_failed(session));
}
END_TEST

START_TEST(what_may_come_late_grows_with_requests_up_to_a_bound)
{
    begin(false);
    const uint64_t once = session->late_left;
    ck_assert_uint_ge(once, WINDOW);
    session->late_left = INT32_MAX - once - 1;
    open_request(1, false, true);
    ck_assert_uint_eq(session->late_left, INT32_MAX - 1);
    open_request(2, false, true);
    ck_assert_uint_eq(session->late_left, INT32_MAX);
}
END_TEST

/* Open a request, and send as much of @body as may be. Returns how much was sent. */
static size_t upload(unsigned i, struct span body)
{
    open_request(i, false, false);
    http2_stream_send(&requests[i].stream, body, true, NULL);
    pack();
    return body.len - http2_stream_unsent(&requests[i].stream);
}

START_TEST(a_request_has_a_share_of_the_window_once_updates_are_known)
{
    static char body[WINDOW];
    const struct span all = span_of(body, sizeof(body));
    FRAME(4, 0, 0, "");
    for (unsigned i = 0; i < 8; i++) {
        FRAME(8, 0, 0, "\0\0\0\x64");
    }
    const size_t first = upload(0, all);
    const size_t second = upload(1, all);
    const size_t third = upload(2, all);
    ck_assert_uint_le(first, WINDOW / 4 + 400);
    ck_assert_uint_ge(first, WINDOW / 4 - 400);
    ck_assert(third > 0 && third < second && second < first);
    ck_assert_uint_eq(upload(3, span_of(body, 1000)), 1000);
    /* The server reads of the first: it goes on, and so do the others by what that leaves them. */
    FRAME(8, 0, 1, "\0\0\x20\0");
    pack();
    ck_assert_uint_gt(all.len - http2_stream_unsent(&requests[0].stream), first);
    FRAME(8, 0, 0, "\0\0\x40\0");
    pack();
    ck_assert_uint_gt(all.len - http2_stream_unsent(&requests[1].stream), second);
    ck_assert(!http2_session_is_failed(session));
}
END_TEST

START_TEST(nobody_is_held_back_until_updates_are_known)
{
    static char body[WINDOW];
    FRAME(4, 0, 0, "");
    for (unsigned i = 0; i < 7; i++) {
        FRAME(8, 0, 0, "\0\0\0\x64");
    }
    ck_assert_uint_eq(upload(0, span_of(body, sizeof(body))), WINDOW);
    ck_assert_uint_eq(upload(1, span_of(body, 700)), 700);
}
END_TEST

START_TEST(a_window_is_narrow_when_little_of_it_is_open_for_a_while)
{
    static char body[WINDOW];
    FRAME(4, 0, 0, "");
    ck_assert(!http2_session_is_narrow(session, UINT64_MAX));
    ck_assert_uint_eq(upload(0, span_of(body, sizeof(body))), WINDOW);
    ck_assert(!http2_session_is_narrow(session, HTTP2_NARROW_US));
    ck_assert(http2_session_is_narrow(session, 1 + HTTP2_NARROW_US));
    FRAME(8, 0, 0, "\0\0\x80\0");
    ck_assert(!http2_session_is_narrow(session, 1 + HTTP2_NARROW_US));
}
END_TEST

START_TEST(heads_are_measured_as_the_server_does)
{
    const struct field fields[] = {{.name = SPAN("abc"), .value = SPAN("de")},
                                   {.name = SPAN("abc"), .value = SPAN("de"), .hop_by_hop = true}};
    const struct http2_fields list = {fields, ARRAY_LEN(fields)};
    ck_assert(http2_session_takes_head(session, &list));
    FRAME(4, 0, 0, "\0\6\0\0\0\x25");
    ck_assert(http2_session_takes_head(session, &list));
    FRAME(4, 0, 0, "\0\6\0\0\0\x24");
    ck_assert(!http2_session_takes_head(session, &list));
}
END_TEST

START_TEST(the_server_tells_whose_fault_an_end_is)
{
    begin(false);
    open_request(1, false, true);
    open_request(2, false, true);
    pack();
    FRAME(3, 0, 1, "\0\0\0\x0b");
    FRAME(3, 0, 3, "\0\0\0\2");
    ck_assert(http2_stream_is_refused(&requests[0].stream));
    ck_assert(!http2_stream_is_refused(&requests[1].stream));
    ck_assert(http2_stream_is_too_much(&requests[0].stream));
    ck_assert(!http2_stream_is_too_much(&requests[1].stream));
    ck_assert_int_eq(http2_session_goaway(session), HTTP2_GOAWAY_NONE);
    FRAME(7, 0, 0, "\0\0\0\5\0\0\0\0");
    ck_assert_int_eq(http2_session_goaway(session), HTTP2_GOAWAY_FINE);
    FRAME(7, 0, 0, "\0\0\0\5\0\0\0\2");
    ck_assert_int_eq(http2_session_goaway(session), HTTP2_GOAWAY_ERROR);
    FRAME(7, 0, 0, "\0\0\0\3\0\0\0\1");
    ck_assert_int_eq(http2_session_goaway(session), HTTP2_GOAWAY_REFUSAL);
    ck_assert(http2_stream_is_unprocessed(&requests[2].stream) &&
              !http2_stream_is_refused(&requests[2].stream));
}
END_TEST

/* Bytes that one stream's user has not taken close its window alone. */
START_TEST(the_window_of_the_connection_stays_open)
{
    static char piece[1000];
    begin(false);
    open_request(1, false, true);
    pack();
    headers(0, 1, ":status=200");
    headers(0, 3, ":status=200");
    for (unsigned i = 0; i < WINDOW / sizeof(piece); i++) {
        frame(0, 0, 1, piece, sizeof(piece));
    }
    for (unsigned i = 0; i < WINDOW / sizeof(piece); i++) {
        frame(0, 0, 3, piece, sizeof(piece));
    }
    ck_assert(!http2_session_is_failed(session));
    frame(0, 0, 1, piece, sizeof(piece)); /* above the stream's window */
    ck_assert(http2_session_is_failed(session));
}
END_TEST

/* What ends the connection. */
static const struct fault {
    const char *what;
    unsigned type, flags, id;
    const char *payload;
    size_t len;
    int32_t faulty_id;
} FAULTS[] = {
    {"SETTINGS on a stream", 4, 0, 1, "", 0, 1},
    {"DATA before a head", 0, 0, 1, "x", 1, 1},
    {"DATA on stream 0", 0, 0, 0, "x", 1, 0},
    {"DATA on an idle stream", 0, 0, 5, "x", 1, 0},
    {"a head on an idle stream", 1, 4, 5, "\x88", 1, 0},
    {"a stream of the server", 1, 4, 2, "\x88", 1, 0},
    {"a push", 5, 4, 1, "\0\0\0\2\x88", 5, 1},
    {"a block that is no HPACK", 1, 4, 1, "\xff\xff\xff\xff\xff\xff", 6, 1},
    {"a window that overflows", 8, 0, 0, "\x7f\xff\xff\xff", 4, 0},
};

START_TEST(faults_end_the_connection)
{
    const struct fault *fault = &FAULTS[_i];
    begin(false);
    frame(fault->type, fault->flags, fault->id, fault->payload, fault->len);
    pack();
    ck_assert_msg(strstr(text, "GOAWAY 0") != NULL, "%s:\n%s", fault->what, text);
    ck_assert_int_eq(http2_session_faulty_id(session), fault->faulty_id);
}
END_TEST

START_TEST(a_block_that_is_interrupted_is_at_fault)
{
    begin(false);
    open_request(1, false, true);
    pack();
    FRAME(1, 0, 3, "\x88");
    FRAME(0, 0, 1, "x");
    ck_assert(http2_session_is_failed(session));
    ck_assert_int_eq(http2_session_faulty_id(session), 3);
}
END_TEST

START_TEST(a_server_of_http_1_1_is_a_fault)
{
    take_events(SPAN("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
    pack();
    ck_assert(http2_session_is_failed(session) && http2_session_is_over(session));
    ck_assert_int_eq(http2_session_faulty_id(session), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_session");
    TCase *tcase = tcase_create("client_session");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_request_and_its_answer);
    tcase_add_loop_test(tcase, answers_by_the_rules_of_heads, 0, ARRAY_LEN(ANSWERS));
    tcase_add_test(tcase, trailers_end_an_answer);
    tcase_add_test(tcase, data_before_the_head_is_a_fault_of_the_stream);
    tcase_add_test(tcase, a_reset_and_a_refusal);
    tcase_add_test(tcase, a_late_refusal_does_not_say_that_nothing_was_done);
    tcase_add_test(tcase, a_refusal_is_judged_by_what_the_server_said_before);
    tcase_add_test(tcase, goaway_tells_what_was_not_processed);
    tcase_add_test(tcase, the_streams_that_are_granted_are_kept_to);
    tcase_add_test(tcase, a_request_that_was_not_sent_is_withdrawn_without_a_frame);
    tcase_add_loop_test(tcase, a_request_that_is_left_is_cancelled_or_dropped, 0, 2);
    tcase_add_loop_test(tcase, an_answer_that_comes_twice_is_dropped, 0, 2);
    tcase_add_test(tcase, an_answer_that_comes_twice_while_its_request_is_sent_is_dropped);
    tcase_add_test(tcase, an_answer_that_was_reset_long_ago_is_dropped);
    tcase_add_test(tcase, the_fields_of_a_late_head_are_read);
    tcase_add_loop_test(tcase, what_comes_late_is_bounded, 0, 2);
    tcase_add_test(tcase, late_frames_that_are_empty_are_bounded);
    tcase_add_test(tcase, what_may_come_late_grows_with_requests_up_to_a_bound);
    tcase_add_test(tcase, a_body_waits_for_the_window);
    tcase_add_test(tcase, a_request_has_a_share_of_the_window_once_updates_are_known);
    tcase_add_test(tcase, nobody_is_held_back_until_updates_are_known);
    tcase_add_test(tcase, a_window_is_narrow_when_little_of_it_is_open_for_a_while);
    tcase_add_test(tcase, heads_are_measured_as_the_server_does);
    tcase_add_test(tcase, the_server_tells_whose_fault_an_end_is);
    tcase_add_test(tcase, the_window_of_the_connection_stays_open);
    tcase_add_loop_test(tcase, faults_end_the_connection, 0, ARRAY_LEN(FAULTS));
    tcase_add_test(tcase, a_block_that_is_interrupted_is_at_fault);
    tcase_add_test(tcase, a_server_of_http_1_1_is_a_fault);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
