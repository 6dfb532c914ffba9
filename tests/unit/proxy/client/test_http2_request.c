/* A stream as the client side of an exchange: bodies both ways, windows, answers and their ends. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http2_client.h"
#include "support/iterations.h"

enum { WINDOW = 65535, BODY_BYTES = 13333 };

static struct stage stage;
static struct http2_client client;
static char body[BODY_BYTES];

static void open_with(const char *more, uint32_t window)
{
    char policy[512];
    (void)snprintf(policy, sizeof(policy),
                   "listen: {address: 127.0.0.1:0, http: 2}\n"
                   "max: {http2_buffer: 64KiB}\n"
                   "limits: {l: {key: global, rate: 1/s%s}}\n"
                   "upstreams: {u: {servers: http://127.0.0.1:PORT, buffer: off}}\n"
                   "routes: [{limits: [l], upstream: u}]\n",
                   more);
    stage_open(&stage, policy);
    http2_client_open(&client, &stage, window);
    memset(body, 'x', sizeof(body));
}

static void teardown(void)
{
    http2_client_close(&client);
    stage_close(&stage);
}

static int server_take(void)
{
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\n");
    return server;
}

START_TEST(a_body_waits_for_its_server_and_windows_open_as_it_takes_the_bytes)
{
    open_with("", WINDOW);
    stage.store.mood = FAKE_PROMISES;
    http2_client_ask(&client, 1, "POST", "", CLIENT_GOES_ON);
    for (unsigned i = 0; i < 4; i++) {
        http2_client_data(&client, 1, body, sizeof(body), CLIENT_GOES_ON);
    }
    ck_assert_str_eq(http2_client_read(&client), "window 1 16384\n"); /* nobody took a byte */
    fake_store_answer(&stage.store, FAKE_ALLOWS);
    const int server = server_accept(&stage);
    const char *request = server_read_until(&stage, server, "\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(request, "Transfer-Encoding: chunked"));
    (void)http2_client_read_until(&client, "window 1 ");
    http2_client_data(&client, 1, body, 1, CLIENT_ENDS);
    (void)server_read_until(&stage, server, "0\r\n\r\n");
    server_send(server, "HTTP/1.1 204 No Content\r\n\r\n");
    (void)http2_client_read_until(&client, "head 1 204 end\n");
    close(server);
}
END_TEST

START_TEST(a_body_goes_on_while_its_server_takes_it)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "POST", "content-length: 6", CLIENT_GOES_ON);
    const int server = server_take();
    http2_client_data(&client, 1, "abc", 3, CLIENT_GOES_ON);
    (void)server_read_until(&stage, server, "abc");
    http2_client_data(&client, 1, "def", 3, CLIENT_ENDS);
    (void)server_read_until(&stage, server, "def");
    server_send(server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"), "head 1 200 end\n");
    close(server);
}
END_TEST

/* An upload of unknown length, whose head its server has read. */
static int begin_upload(uint32_t stream)
{
    http2_client_ask(&client, stream, "POST", "", CLIENT_GOES_ON);
    return server_take();
}

static void send_small(uint32_t stream, const char *pieces, enum http2_client_end end)
{
    for (const char *piece = pieces; *piece != 0; piece++) {
        http2_client_data(&client, stream, piece, 1, piece[1] == 0 ? end : CLIENT_GOES_ON);
    }
}

START_TEST(small_pieces_that_come_together_reach_the_server_as_one)
{
    open_with("", WINDOW);
    const int server = begin_upload(1);
    send_small(1, "a", CLIENT_GOES_ON); /* nothing else has come: it is passed on at once */
    ck_assert_str_eq(server_read_until(&stage, server, "\r\na\r\n"), "1\r\na\r\n");
    send_small(1, "bcd", CLIENT_GOES_ON);
    ck_assert_str_eq(server_read_until(&stage, server, "d\r\n"), "3\r\nbcd\r\n");
    send_small(1, "efghi", CLIENT_ENDS);
    ck_assert_str_eq(server_read_until(&stage, server, "0\r\n\r\n"), "5\r\nefghi\r\n0\r\n\r\n");
    close(server);
}
END_TEST

