#include "proxy/exchange/exchange.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "one_exchange.h"
#include "support/iterations.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "max: {body: 16KiB}\n"
    "timeouts: {idle: 2s}\n"
    "upstreams:\n"
    "  api: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}}\n"
    "  slow: {servers: [http://127.0.0.1:PORT], timeout: {response: 1s}}\n"
    "limits:\n"
    "  client: {key: client.ip, rate: 10/minute}\n"
    "routes:\n"
    "- {match: {path: /free}, limits: [], upstream: api}\n"
    "- {match: {path: /slow}, limits: [], upstream: slow, max_body: 1GiB}\n"
    "- {match: {path: /large}, limits: [], upstream: api, max_body: 1GiB}\n"
    "- {match: {path: /api}, limits: [client], upstream: api}\n";

static void set_up(void)
{
    one_exchange_open(POLICY);
}

static void tear_down(void)
{
    one_exchange_close();
}

/* --- the request's body --- */

static const char POST[] = "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n";
static const char POST_CHUNKED[] =
    "POST /api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char OK_EMPTY[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

START_TEST(a_head_goes_out_although_its_body_is_late)
{
    const int fd = begin_post(POST);
    server_read_until(&stage, fd, "\r\n\r\n");
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "hello");
    fake_client_send_body(&client, " world", true);
    server_read_until(&stage, fd, " world");
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(a_body_of_unknown_length_goes_out_chunked)
{
    const int fd = begin_post(POST_CHUNKED);
    server_read_until(&stage, fd, "Transfer-Encoding: chunked\r\n");
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "5\r\nhello\r\n");
    fake_client_send_body(&client, "", true);
    server_read_until(&stage, fd, "0\r\n\r\n");
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(a_body_of_unknown_length_that_grows_too_large_is_refused)
{
    static char large[16 * 1024 + 2];
    memset(large, 'x', sizeof(large) - 1);
    const int fd = begin_post(POST_CHUNKED);
    fake_client_send_body(&client, large, false);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("413 Content Too Large\r\n");
    close(fd);
}
END_TEST

