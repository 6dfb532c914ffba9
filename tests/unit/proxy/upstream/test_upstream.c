#include "proxy/upstream/upstream.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "one_exchange.h"
#include "proxy/upstream/upstream_process.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "upstream: http://127.0.0.1:PORT\n";

static void set_up(void)
{
    one_exchange_open(POLICY);
}

static void tear_down(void)
{
    one_exchange_close();
}

static const char OK_EMPTY[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

static void serve_once(int fd)
{
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
}

START_TEST(a_connection_serves_one_exchange_after_another)
{
    const int fd = begin_get("/free");
    serve_once(fd);
    one_exchange_again();
    fake_client_send_head(&client, "GET /free HTTP/1.1\r\nHost: second\r\n\r\n");
    ck_assert(strstr(server_read_until(&stage, fd, "\r\n\r\n"), "Host: second\r\n") != NULL);
    serve_once(fd);
    close(fd);
}
END_TEST

static const char *const UNREUSABLE[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", /* answers nothing */
};

START_TEST(a_connection_that_does_not_end_cleanly_is_not_used_again)
{
    const int fd = begin_get("/free");
    server_send(fd, UNREUSABLE[_i]);
    await_end();
    assert_over(EXCHANGE_DONE);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(bytes_on_an_idle_connection_close_it_and_answer_nothing)
{
    const int fd = begin_get("/free");
    serve_once(fd);
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

/* The server takes the request and closes without a byte: it gave the idle connection up. */
static void lose_reused_connection(const char *head)
{
    const int fd = begin_get("/free");
    serve_once(fd);
    one_exchange_again();
    fake_client_send_head(&client, head);
    server_read_until(&stage, fd, "\r\n\r\n");
    close(fd);
}

START_TEST(a_reused_connection_that_dies_is_tried_again_once_on_a_fresh_one)
{
    lose_reused_connection("GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    const int second = server_accept(&stage);
    server_read_until(&stage, second, "\r\n\r\n");
    close(second);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
    server_assert_left_alone(&stage);
}
END_TEST

START_TEST(the_second_try_answers)
{
    lose_reused_connection("GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    const int second = server_accept(&stage);
    server_read_until(&stage, second, "\r\n\r\n");
    serve_once(second);
    assert_answer_starts("200 OK\r\n");
    close(second);
}
END_TEST

static const char *const NOT_AGAIN[] = {
    "POST /free HTTP/1.1\r\nHost: a\r\n\r\n",
    "PATCH /free HTTP/1.1\r\nHost: a\r\n\r\n",
};

START_TEST(what_is_not_idempotent_is_never_tried_again)
{
    lose_reused_connection(NOT_AGAIN[_i]);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
    server_assert_left_alone(&stage);
}
END_TEST

static const char *const UNSENT[] = {
    "GET /free HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /free HTTP/1.1\r\nHost: a\r\n\r\n",
};

/* The server has ended its side, or said what answers nothing, when the request has come but has
 * not been written: whatever its method, it was never sent there. */
static void answer_elsewhere(int idle, const char *head)
{
    fake_client_send_head(&client, head);
    const int second = server_accept(&stage);
    server_read_until(&stage, second, "\r\n\r\n");
    server_assert_closed(&stage, idle);
    serve_once(second);
    assert_answer_starts("200 OK\r\n");
    close(second);
    close(idle);
}

START_TEST(what_meets_the_end_of_an_idle_connection_is_sent_on_another_alone)
{
    const int fd = begin_get("/free");
    serve_once(fd);
    one_exchange_again();
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    answer_elsewhere(fd, UNSENT[_i]);
}
END_TEST

START_TEST(what_meets_bytes_that_answer_nothing_is_sent_on_another_connection_alone)
{
    const int fd = begin_get("/free");
    serve_once(fd);
    one_exchange_again();
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    answer_elsewhere(fd, UNSENT[_i]);
}
END_TEST

/* --- after an answer without a body --- */

static const char *const BODYLESS[] = {
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\n\r\n",
    "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
};

static int get_bodyless(const char *answer)
{
    const int fd = begin_get("/free");
    server_send(fd, answer);
    await_end();
    assert_over(EXCHANGE_DONE);
    one_exchange_again();
    return fd;
}

START_TEST(a_request_does_not_get_the_late_body_of_a_bodyless_answer)
{
    const int fd = get_bodyless(BODYLESS[_i]);
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    fake_client_send_head(&client, "POST /free HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    fake_client_send_body(&client, "body", true); /* head and body are sent at once */
    const int second = server_accept(&stage);
    server_read_until(&stage, second, "body");
    server_assert_closed(&stage, fd);
    serve_once(second);
    assert_answer_starts("200 OK\r\n");
    close(second);
    close(fd);
}
END_TEST

START_TEST(a_connection_whose_answer_was_bodyless_is_used_again)
{
    const int fd = get_bodyless(BODYLESS[_i]);
    fake_client_send_head(&client, "GET /free HTTP/1.1\r\nHost: second\r\n\r\n");
    ck_assert(strstr(server_read_until(&stage, fd, "\r\n\r\n"), "Host: second\r\n") != NULL);
    serve_once(fd);
    close(fd);
}
END_TEST

/* --- a connection of another worker --- */

static const char LIMITED[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "upstreams: {api: {servers: http://127.0.0.1:PORT, max_connections: 1}}\n"
    "routes: [{limits: [], upstream: api}]\n";

static void set_up_limited(void)
{
    one_exchange_open(LIMITED);
}

/* Let @head wait for the only place, and grant it with a connection; the server's side of that. */
static int grant_connection_to(const char *head)
{
    int fds[2];
    struct upstream_server *server = stage.worker.env.config->upstreams[0]->servers;
    struct upstream_waiter *waiter = &client.exchange->waiter;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert(server_process_take_place(server->process, 1));
    fake_client_send_head(&client, head);
    ck_assert(upstream_queue_leave(waiter));
    waiter->is_granted = true;
    waiter->server = server;
    waiter->fd = fds[0];
    upstream_choice_note(waiter->choice, server);
    return fds[1];
}

START_TEST(a_connection_that_was_handed_over_carries_what_waited)
{
    const int fd = grant_connection_to(NOT_AGAIN[_i]);
    client.exchange->waiter.on_grant(&client.exchange->waiter);
    server_read_until(&stage, fd, "\r\n\r\n");
    serve_once(fd);
    server_assert_left_alone(&stage);
    close(fd);
}
END_TEST

START_TEST(a_connection_that_ended_while_handed_over_is_not_met_by_what_cannot_be_repeated)
{
    close(grant_connection_to(NOT_AGAIN[_i]));
    client.exchange->waiter.on_grant(&client.exchange->waiter);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    serve_once(fd);
    assert_answer_starts("200 OK\r\n");
    ck_assert_uint_eq(stage.generation->upstreams[0]->servers[0]->n_connections, 1);
    close(fd);
}
END_TEST

START_TEST(a_request_does_not_get_the_late_body_of_a_connection_that_was_handed_over)
{
    const int fd = grant_connection_to("GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    client.exchange->waiter.is_doubtful = true;
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    client.exchange->waiter.on_grant(&client.exchange->waiter);
    ck_assert(client.exchange->upstream != NULL && !client.exchange->upstream->is_reused);
    const int second = server_accept(&stage);
    server_read_until(&stage, second, "\r\n\r\n");
    serve_once(second);
    assert_answer_starts("200 OK\r\n");
    close(second);
    close(fd);
}
END_TEST

/* --- what is read for a client --- */

static const char LONG[] = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nab";

START_TEST(nothing_is_read_for_a_client_without_room_until_it_has_some)
{
    const int fd = begin_get("/free");
    client.room = 0;
    server_send(fd, LONG);
    await_sends(1);
    server_send(fd, "cd");
    server_assert_left_alone(&stage);
    ck_assert_uint_eq(client.n_sends, 1);
    ck_assert_uint_eq(client.n_asked, 1);
    ck_assert_uint_eq(stage.worker.env.small_blocks.n_taken + stage.worker.env.body_blocks.n_taken,
                      0);
    client.room = IO_BLOCK_BYTES;
    exchange_on_client_drained(client.exchange);
    await_sends(2);
    ck_assert(answer_has("\r\n\r\nabcd"));
    close(fd);
}
END_TEST

START_TEST(a_client_with_little_room_gets_no_more_in_small_blocks_before_it_is_asked_again)
{
    const int fd = begin_get("/free");
    client.room = 3;
    server_send(fd, LONG);
    await_sends(1);
    server_assert_left_alone(&stage);
    client.n_asked = 0;
    server_send(fd, "cdefgh");
    await_sends(3);
    ck_assert_uint_eq(client.n_asked, 3); /* the third time for what has not come yet */
    ck_assert(answer_has("\r\n\r\nabcdefgh"));
    ck_assert_uint_eq(stage.worker.env.body_blocks.n_free, 0);
    ck_assert_uint_eq(stage.worker.env.small_blocks.n_free, 1);
    close(fd);
}
END_TEST

START_TEST(a_client_that_keeps_up_is_asked_once_in_a_turn_for_what_fits_a_block)
{
    const int fd = begin_get("/free");
    server_send(fd, LONG);
    await_sends(1);
    server_assert_left_alone(&stage);
    client.n_asked = 0;
    server_send(fd, "cd");
    await_sends(2);
    ck_assert_uint_eq(client.n_asked, 1);
    ck_assert_uint_eq(stage.worker.env.small_blocks.n_free, 0);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upstream");
    TCase *reuse = tcase_create("reuse");
    tcase_add_checked_fixture(reuse, set_up, tear_down);
    tcase_add_test(reuse, a_connection_serves_one_exchange_after_another);
    tcase_add_loop_test(reuse, a_connection_that_does_not_end_cleanly_is_not_used_again, 0,
                        ARRAY_LEN(UNREUSABLE));
    tcase_add_test(reuse, bytes_on_an_idle_connection_close_it_and_answer_nothing);
    tcase_add_test(reuse, a_reused_connection_that_dies_is_tried_again_once_on_a_fresh_one);
    tcase_add_test(reuse, the_second_try_answers);
    tcase_add_loop_test(reuse, what_is_not_idempotent_is_never_tried_again, 0,
                        ARRAY_LEN(NOT_AGAIN));
    tcase_add_loop_test(reuse, what_meets_the_end_of_an_idle_connection_is_sent_on_another_alone, 0,
                        sizeof(UNSENT) / sizeof(UNSENT[0]));
    tcase_add_loop_test(reuse,
                        what_meets_bytes_that_answer_nothing_is_sent_on_another_connection_alone, 0,
                        sizeof(UNSENT) / sizeof(UNSENT[0]));
    tcase_add_loop_test(reuse, a_request_does_not_get_the_late_body_of_a_bodyless_answer, 0,
                        ARRAY_LEN(BODYLESS));
    tcase_add_loop_test(reuse, a_connection_whose_answer_was_bodyless_is_used_again, 0,
                        ARRAY_LEN(BODYLESS));
    suite_add_tcase(suite, reuse);
    TCase *handed_over = tcase_create("handed_over");
    tcase_add_checked_fixture(handed_over, set_up_limited, tear_down);
    tcase_add_loop_test(handed_over, a_connection_that_was_handed_over_carries_what_waited, 0,
                        ARRAY_LEN(NOT_AGAIN));
    tcase_add_test(handed_over,
                   a_request_does_not_get_the_late_body_of_a_connection_that_was_handed_over);
    tcase_add_loop_test(
        handed_over,
        a_connection_that_ended_while_handed_over_is_not_met_by_what_cannot_be_repeated, 0,
        ARRAY_LEN(NOT_AGAIN));
    suite_add_tcase(suite, handed_over);

    TCase *reading = tcase_create("reading");
    tcase_add_checked_fixture(reading, set_up, tear_down);
    tcase_add_test(reading, nothing_is_read_for_a_client_without_room_until_it_has_some);
    tcase_add_test(reading,
                   a_client_with_little_room_gets_no_more_in_small_blocks_before_it_is_asked_again);
    tcase_add_test(reading, a_client_that_keeps_up_is_asked_once_in_a_turn_for_what_fits_a_block);
    suite_add_tcase(suite, reading);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