START_TEST(small_pieces_are_gathered_by_stream)
{
    open_with("", WINDOW);
    const int first = begin_upload(1);
    const int second = begin_upload(3);
    for (unsigned i = 0; i < 3; i++) {
        send_small(1, "a", CLIENT_GOES_ON);
        send_small(3, "b", CLIENT_GOES_ON);
    }
    ck_assert_str_eq(server_read_until(&stage, first, "a\r\n"), "3\r\naaa\r\n");
    ck_assert_str_eq(server_read_until(&stage, second, "b\r\n"), "3\r\nbbb\r\n");
    close(first);
    close(second);
}
END_TEST

START_TEST(a_long_piece_takes_the_small_ones_before_it_along)
{
    open_with("", WINDOW);
    const int server = begin_upload(1);
    send_small(1, "ab", CLIENT_GOES_ON);
    http2_client_data(&client, 1, body, 4000, CLIENT_GOES_ON);
    send_small(1, "cd", CLIENT_GOES_ON);
    const char *seen = server_read_until(&stage, server, "cd\r\n");
    ck_assert_ptr_eq(strstr(seen, "fa2\r\nabxx"), seen);
    ck_assert_ptr_nonnull(strstr(seen, "xx\r\n2\r\ncd\r\n"));
    close(server);
}
END_TEST

START_TEST(small_pieces_before_a_reset_go_nowhere)
{
    open_with("", WINDOW);
    const int server = begin_upload(1);
    send_small(1, "abc", CLIENT_GOES_ON);
    http2_client_reset(&client, 1);
    server_assert_closed(&stage, server);
    close(server);
}
END_TEST

START_TEST(an_answer_waits_for_the_window)
{
    open_with("", 10);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    server_send(server, "HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n0123456789012345678901234");
    ck_assert_str_eq(http2_client_read_until(&client, "data"), "head 1 200\ndata 1 10\n");
    ck_assert_str_eq(http2_client_read(&client), "");
    http2_client_window(&client, 1, 8);
    ck_assert_str_eq(http2_client_read_until(&client, "data"), "data 1 8\n");
    http2_client_window(&client, 1, 1000);
    ck_assert_str_eq(http2_client_read_until(&client, "data"), "data 1 7 end\n");
    close(server);
}
END_TEST

START_TEST(an_answer_waits_while_another_stream_goes_on)
{
    open_with("", 10);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int first = server_take();
    server_send(first, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n01234567890123456789");
    (void)http2_client_read_until(&client, "data 1 10\n");
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS);
    (void)server_read_until(&stage, first, "\r\n\r\n"); /* it has given its answer */
    server_send(first, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"), "head 3 200\ndata 3 2 end\n");
    close(first);
}
END_TEST

START_TEST(a_reset_ends_the_exchange_and_its_server_at_once)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    http2_client_reset(&client, 1);
    server_assert_closed(&stage, server);
    ck_assert_str_eq(http2_client_read(&client), "");
    close(server);
}
END_TEST

START_TEST(a_reset_before_the_verdict_cancels_the_decision)
{
    open_with("", WINDOW);
    stage.store.mood = FAKE_PROMISES;
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    while (stage.store.pending == NULL) {
        iterations_once(stage.worker.env.loop);
    }
    http2_client_reset(&client, 1);
    iterations_until_count(stage.worker.env.loop, &stage.store.n_cancelled, 1);
    server_assert_left_alone(&stage);
}
END_TEST

START_TEST(a_denied_upload_gets_its_answer_and_the_stream_ends)
{
    open_with("", WINDOW);
    stage.store.mood = FAKE_DENIES;
    http2_client_ask(&client, 1, "POST", "", CLIENT_GOES_ON);
    const char *seen = http2_client_read_until(&client, "reset 1 0\n");
    ck_assert_ptr_eq(strstr(seen, "head 1 429\n"), seen);
    ck_assert_ptr_nonnull(strstr(seen, " end\n"));
    http2_client_data(&client, 1, "late", 4, CLIENT_ENDS); /* it was on its way */
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS);
    ck_assert_ptr_nonnull(strstr(http2_client_read_until(&client, "end\n"), "head 3 429\n"));
}
END_TEST

START_TEST(a_denied_grpc_call_gets_one_head)
{
    open_with("", WINDOW);
    stage.store.mood = FAKE_DENIES;
    http2_client_ask(&client, 1, "POST", "content-type: application/grpc", CLIENT_GOES_ON);
    const char *seen = http2_client_read_until(&client, "end\n");
    ck_assert_ptr_eq(strstr(seen, "head 1 200 grpc-status=8"), seen);
    ck_assert_ptr_null(strstr(seen, "data"));
}
END_TEST