START_TEST(a_bad_body_is_refused_and_never_completed_upstream)
{
    const struct http_error error = {.status = 400, .reason = "a chunk's size is not hexadecimal"};
    const int fd = begin_post(POST_CHUNKED);
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "5\r\nhello\r\n");
    exchange_on_bad_body(client.exchange, &error);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("400 Bad Request\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(an_early_answer_ends_the_exchange_and_the_upstream)
{
    const int fd = begin_post(POST);
    server_read_until(&stage, fd, "\r\n\r\n");
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("200 OK\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

/* --- the answer --- */

START_TEST(a_head_without_body_yet_is_passed_on)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    await_sends(1);
    assert_answer("200 OK\r\nContent-Length: 2\r\nDate: DATE\r\n\r\n");
    server_send(fd, "hi");
    await_end();
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(a_head_with_no_more_than_a_chunk_line_is_passed_on)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n");
    await_sends(1);
    assert_answer("200 OK\r\nDate: DATE\r\n\r\n");
    server_send(fd, "hi\r\n0\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("\r\n\r\nhi"));
    close(fd);
}
END_TEST

START_TEST(nothing_is_sent_to_a_blocked_client_until_it_is_drained)
{
    const int fd = begin_get("/free");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab");
    await_sends(1);
    server_send(fd, "cd");
    server_assert_left_alone(&stage);
    ck_assert_uint_eq(client.n_sends, 1);

    exchange_on_client_drained(client.exchange);
    await_sends(2);
    ck_assert(answer_has("\r\n\r\nabcd"));
    server_send(fd, "ef");
    server_assert_left_alone(&stage);
    exchange_on_client_drained(client.exchange);
    await_sends(3);
    ck_assert(client.is_ended);
    ck_assert(!client.is_over);
    exchange_on_client_drained(client.exchange);
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(interim_responses_are_passed_on_before_the_final_one)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"
                    "HTTP/1.1 204 No Content\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer("103 Early Hints\r\nLink: x\r\n\r\n103 Early Hints\r\n\r\n"
                  "204 No Content\r\nDate: DATE\r\n\r\n");
    close(fd);
}
END_TEST

START_TEST(a_client_blocked_by_an_interim_response_gets_the_final_one_when_drained)
{
    const int fd = begin_get("/free");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    await_sends(1);
    server_assert_left_alone(&stage);
    ck_assert_uint_eq(client.n_sends, 1);
    client.send_result = STREAM_DONE;
    exchange_on_client_drained(client.exchange);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("204 No Content\r\n"));
    close(fd);
}
END_TEST

/* The memory of what blocks is still in use: there is no room for another answer. */
START_TEST(a_bad_body_under_a_blocked_interim_response_cuts)
{
    const struct http_error error = {.status = 400, .reason = "bad"};
    const int fd = begin_post(POST_CHUNKED);
    server_read_until(&stage, fd, "\r\n\r\n");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    await_sends(1);
    exchange_on_bad_body(client.exchange, &error);
    assert_over(EXCHANGE_CLOSED);
    ck_assert_uint_eq(client.n_sends, 1);
    close(fd);
}
END_TEST

START_TEST(an_answer_to_head_has_the_length_and_no_body)
{
    fake_client_send_head(&client, "HEAD /free HTTP/1.1\r\nHost: a\r\n\r\n");
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer("200 OK\r\nContent-Length: 5\r\nDate: DATE\r\n\r\n");
    close(fd);
}
END_TEST

/* --- an upstream that fails --- */

static const char *const BAD_ANSWERS[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "no HTTP at all\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
};

START_TEST(a_bad_answer_is_502_and_ends_the_connection)
{
    const int fd = begin_get("/free");
    server_send(fd, BAD_ANSWERS[_i]);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_refused_connection_is_502)
{
    stage_stop_listening(&stage);
    fake_client_send_head(&client, "GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
}
END_TEST

START_TEST(a_connection_lost_before_the_head_is_502)
{
    const int fd = begin_get("/free");
    close(fd);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
    server_assert_left_alone(&stage);
}
END_TEST

static const char *const CUT_ANSWERS[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
};

START_TEST(an_answer_that_is_cut_short_never_looks_complete)
{
    const int fd = begin_get("/free");
    server_send(fd, CUT_ANSWERS[_i]);
    await_sends(1);
    close(fd);
    await_end();
    assert_over(EXCHANGE_CLOSED);
    ck_assert(!client.is_ended);
}
END_TEST

START_TEST(an_answer_that_ends_with_its_connection_is_whole)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 200 OK\r\n\r\nabc");
    close(fd);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("\r\n\r\nabc"));
}
END_TEST

/* --- time --- */

START_TEST(a_slow_upstream_is_504)
{
    const int fd = begin_get("/slow");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("504 Gateway Timeout\r\n");
    close(fd);
}
END_TEST

