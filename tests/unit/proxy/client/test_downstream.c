/* A client's connection that does not take what it is sent, or becomes a tunnel. */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/client/client_env.h"
#include "stage.h"
#include "support/iterations.h"

static const char POLICY[] = "listen: 127.0.0.1:0\n"
                             "timeouts: {head: 100ms, idle: 1h}\n"
                             "upstream: http://127.0.0.1:PORT\n";

static struct stage stage;
static int client; /* the other end of the connection */
static int beside; /* our end once more, to fill what the kernel keeps */

static void setup(void)
{
    int fds[2];
    const struct address peer = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 1}};
    stage_open(&stage, POLICY);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    client = fds[1];
    beside = dup(fds[0]);
    downstream_open(&stage.worker.clients, fds[0], &peer, false, false, NULL, HTTP_VERSION_1_1);
}

static void teardown(void)
{
    close(client);
    close(beside);
    iterations_for(stage.worker.env.loop, 1000);
    stage_close(&stage);
}

static struct client_connection *only_connection(void)
{
    return CONTAINER_OF(stage.worker.clients.open.next, struct client_connection, node);
}

/* Nothing more goes out until the client reads. Tells how many bytes that took. */
static size_t fill(void)
{
    static const char bytes[4096];
    size_t n_bytes = 0;
    ssize_t n;
    for (size_t piece = sizeof(bytes); piece > 0; piece /= 2) {
        while ((n = write(beside, bytes, piece)) > 0) {
            n_bytes += (size_t)n;
        }
        ck_assert_int_eq(errno, EAGAIN);
    }
    return n_bytes;
}

