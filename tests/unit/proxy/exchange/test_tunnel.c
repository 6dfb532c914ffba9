#include "proxy/exchange/exchange.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "one_exchange.h"
#include "support/iterations.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "timeouts: {idle: 2s, tunnel: 3s}\n"
    "upstreams: {api: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}}}\n"
    "limits: {slots: {key: global, algorithm: concurrency, rate: 10}}\n"
    "routes: [{limits: [], upstream: api, max_body: 1KiB}]\n";

static const char ASK[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                          "Upgrade: websocket\r\n\r\n";
static const char SWITCH[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                             "Upgrade: websocket\r\n\r\n";
#define ANSWER "101 Switching Protocols\r\nDate: DATE\r\nUpgrade: websocket\r\n\r\n"

static int server;

static void set_up(void)
{
    one_exchange_open(POLICY);
    fake_client_send_head(&client, ASK);
    server = server_accept(&stage);
    server_read_until(&stage, server, "\r\n\r\n");
    ck_assert_uint_eq(client.n_pumps, 0); /* nothing of the client's before the 101 */
}

static void tear_down(void)
{
    close(server);
    one_exchange_close();
}

static void switch_over(void)
{
    server_send(server, SWITCH);
    await_sends(1);
    ck_assert_int_eq(client.exchange->state, EXCHANGE_TUNNEL);
}

START_TEST(a_tunnel_begins_with_the_101_and_what_came_early)
{
    client.body = "early";
    switch_over();
    server_read_until(&stage, server, "early");
    assert_answer(ANSWER);
    server_send(server, "hello");
    await_sends(2);
    assert_answer(ANSWER "hello");
}
END_TEST

START_TEST(a_tunnel_has_no_largest_body)
{
    static char large[4096];
    memset(large, 'x', sizeof(large) - 1);
    switch_over();
    fake_client_send_body(&client, large, false);
    server_read_bytes(&stage, server, sizeof(large) - 1);
    ck_assert_uint_eq(client.exchange->request_bytes, sizeof(large) - 1);
}
END_TEST

START_TEST(a_tunnel_is_over_when_both_sides_have_ended)
{
    switch_over();
    fake_client_send_body(&client, "", true);
    server_assert_closed(&stage, server);
    ck_assert(!client.is_over);
    server_send(server, "bye");
    await_sends(2);
    ck_assert(!client.is_ended);
    shutdown(server, SHUT_WR);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(client.is_ended);
    assert_answer(ANSWER "bye");
}
END_TEST

START_TEST(the_server_may_end_its_side_first)
{
    switch_over();
    shutdown(server, SHUT_WR);
    await_sends(2);
    ck_assert(client.is_ended && !client.is_over);
    fake_client_send_body(&client, "more", false);
    server_read_until(&stage, server, "more");
    fake_client_send_body(&client, "", true);
    assert_over(EXCHANGE_DONE);
    server_assert_closed(&stage, server);
}
END_TEST

START_TEST(a_client_that_does_not_read_stops_the_server_until_it_does)
{
    client.send_result = STREAM_BLOCKED;
    server_send(server, SWITCH);
    await_sends(1);
    ck_assert_uint_eq(client.n_pumps, 1); /* the other way is open */
    server_send(server, "hello");
    for (unsigned i = 0; i < 10; i++) {
        iterations_once(stage.worker.env.loop);
    }
    ck_assert_uint_eq(client.n_sends, 1);
    client.send_result = STREAM_DONE;
    exchange_on_client_drained(client.exchange);
    await_sends(2);
    assert_answer(ANSWER "hello");
}
END_TEST

START_TEST(a_client_that_never_reads_is_cut)
{
    client.send_result = STREAM_BLOCKED;
    server_send(server, SWITCH);
    await_end();
    assert_over(EXCHANGE_CLOSED);
    server_assert_closed(&stage, server);
}
END_TEST

START_TEST(a_tunnel_in_which_nothing_moves_is_cut)
{
    const uint64_t started_us = client.exchange->started_us;
    switch_over();
    await_end();
    assert_over(EXCHANGE_CLOSED);
    ck_assert_uint_ge(clock_monotonic_us() - started_us, 3000 * 1000);
    server_assert_reset(&stage, server);
}
END_TEST

/* It has had the end of the client's side: a close in order would tell it nothing. */
START_TEST(a_server_that_does_not_follow_its_client_is_reset)
{
    switch_over();
    fake_client_send_body(&client, "", true);
    server_assert_closed(&stage, server);
    await_end();
    assert_over(EXCHANGE_CLOSED);
    server_assert_reset(&stage, server);
}
END_TEST

START_TEST(a_client_that_does_not_follow_its_server_is_ended_in_order)
{
    switch_over();
    shutdown(server, SHUT_WR);
    await_end();
    assert_over(EXCHANGE_DONE);
    server_assert_closed(&stage, server);
}
END_TEST

START_TEST(a_tunnel_whose_server_breaks_off_is_cut)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    switch_over();
    setsockopt(server, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(server);
    await_end();
    assert_over(EXCHANGE_CLOSED);
    server = -1;
}
END_TEST

START_TEST(a_server_that_switches_before_it_has_the_request_gets_no_tunnel)
{
    client.exchange->is_request_blocked = true; /* as by a server that resets meanwhile */
    server_send(server, SWITCH);
    await_end();
    ck_assert(answer_has("502"));
    ck_assert_uint_eq(client.n_pumps, 0);
    server_assert_closed(&stage, server);
}
END_TEST

START_TEST(a_client_that_leaves_with_the_101_ends_it)
{
    client.send_result = STREAM_BROKEN;
    server_send(server, SWITCH);
    await_end();
    assert_over(EXCHANGE_CLOSED);
    server_assert_closed(&stage, server);
}
END_TEST

START_TEST(what_a_server_says_before_it_leaves_arrives)
{
    switch_over();
    server_send(server, "last words");
    shutdown(server, SHUT_RD);
    fake_client_send_body(&client, "unheard", false);
    close(server);
    server = -1;
    await_end();
    ck_assert(answer_has("last words"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/tunnel");
    TCase *tunnel = tcase_create("tunnel");
    tcase_add_checked_fixture(tunnel, set_up, tear_down);
    tcase_add_test(tunnel, a_tunnel_begins_with_the_101_and_what_came_early);
    tcase_add_test(tunnel, a_tunnel_has_no_largest_body);
    tcase_add_test(tunnel, a_tunnel_is_over_when_both_sides_have_ended);
    tcase_add_test(tunnel, the_server_may_end_its_side_first);
    tcase_add_test(tunnel, a_client_that_does_not_read_stops_the_server_until_it_does);
    tcase_add_test(tunnel, a_client_that_never_reads_is_cut);
    tcase_add_test(tunnel, a_tunnel_in_which_nothing_moves_is_cut);
    tcase_add_test(tunnel, a_server_that_does_not_follow_its_client_is_reset);
    tcase_add_test(tunnel, a_client_that_does_not_follow_its_server_is_ended_in_order);
    tcase_add_test(tunnel, a_tunnel_whose_server_breaks_off_is_cut);
    tcase_add_test(tunnel, a_server_that_switches_before_it_has_the_request_gets_no_tunnel);
    tcase_add_test(tunnel, a_client_that_leaves_with_the_101_ends_it);
    tcase_add_test(tunnel, what_a_server_says_before_it_leaves_arrives);
    suite_add_tcase(suite, tunnel);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
