/* Looks at a client that lets an exchange wait for less than the time between two looks, again and
 * again: its waits count as one long one would. */

#include "proxy/exchange/exchange.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "one_exchange.h"
#include "proxy/upstream/upstream_clients.h"
#include "support/iterations.h"

/* A look each 50 ms. */
#define TIMEOUTS(rate)                                                                             \
    "listen: 127.0.0.1:1\n"                                                                        \
    "log: off\n"                                                                                   \
    "timeouts: {head: 50ms, idle: 10s, body_rate: " rate "}\n"                                     \
    "upstreams:\n"                                                                                 \
    "  api: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}}\n"                         \
    "routes:\n"                                                                                    \
    "- {match: {path: /}, limits: [], upstream: api, max_body: 1GiB}\n"

enum {
    WAIT_US = 5 * 1000,
    N_WAITS = 100, /* ten times what is given in advance, and the time between two looks */
    PIECE_BYTES = 64 * 1024,
};

static void tear_down(void)
{
    one_exchange_close();
}

/* Takes a byte of the answer after each wait, until the exchange is over or N_WAITS have passed. */
static void take_bytes(int fd)
{
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx");
    await_sends(1);
    for (unsigned i = 1; i <= N_WAITS && !client.is_over; i++) {
        server_send(fd, "x");
        iterations_for(stage.worker.env.loop, WAIT_US);
        if (!client.is_over) {
            exchange_on_client_drained(client.exchange);
        }
        while (!client.is_over && client.n_sends == i) {
            iterations_once(stage.worker.env.loop);
        }
    }
}

START_TEST(a_client_that_reads_too_slowly_is_cut_however_often_it_lets_us_write_again)
{
    one_exchange_open(TIMEOUTS("1MiB/s"));
    const int fd = begin_get("/");
    take_bytes(fd);
    assert_over(EXCHANGE_CLOSED);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_client_that_keeps_the_rate_so_is_not)
{
    one_exchange_open(TIMEOUTS("1B/s"));
    const int fd = begin_get("/");
    take_bytes(fd);
    ck_assert(!client.is_over);
    close(fd);
}
END_TEST

/* Sends as much as there is room for after each wait, and the server takes it. */
static void send_bursts(int fd)
{
    static char piece[PIECE_BYTES + 1];
    memset(piece, 'x', PIECE_BYTES);
    for (int i = 0; i < N_WAITS && !client.is_over; i++) {
        size_t n_sent = 0;
        iterations_for(stage.worker.env.loop, WAIT_US);
        while (client.wants_body) {
            fake_client_send_body(&client, piece, false);
            n_sent += PIECE_BYTES;
        }
        if (!client.is_over) {
            server_read_bytes(&stage, fd, n_sent);
        }
        while (!client.is_over && !client.wants_body) {
            iterations_once(stage.worker.env.loop);
        }
    }
}