START_TEST(a_body_that_goes_on_while_its_refusal_waits_is_left_alone)
{
    server_send(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx");
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\nx");
    const size_t n_filled = fill();
    server_send(server, "this is no HTTP\r\n\r\n");
    server_assert_closed(&stage, server);
    server_send(client, "yyy");
    iterations_for(stage.worker.env.loop, 1000);

    server_read_bytes(&stage, client, n_filled);
    ck_assert_ptr_nonnull(strstr(server_read_until(&stage, client, "\r\n\r\n"), "502"));
    close(server);
}
END_TEST

/* --- a short answer that the kernel does not take --- */

static const char GET[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
static const char OK_HI[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

static uint64_t answered_us; /* monotonic: just before the latest such answer was sent */

/* The server's side of the connection whose answer waits; *n_filled bytes are before it. */
static int answer_in_vain(size_t *n_filled)
{
    server_send(client, GET);
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\n");
    *n_filled = fill();
    answered_us = clock_monotonic_us();
    server_send(server, OK_HI);
    iterations_for(stage.worker.env.loop, 1000);
    return server;
}

START_TEST(an_answer_that_waits_comes_whole_and_the_next_request_after_it)
{
    size_t n_filled;
    const int server = answer_in_vain(&n_filled);
    server_send(client, GET);
    iterations_for(stage.worker.env.loop, 1000);
    char byte;
    ck_assert_int_lt(recv(server, &byte, 1, MSG_DONTWAIT), 0);

    server_read_bytes(&stage, client, n_filled);
    (void)server_read_until(&stage, client, "\r\n\r\nhi");
    (void)server_read_until(&stage, server, "\r\n\r\n");
    server_send(server, OK_HI);
    (void)server_read_until(&stage, client, "\r\n\r\nhi");
    close(server);
}
END_TEST

START_TEST(an_answer_that_waits_comes_whole_to_who_has_ended_its_side)
{
    size_t n_filled;
    const int server = answer_in_vain(&n_filled);
    ck_assert_int_eq(shutdown(client, SHUT_WR), 0);
    ck_assert_int_eq(close(beside), 0);
    beside = -1;
    iterations_for(stage.worker.env.loop, 1000);
    server_read_bytes(&stage, client, n_filled);
    (void)server_read_until(&stage, client, "\r\n\r\nhi");
    server_assert_closed(&stage, client);
    close(server);
}
END_TEST

START_TEST(an_answer_that_waits_is_waited_for_when_the_worker_drains)
{
    size_t n_filled;
    const int server = answer_in_vain(&n_filled);
    struct client_connection *connection = only_connection();
    connection->ops->drain(connection);
    iterations_for(stage.worker.env.loop, 1000);
    server_read_bytes(&stage, client, n_filled);
    (void)server_read_until(&stage, client, "\r\n\r\nhi");
    close(server);
}
END_TEST

START_TEST(an_answer_that_is_never_taken_is_cut_after_the_time_of_a_head)
{
    size_t n_filled;
    const int server = answer_in_vain(&n_filled);
    while (!list_is_empty(&stage.worker.clients.open)) {
        iterations_for(stage.worker.env.loop, 1000);
    }
    ck_assert_uint_ge(clock_monotonic_us() - answered_us, 90 * 1000);
    close(server);
}
END_TEST

/* --- eviction of a tunnel --- */

/* The server's side of a connection whose client has sent an Upgrade request and a byte behind. */
static int ask_for_tunnel(void)
{
    server_send(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\n\r\nx");
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\n");
    ck_assert_uint_eq(only_connection()->candidate.evictable_from_us, EVICTION_AFTER_ANSWER);
    return server;
}

static void switch_to_tunnel(int server)
{
    server_send(server, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\n\r\n");
    (void)server_read_until(&stage, server, "x");
}

/* The connection is chosen as a due victim. */
static enum eviction_kind evict(void)
{
    struct client_connection *connection = only_connection();
    eviction_remove(&stage.shared.connection_limits.eviction, &connection->candidate);
    connection->candidate.is_due = true;
    return connection->ops->evict(connection);
}

static void assert_in_use(void)
{
    const struct eviction_candidate *candidate = &only_connection()->candidate;
    ck_assert_uint_eq(candidate->evictable_from_us, EVICTION_NEVER);
    ck_assert_ptr_nonnull(candidate->client);
    ck_assert_uint_eq(eviction_n_pending(&stage.shared.connection_limits.eviction), 0);
}

START_TEST(a_tunnel_is_in_use_though_bytes_came_behind_its_request)
{
    const int server = ask_for_tunnel();
    switch_to_tunnel(server);
    assert_in_use();
    ck_assert_int_eq(evict(), EVICTED_NONE);
    assert_in_use();
    close(server);
}
END_TEST

START_TEST(a_victim_that_becomes_a_tunnel_is_no_victim_any_more)
{
    const int server = ask_for_tunnel();
    ck_assert_int_eq(evict(), EVICTED_IDLE);
    ck_assert_uint_eq(eviction_n_pending(&stage.shared.connection_limits.eviction), 1);
    switch_to_tunnel(server);
    assert_in_use();
    close(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/downstream");
    TCase *blocked = tcase_create("blocked");
    tcase_add_checked_fixture(blocked, setup, teardown);
    tcase_add_test(blocked, a_body_that_goes_on_while_its_refusal_waits_is_left_alone);
    tcase_add_test(blocked, an_answer_that_waits_comes_whole_and_the_next_request_after_it);
    tcase_add_test(blocked, an_answer_that_waits_comes_whole_to_who_has_ended_its_side);
    tcase_add_test(blocked, an_answer_that_waits_is_waited_for_when_the_worker_drains);
    tcase_add_test(blocked, an_answer_that_is_never_taken_is_cut_after_the_time_of_a_head);
    suite_add_tcase(suite, blocked);
    TCase *tunnel = tcase_create("tunnel");
    tcase_add_checked_fixture(tunnel, setup, teardown);
    tcase_add_test(tunnel, a_tunnel_is_in_use_though_bytes_came_behind_its_request);
    tcase_add_test(tunnel, a_victim_that_becomes_a_tunnel_is_no_victim_any_more);
    suite_add_tcase(suite, tunnel);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