START_TEST(a_limit_says_which_status_a_denied_call_gets)
{
    open_with(", deny: {grpc: unavailable, status: 403}", WINDOW);
    stage.store.mood = FAKE_DENIES;
    http2_client_ask(&client, 1, "POST", "content-type: application/grpc", CLIENT_ENDS);
    ck_assert_ptr_nonnull(
        strstr(http2_client_read_until(&client, "end\n"), "head 1 200 grpc-status=14"));
    http2_client_ask(&client, 3, "POST", "", CLIENT_ENDS);
    ck_assert_ptr_nonnull(strstr(http2_client_read_until(&client, "end\n"), "head 3 403"));
}
END_TEST

START_TEST(an_undecided_call_is_unavailable)
{
    open_with(", on_failure: deny", WINDOW);
    stage.store.mood = FAKE_FAILS;
    http2_client_ask(&client, 1, "POST", "content-type: application/grpc", CLIENT_ENDS);
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"), "head 1 200 grpc-status=14 end\n");
}
END_TEST

static const char CHUNKED[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "2\r\nhi\r\n0\r\nX-Sum: 7\r\nGrpc-Status: 5\r\n\r\n";

START_TEST(trailers_come_behind_the_body)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "GET", "te: trailers", CLIENT_ENDS);
    const int server = server_take();
    server_send(server, CHUNKED);
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"),
                     "head 1 200\ndata 1 2\ntrailers 1 x-sum=7 grpc-status=5 end\n");
    close(server);
}
END_TEST

START_TEST(an_end_may_come_alone)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    server_send(server, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
    (void)http2_client_read_until(&client, "data 1 2\n");
    server_send(server, "0\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(http2_client_read_until(&client, "end\n"), "data 1 0 end\n"));
    close(server);
}
END_TEST

START_TEST(trailers_are_dropped_for_who_does_not_want_them)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    server_send(server, CHUNKED);
    const char *seen = http2_client_read_until(&client, "end\n");
    ck_assert_ptr_eq(strstr(seen, "head 1 200\ndata 1 2"), seen);
    ck_assert_ptr_null(strstr(seen, "trailers"));
    close(server);
}
END_TEST

START_TEST(an_answer_that_breaks_off_is_reset)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    server_send(server, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    (void)http2_client_read_until(&client, "data 1 4\n");
    close(server);
    ck_assert_str_eq(http2_client_read_until(&client, "reset"), "reset 1 2\n");
}
END_TEST

START_TEST(interim_answers_come_before_the_head)
{
    open_with("", WINDOW);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    server_send(server, "HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n"
                        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"),
                     "head 1 103 x-a=1\nhead 1 200 end\n");
    close(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/http2_request");
    TCase *tcase = tcase_create("http2_request");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, a_body_waits_for_its_server_and_windows_open_as_it_takes_the_bytes);
    tcase_add_test(tcase, a_body_goes_on_while_its_server_takes_it);
    tcase_add_test(tcase, small_pieces_that_come_together_reach_the_server_as_one);
    tcase_add_test(tcase, small_pieces_are_gathered_by_stream);
    tcase_add_test(tcase, a_long_piece_takes_the_small_ones_before_it_along);
    tcase_add_test(tcase, small_pieces_before_a_reset_go_nowhere);
    tcase_add_test(tcase, an_answer_waits_for_the_window);
    tcase_add_test(tcase, an_answer_waits_while_another_stream_goes_on);
    tcase_add_test(tcase, a_reset_ends_the_exchange_and_its_server_at_once);
    tcase_add_test(tcase, a_reset_before_the_verdict_cancels_the_decision);
    tcase_add_test(tcase, a_denied_upload_gets_its_answer_and_the_stream_ends);
    tcase_add_test(tcase, a_denied_grpc_call_gets_one_head);
    tcase_add_test(tcase, a_limit_says_which_status_a_denied_call_gets);
    tcase_add_test(tcase, an_undecided_call_is_unavailable);
    tcase_add_test(tcase, trailers_come_behind_the_body);
    tcase_add_test(tcase, an_end_may_come_alone);
    tcase_add_test(tcase, trailers_are_dropped_for_who_does_not_want_them);
    tcase_add_test(tcase, an_answer_that_breaks_off_is_reset);
    tcase_add_test(tcase, interim_answers_come_before_the_head);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
