/* The client's side of a session, by raw frames of a server. */

#include "http2/client_session.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2/session_inner.h"
#include "unit/http2/server_frames.h"

/* The handshake, and one request that is out. */
static void begin(bool is_head)
{
    FRAME(4, 0, 0, "");
    open_request(0, is_head, true);
    pack_all();
    FRAME(4, 1, 0, "");
    text[0] = 0;
}

START_TEST(a_request_and_its_answer)
{
    open_request(0, false, true);
    pack_all();
    ck_assert_str_eq(text, "preface\nSETTINGS 0\nWINDOW_UPDATE 0\nHEADERS 1 end\n");
    text[0] = 0;
    FRAME(4, 0, 0, "");
    headers(0, 1, ":status=200 a=b");
    FRAME(0, 1, 1, "hello");
    ck_assert_str_eq(text, "head 1 200 body=2 error=0\nbody 1 hello last\n");
    http2_stream_took(&requests[0].stream, 5);
    http2_stream_release(&requests[0].stream);
    text[0] = 0;
    pack_all();
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
    pack_all();
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
    pack_all();
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
    pack_all();
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
    pack_all();
    FRAME(4, 0, 0, "\0\3\0\0\0\1");
    open_request(2, false, true);
    open_request(3, false, true);
    pack_all();
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
    pack_all();
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
    pack_all();
    http2_stream_release(&requests[0].stream);
    ck_assert(http2_session_may_open(session));
}
END_TEST

START_TEST(a_request_that_was_not_sent_is_withdrawn_without_a_frame)
{
    FRAME(4, 0, 0, "");
    pack_all();
    text[0] = 0;
    open_request(0, false, true);
    ck_assert(http2_stream_is_unprocessed(&requests[0].stream));
    http2_stream_release(&requests[0].stream);
    pack_all();
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_request_that_is_left_is_cancelled_or_dropped)
{
    begin(false);
    ck_assert(!http2_stream_is_unprocessed(&requests[0].stream));
    (_i == 0 ? http2_stream_release : http2_stream_drop)(&requests[0].stream);
    pack_all();
    ck_assert_str_eq(text, _i == 0 ? "RST_STREAM 1 8\n" : "");
    text[0] = 0;
    headers(0, 1, ":status=200"); /* on its way: ignored */
    FRAME(0, 1, 1, "late");
    ck_assert_str_eq(text, "");
    ck_assert(!http2_session_is_failed(session));
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
    pack_all();
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
    pack_all();
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
    pack_all();
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
        pack_all();
        http2_stream_release(&requests[1].stream);
        pack_all();
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
    pack_all();
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
    pack_all();
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
    pack_all();
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
    pack_all();
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
    pack_all();
    ck_assert_msg(strstr(text, "GOAWAY 0") != NULL, "%s:\n%s", fault->what, text);
    ck_assert_int_eq(http2_session_faulty_id(session), fault->faulty_id);
}
END_TEST

START_TEST(a_block_that_is_interrupted_is_at_fault)
{
    begin(false);
    open_request(1, false, true);
    pack_all();
    FRAME(1, 0, 3, "\x88");
    FRAME(0, 0, 1, "x");
    ck_assert(http2_session_is_failed(session));
    ck_assert_int_eq(http2_session_faulty_id(session), 3);
}
END_TEST

START_TEST(a_server_of_http_1_1_is_a_fault)
{
    take_events(SPAN("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
    pack_all();
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