static int begin_large_post(void)
{
    const int fd = begin_post("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    server_read_until(&stage, fd, "\r\n\r\n");
    return fd;
}

START_TEST(a_client_that_sends_too_slowly_is_408_however_often_its_server_is_blocked)
{
    one_exchange_open(TIMEOUTS("1TiB/s"));
    const int fd = begin_large_post();
    send_bursts(fd);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("408 Request Timeout\r\n");
    close(fd);
}
END_TEST

START_TEST(a_client_that_sends_at_the_rate_in_bursts_is_served)
{
    one_exchange_open(TIMEOUTS("1KiB/s"));
    const int fd = begin_large_post();
    send_bursts(fd);
    ck_assert(!client.is_over);
    close(fd);
}
END_TEST

/* --- min_download --- */

enum {
    DOWNLOAD_ADVANCE_US = 2000 * 1000,
    MORE_US = 1000 * 1000,
    HELD_BYTES = 48 * 1024, /* that wait for a client, in the buffer of the proxy's socket */
};

/* The client has taken none of the first byte of an answer whose rest is to come. */
static int begin_blocked(const char *fields)
{
    one_exchange_open(TIMEOUTS("off"));
    const int fd = begin_get("/");
    client.send_result = STREAM_BLOCKED;
    client.unread_bytes = 1;
    server_send(fd, fields);
    await_sends(1);
    return fd;
}

static void send_more(int fd)
{
    static char piece[HELD_BYTES + 1];
    memset(piece, 'x', HELD_BYTES);
    server_send(fd, piece);
}

static void wait_for_us(uint64_t time_us)
{
    iterations_for(stage.worker.env.loop, time_us);
}

static struct stall_budgets *budgets(void)
{
    return &client.exchange->server->group->process->stall_budgets;
}

static uint64_t left_us(const struct address *address)
{
    return stall_budgets_left_us(budgets(), address, clock_monotonic_us());
}

START_TEST(a_client_that_has_used_up_its_stall_budget_is_cut_at_once)
{
    const int fd = begin_blocked("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx");
    ck_assert(stall_budgets_take(budgets(), &client.exchange->peer, STALL_BUDGET_US,
                                 clock_monotonic_us()));
    send_more(fd);
    wait_for_us(MORE_US);
    assert_over(EXCHANGE_CLOSED);
    ck_assert_uint_eq(counter_read(&stage.worker.env.meters->slow_downloads), 1);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_client_that_catches_up_has_its_whole_stall_budget_again)
{
    const int fd = begin_blocked("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx");
    const struct address address = client.exchange->peer;
    send_more(fd);
    wait_for_us(MORE_US);
    ck_assert(!client.is_over);
    ck_assert_uint_lt(left_us(&address), STALL_BUDGET_US - MORE_US / 2);
    client.unread_bytes = 0;
    exchange_on_client_drained(client.exchange); /* takes what waits, worth 3 s */
    wait_for_us(MORE_US);
    ck_assert(!client.is_over);
    ck_assert_uint_eq(left_us(&address), STALL_BUDGET_US);
    close(fd);
}
END_TEST

START_TEST(a_client_that_keeps_a_server_from_sending_is_cut)
{
    const int fd = begin_blocked("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx");
    wait_for_us(DOWNLOAD_ADVANCE_US + MORE_US);
    ck_assert(!client.is_over); /* the server is silent: it is not held by the client */
    send_more(fd);
    wait_for_us(DOWNLOAD_ADVANCE_US - MORE_US);
    ck_assert(!client.is_over);
    wait_for_us(2 * MORE_US);
    assert_over(EXCHANGE_CLOSED);
    ck_assert_uint_eq(counter_read(&stage.worker.env.meters->slow_downloads), 1);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

static void assert_stays(int fd)
{
    send_more(fd);
    wait_for_us(DOWNLOAD_ADVANCE_US + MORE_US);
    ck_assert(!client.is_over);
    ck_assert_uint_eq(counter_read(&stage.worker.env.meters->slow_downloads), 0);
    close(fd);
}

START_TEST(an_answer_whose_rest_is_here_holds_no_server)
{
    const int fd = begin_blocked("HTTP/1.1 200 OK\r\nContent-Length: 49153\r\n\r\nx");
    assert_stays(fd);
}
END_TEST

START_TEST(a_stream_of_events_holds_no_server)
{
    const int fd = begin_blocked("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; a\r\n\r\nx");
    assert_stays(fd);
}
END_TEST

START_TEST(a_server_that_has_ended_is_not_held)
{
    const int fd = begin_blocked("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nx");
    send_more(fd);
    shutdown(fd, SHUT_WR);
    wait_for_us(DOWNLOAD_ADVANCE_US + MORE_US);
    ck_assert(!client.is_over);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/exchange_look");
    TCase *all = tcase_create("look");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, NULL, tear_down);
    tcase_add_test(all, a_client_that_reads_too_slowly_is_cut_however_often_it_lets_us_write_again);
    tcase_add_test(all, a_client_that_keeps_the_rate_so_is_not);
    tcase_add_test(all, a_client_that_sends_too_slowly_is_408_however_often_its_server_is_blocked);
    tcase_add_test(all, a_client_that_sends_at_the_rate_in_bursts_is_served);
    tcase_add_test(all, a_client_that_keeps_a_server_from_sending_is_cut);
    tcase_add_test(all, a_client_that_has_used_up_its_stall_budget_is_cut_at_once);
    tcase_add_test(all, a_client_that_catches_up_has_its_whole_stall_budget_again);
    tcase_add_test(all, an_answer_whose_rest_is_here_holds_no_server);
    tcase_add_test(all, a_stream_of_events_holds_no_server);
    tcase_add_test(all, a_server_that_has_ended_is_not_held);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