/* As soon as the request is sent, the upstream is waited for, not the client. */
START_TEST(a_slow_upstream_is_504_also_after_a_body)
{
    const int fd = begin_post("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    fake_client_send_body(&client, "hello", true);
    server_read_until(&stage, fd, "hello");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("504 Gateway Timeout\r\n");
    close(fd);
}
END_TEST

START_TEST(an_answer_that_stops_half_way_is_cut)
{
    const int fd = begin_get("/slow");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    await_end();
    assert_over(EXCHANGE_CLOSED);
    close(fd);
}
END_TEST

START_TEST(a_client_that_stops_half_way_is_408)
{
    const int fd = begin_post(POST);
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "hello");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("408 Request Timeout\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_cut)
{
    const int fd = begin_get("/free");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    await_end();
    assert_over(EXCHANGE_CLOSED);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

/* --- a server that does not read --- */

enum { PIECE_BYTES = 64 * 1024 };

static const char *large_piece(void)
{
    static char piece[PIECE_BYTES + 1];
    memset(piece, 'x', PIECE_BYTES);
    return piece;
}

START_TEST(a_server_that_does_not_read_stops_the_client_until_it_does)
{
    size_t n_sent = 0;
    const int fd =
        begin_post("POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    server_read_until(&stage, fd, "\r\n\r\n");
    while (client.wants_body) {
        fake_client_send_body(&client, large_piece(), false);
        n_sent += PIECE_BYTES;
        ck_assert_uint_lt(n_sent, 1000 * 1000 * 1000);
    }
    server_assert_left_alone(&stage);
    ck_assert(!client.wants_body);
    server_read_bytes(&stage, fd, n_sent);
    while (!client.wants_body) {
        iterations_once(stage.worker.env.loop);
    }
    close(fd);
}
END_TEST

START_TEST(a_server_that_never_reads_is_504)
{
    const int fd =
        begin_post("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    while (client.wants_body) {
        fake_client_send_body(&client, large_piece(), false);
    }
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("504 Gateway Timeout\r\n");
    close(fd);
}
END_TEST

static void add_bodies(Suite *suite)
{
    TCase *body = tcase_create("body");
    tcase_add_checked_fixture(body, set_up, tear_down);
    tcase_add_test(body, a_head_goes_out_although_its_body_is_late);
    tcase_add_test(body, a_body_of_unknown_length_goes_out_chunked);
    tcase_add_test(body, a_body_of_unknown_length_that_grows_too_large_is_refused);
    tcase_add_test(body, a_bad_body_is_refused_and_never_completed_upstream);
    tcase_add_test(body, an_early_answer_ends_the_exchange_and_the_upstream);
    suite_add_tcase(suite, body);
}

static void add_answers(Suite *suite)
{
    TCase *answer = tcase_create("answer");
    tcase_add_checked_fixture(answer, set_up, tear_down);
    tcase_add_test(answer, a_head_without_body_yet_is_passed_on);
    tcase_add_test(answer, a_head_with_no_more_than_a_chunk_line_is_passed_on);
    tcase_add_test(answer, nothing_is_sent_to_a_blocked_client_until_it_is_drained);
    tcase_add_test(answer, interim_responses_are_passed_on_before_the_final_one);
    tcase_add_test(answer, a_client_blocked_by_an_interim_response_gets_the_final_one_when_drained);
    tcase_add_test(answer, a_bad_body_under_a_blocked_interim_response_cuts);
    tcase_add_test(answer, an_answer_to_head_has_the_length_and_no_body);
    suite_add_tcase(suite, answer);
}

static void add_failures(Suite *suite)
{
    TCase *failure = tcase_create("failure");
    tcase_add_checked_fixture(failure, set_up, tear_down);
    tcase_add_loop_test(failure, a_bad_answer_is_502_and_ends_the_connection, 0,
                        ARRAY_LEN(BAD_ANSWERS));
    tcase_add_test(failure, a_refused_connection_is_502);
    tcase_add_test(failure, a_connection_lost_before_the_head_is_502);
    tcase_add_loop_test(failure, an_answer_that_is_cut_short_never_looks_complete, 0,
                        ARRAY_LEN(CUT_ANSWERS));
    tcase_add_test(failure, an_answer_that_ends_with_its_connection_is_whole);
    tcase_add_test(failure, a_slow_upstream_is_504);
    tcase_add_test(failure, a_slow_upstream_is_504_also_after_a_body);
    tcase_add_test(failure, an_answer_that_stops_half_way_is_cut);
    suite_add_tcase(suite, failure);
}

static void add_blocked(Suite *suite)
{
    TCase *blocked = tcase_create("blocked");
    tcase_add_checked_fixture(blocked, set_up, tear_down);
    tcase_add_test(blocked, a_client_that_stops_half_way_is_408);
    tcase_add_test(blocked, a_client_that_does_not_read_is_cut);
    tcase_add_test(blocked, a_server_that_does_not_read_stops_the_client_until_it_does);
    tcase_add_test(blocked, a_server_that_never_reads_is_504);
    suite_add_tcase(suite, blocked);
}

int main(void)
{
    Suite *suite = suite_create("proxy/exchange_upstream");
    add_bodies(suite);
    add_answers(suite);
    add_failures(suite);
    add_blocked(suite);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
