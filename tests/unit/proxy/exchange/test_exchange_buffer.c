/* The start of a body that is kept: what the tests of the whole program cannot time. */

#include "proxy/exchange/exchange.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "one_exchange.h"
#include "support/iterations.h"

static const char YAML[] = "listen: 127.0.0.1:1\n"
                           "log: off\n"
                           "upstreams:\n"
                           "  api: {servers: ['http://127.0.0.1:PORT'], buffer: {wait: 1h}}\n"
                           "  quick: {servers: ['http://127.0.0.1:PORT'],"
                           " buffer: {wait: 1ms, min_upload: off}}\n"
                           "limits: {queue: {key: global, algorithm: leaky_bucket, rate: 1/s,"
                           " max_wait: 1s}}\n"
                           "routes:\n"
                           "- {match: {path: /quick}, limits: [], upstream: quick}\n"
                           "- {match: {path: /shaped}, limits: [queue], upstream: api}\n"
                           "- {limits: [], upstream: api}\n";

static void set_up(void)
{
    one_exchange_open(YAML);
    client.body_comes_late = true;
}

static void tear_down(void)
{
    one_exchange_close();
}

static uint64_t buffered_bytes(void)
{
    return counter_read(&stage.worker.env.meters->buffered_bytes);
}

START_TEST(pieces_are_kept_and_go_out_behind_the_head)
{
    fake_client_send_head(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n");
    ck_assert_int_eq(client.exchange->state, EXCHANGE_BUFFER);
    ck_assert_uint_eq(buffered_bytes(), 0);
    fake_client_send_body(&client, "abc", false);
    server_assert_left_alone(&stage);
    ck_assert_uint_gt(buffered_bytes(), 0);
    fake_client_send_body(&client, "def", true);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\nabcdef");
    ck_assert_uint_eq(buffered_bytes(), 0);
    ck_assert_ptr_null(client.exchange->buffer);
    ck_assert_uint_eq(client.exchange->request_bytes, 6);
    close(fd);
    await_end();
}
END_TEST

START_TEST(a_client_that_does_not_take_our_100_at_once_is_asked_on)
{
    client.send_result = STREAM_BLOCKED;
    fake_client_send_head(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                                   "Expect: 100-continue\r\n\r\n");
    assert_answer_starts("100 Continue");
    ck_assert(client.exchange->is_client_blocked && client.wants_body);
    client.send_result = STREAM_DONE;
    exchange_on_client_drained(client.exchange);
    ck_assert(!client.exchange->is_client_blocked);
    fake_client_send_body(&client, "abc", true);
    const int fd = server_accept(&stage);
    ck_assert_ptr_null(strstr(server_read_until(&stage, fd, "\r\n\r\nabc"), "Expect"));
    close(fd);
    await_end();
}
END_TEST

START_TEST(a_client_that_leaves_at_our_100_is_gone)
{
    client.send_result = STREAM_BROKEN;
    fake_client_send_head(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                                   "Expect: 100-continue\r\n\r\n");
    assert_over(EXCHANGE_CLOSED);
    ck_assert_uint_eq(buffered_bytes(), 0);
    ck_assert_uint_eq(counter_read(&stage.worker.env.meters->buffering), 0);
}
END_TEST

/* Asked for by the server's 100, they would come behind the departures, all at once. */
START_TEST(a_body_of_any_length_is_asked_for_before_a_decision_on_a_departure)
{
    static const char *const LENGTHS[] = {"Transfer-Encoding: chunked", "Content-Length: 1000000"};
    char head[160];
    (void)snprintf(head, sizeof(head),
                   "POST /shaped HTTP/1.1\r\nHost: a\r\n%s\r\nExpect: 100-continue\r\n\r\n",
                   LENGTHS[_i]);
    fake_client_send_head(&client, head);
    ck_assert_int_eq(client.exchange->state, EXCHANGE_BUFFER);
    assert_answer_starts("100 Continue");
    server_assert_left_alone(&stage);
}
END_TEST

START_TEST(what_came_in_the_wait_goes_out_and_the_rest_follows)
{
    fake_client_send_head(&client, "POST /quick HTTP/1.1\r\nHost: a\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n");
    fake_client_send_body(&client, "abc", false);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n3\r\nabc\r\n");
    ck_assert_uint_eq(buffered_bytes(), 0);
    fake_client_send_body(&client, "defg", true);
    server_read_until(&stage, fd, "4\r\ndefg\r\n0\r\n\r\n");
    close(fd);
    await_end();
}
END_TEST

START_TEST(an_empty_body_of_unknown_length_is_whole)
{
    fake_client_send_head(&client, "POST / HTTP/1.1\r\nHost: a\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n");
    fake_client_send_body(&client, "", true);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n0\r\n\r\n");
    close(fd);
    await_end();
}
END_TEST

/* Else bodies that each have a block wait for one another, until all are refused. */
START_TEST(a_body_with_a_block_goes_out_when_it_finds_no_other_in_time)
{
    static char body[SMALL_BLOCK_BYTES + 2000];
    struct body_buffers *buffers = &stage.worker.env.body_buffers;
    memset(body, 'a', sizeof(body) - 2);
    body[sizeof(body) - 2] = 'b';
    buffers->max_bytes =
        (uint64_t)BODY_BUFFER_SHARES * SMALL_BLOCK_BYTES; /* its share is a block */
    fake_client_send_head(&client,
                          "POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 10193\r\n\r\n");
    fake_client_send_body(&client, body, false);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "ab");
    buffers->max_bytes *= 2; /* there is room, of which it has no need */
    iterations_for(stage.worker.env.loop, BODY_BUFFER_RETRY_US * 2);
    ck_assert_int_eq(client.exchange->state, EXCHANGE_FORWARD);
    ck_assert_uint_eq(buffered_bytes(), 0);
    fake_client_send_body(&client, "cd", true);
    server_read_until(&stage, fd, "cd");
    close(fd);
    await_end();
}
END_TEST

START_TEST(a_body_without_a_block_is_refused_when_it_finds_none_in_time)
{
    stage.worker.env.body_buffers.max_bytes = 0;
    fake_client_send_head(&client, "POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    fake_client_send_body(&client, "abc", false);
    await_end();
    assert_answer_starts("503 Service Unavailable");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange_buffer");
    TCase *tests = tcase_create("exchange_buffer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, pieces_are_kept_and_go_out_behind_the_head);
    tcase_add_test(tests, a_client_that_does_not_take_our_100_at_once_is_asked_on);
    tcase_add_test(tests, a_client_that_leaves_at_our_100_is_gone);
    tcase_add_loop_test(tests, a_body_of_any_length_is_asked_for_before_a_decision_on_a_departure,
                        0, 2);
    tcase_add_test(tests, what_came_in_the_wait_goes_out_and_the_rest_follows);
    tcase_add_test(tests, an_empty_body_of_unknown_length_is_whole);
    tcase_add_test(tests, a_body_with_a_block_goes_out_when_it_finds_no_other_in_time);
    tcase_add_test(tests, a_body_without_a_block_is_refused_when_it_finds_none_in_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
