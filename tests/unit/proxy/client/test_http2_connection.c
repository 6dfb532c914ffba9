/* HTTP/2 on a connection: what is read and written in an iteration, its timeouts, and its end. */

#include "proxy/client/http2_connection.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "http2_client.h"
#include "proxy/client/client_env.h"
#include "proxy/client/downstream_inner.h"
#include "support/iterations.h"

enum { WINDOW = 65535, LONG_WINDOW = 1 << 24, HEADS_MAX = 32, US_PER_S = 1000 * 1000 };

static const char OK_HI[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

static struct stage stage;
static struct http2_client client;

static void open_with_window(const char *more, uint32_t window)
{
    char policy[512];
    (void)snprintf(policy, sizeof(policy),
                   "listen: {address: 127.0.0.1:0, http: 2}\n%supstream: http://127.0.0.1:PORT\n",
                   more);
    stage_open(&stage, policy);
    http2_client_open(&client, &stage, window);
}

static void open_with(const char *more)
{
    open_with_window(more, WINDOW);
}

static void teardown(void)
{
    http2_client_close(&client);
    stage_close(&stage);
}

static struct client_connection *only_connection(void)
{
    return CONTAINER_OF(stage.worker.clients.open.next, struct client_connection, node);
}

static bool is_closed(void)
{
    return list_is_empty(&stage.worker.clients.open);
}

/* The server's side of the connection of the request that was sent last. */
static int server_take(void)
{
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\n");
    return server;
}

static void answer(int server)
{
    server_send(server, OK_HI);
}

static uint64_t n_requests(void)
{
    return counter_read(&stage.worker.env.meters->http2_requests);
}

START_TEST(each_stream_is_a_request_of_its_own)
{
    open_with("");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int first = server_take();
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS);
    const int second = server_take();
    answer(second);
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"), "head 3 200\ndata 3 2 end\n");
    answer(first);
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"), "head 1 200\ndata 1 2 end\n");
    close(first);
    close(second);
}
END_TEST

START_TEST(answers_of_one_iteration_share_a_write)
{
    open_with("");
    int servers[3];
    for (uint32_t i = 0; i < 3; i++) {
        http2_client_ask(&client, 2 * i + 1, "GET", "", CLIENT_ENDS);
        servers[i] = server_take();
    }
    (void)http2_client_read(&client);
    for (uint32_t i = 0; i < 3; i++) {
        answer(servers[i]);
    }
    const uint64_t n_before = client.n_data;
    while (client.n_data == n_before) {
        iterations_once(stage.worker.env.loop);
        const ssize_t n = read(client.fd, client.bytes, sizeof(client.bytes));
        if (n > 0) {
            client.n_data += (size_t)n;
        }
    }
    char byte;
    iterations_for(stage.worker.env.loop, 1000);
    ck_assert_int_lt(read(client.fd, &byte, 1), 0); /* all of it came at once */
    for (uint32_t i = 0; i < 3; i++) {
        close(servers[i]);
    }
}
END_TEST

START_TEST(an_iteration_begins_few_requests_of_a_connection)
{
    open_with("");
    iterations_for(stage.worker.env.loop, 1000);
    const uint64_t n_before = n_requests();
    for (uint32_t i = 0; i < HEADS_MAX + 8; i++) {
        http2_client_ask(&client, 2 * i + 1, "GET", "", CLIENT_ENDS);
    }
    while (n_requests() == n_before) {
        iterations_once(stage.worker.env.loop);
    }
    /* The rest waits for the end of the iteration, behind other connections. */
    ck_assert_uint_ge(n_requests() - n_before, HEADS_MAX);
    iterations_once(stage.worker.env.loop);
    iterations_once(stage.worker.env.loop);
    ck_assert_uint_eq(n_requests() - n_before, HEADS_MAX + 8);
}
END_TEST

START_TEST(a_stream_beyond_the_places_is_refused)
{
    open_with("max: {streams: 2}\n");
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        http2_client_ask(&client, stream, "GET", "", CLIENT_ENDS);
    }
    ck_assert_str_eq(http2_client_read_until(&client, "reset"), "reset 5 7\n");
    ck_assert_uint_eq(n_requests(), 2);
}
END_TEST

START_TEST(a_place_is_free_when_the_request_is_over)
{
    open_with("max: {streams: 1}\n");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    http2_client_reset(&client, 1);
    server_assert_closed(&stage, server);
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS);
    close(server_take());
    ck_assert_str_eq(http2_client_read_until(&client, "end\n"), "head 3 502\ndata 3 135 end\n");
    close(server);
}
END_TEST

START_TEST(a_client_that_answers_no_ping_is_gone)
{
    open_with("timeouts: {ping: 50ms}\n");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    ck_assert_str_eq(http2_client_read_until(&client, "ping"), "ping\n");
    ck_assert(!is_closed());
    (void)http2_client_read_to_end(&client);
    server_assert_closed(&stage, server);
    close(server);
}
END_TEST

START_TEST(a_client_that_answers_pings_stays)
{
    open_with("timeouts: {ping: 20ms}\n");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    for (unsigned i = 0; i < 5; i++) {
        (void)http2_client_read_until(&client, "ping");
        http2_client_pong(&client);
    }
    answer(server);
    (void)http2_client_read_until(&client, "data 1 2 end\n");
    close(server);
}
END_TEST

START_TEST(a_connection_without_requests_ends_after_its_time)
{
    open_with("timeouts: {idle: 300ms}\n");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    answer(server);
    (void)http2_client_read_until(&client, "data 1 2 end\n");
    ck_assert_str_eq(http2_client_read_to_end(&client), "goaway 1 0\n");
    close(server);
}
END_TEST

START_TEST(a_head_that_does_not_end_closes_the_connection)
{
    open_with("timeouts: {head: 30ms}\n");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    answer(server);
    (void)http2_client_read_until(&client, "data 1 2 end\n");
    http2_client_frame(&client, 1, 1, 3, "\x82", 1); /* without END_HEADERS */
    (void)http2_client_read_to_end(&client);
    close(server);
}
END_TEST

static void turn_until_closed(uint64_t within_us)
{
    const uint64_t end_us = clock_monotonic_us() + within_us;
    while (!is_closed() && clock_monotonic_us() < end_us) {
        iterations_once(stage.worker.env.loop);
    }
    ck_assert(is_closed());
}

/* Each read ends in the middle of a head, the next one. */
START_TEST(heads_that_overlap_have_each_their_own_time)
{
    static const char FIRST[] = "\x82\x86\x84"; /* GET, http, / */
    static const char REST[] = "\x01\x01"
                               "a"; /* host a */
    stage_open(&stage, "listen: {address: 127.0.0.1:0, http: 2}\n"
                       "timeouts: {head: 1s}\nroutes: [{respond: {status: 204}}]\n");
    http2_client_open(&client, &stage, WINDOW);
    const uint64_t start_us = clock_monotonic_us();
    uint32_t id = 1;
    http2_client_frame(&client, 1, 1, id, FIRST, sizeof(FIRST) - 1);
    while (clock_monotonic_us() - start_us < US_PER_S + US_PER_S / 2) {
        char expected[32];
        (void)snprintf(expected, sizeof(expected), "head %u 204", id);
        http2_client_frame(&client, 9, 4, id, REST, sizeof(REST) - 1);
        http2_client_frame(&client, 1, 1, id + 2, FIRST, sizeof(FIRST) - 1);
        (void)http2_client_read_until(&client, expected);
        iterations_for(stage.worker.env.loop, 20 * 1000);
        id += 2;
    }
    ck_assert(!is_closed());
    turn_until_closed(3 * US_PER_S); /* the last head does not end */
}
END_TEST

/* --- a socket that is not read --- */

/* The client has asked for a long answer, and reads nothing: the socket is full. */
static int fill_socket(void)
{
    static char piece[8192];
    memset(piece, 'x', sizeof(piece) - 1);
    http2_client_window(&client, 0, LONG_WINDOW);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    http2_client_window(&client, 1, LONG_WINDOW);
    const int server = server_take();
    server_send(server, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    const struct downstream *downstream =
        CONTAINER_OF(only_connection(), struct downstream, connection);
    for (unsigned i = 0; i < 1000 && !stream_is_blocked(&downstream->stream); i++) {
        server_send(server, piece);
        iterations_for(stage.worker.env.loop, 1000);
    }
    ck_assert(stream_is_blocked(&downstream->stream));
    return server;
}

START_TEST(a_client_without_requests_that_does_not_read_is_closed_after_its_time)
{
    open_with("timeouts: {idle: 300ms}\n");
    const int server = fill_socket();
    http2_client_reset(&client, 1);
    server_assert_closed(&stage, server);
    ck_assert(!is_closed());
    turn_until_closed(3 * US_PER_S);
    close(server);
}
END_TEST

START_TEST(a_goaway_that_the_client_does_not_read_has_the_time_of_a_head)
{
    open_with("timeouts: {head: 300ms, idle: 1h}\n");
    const int server = fill_socket();
    http2_client_ask(&client, 5, "POST", "", CLIENT_GOES_ON);
    http2_client_data(&client, 3, "x", 1, CLIENT_ENDS); /* of a stream that was passed over */
    server_assert_closed(&stage, server);
    ck_assert(!is_closed());
    turn_until_closed(3 * US_PER_S);
    close(server);
}
END_TEST

START_TEST(a_goaway_that_is_read_late_still_comes)
{
    open_with("timeouts: {head: 1h}\n");
    const int server = fill_socket();
    http2_client_ask(&client, 5, "POST", "", CLIENT_GOES_ON);
    http2_client_data(&client, 3, "x", 1, CLIENT_ENDS);
    server_assert_closed(&stage, server);
    const char *seen = http2_client_read_to_end(&client);
    ck_assert_ptr_nonnull(strstr(seen, "goaway 5 1\n"));
    close(server);
}
END_TEST

/* Answers to more PINGs than are kept for it. */
START_TEST(a_flood_from_a_client_that_does_not_read_ends_its_connection)
{
    open_with("timeouts: {head: 300ms, idle: 1h}\n");
    const int server = fill_socket();
    for (unsigned i = 0; i < 200; i++) {
        http2_client_frame(&client, 6, 0, 0, client.ping, sizeof(client.ping));
    }
    server_assert_closed(&stage, server);
    turn_until_closed(3 * US_PER_S);
    close(server);
}
END_TEST

static void drain(void)
{
    struct client_connection *connection = only_connection();
    stage.worker.env.is_draining = true;
    connection->ops->drain(connection);
}

START_TEST(a_drain_does_not_wait_for_a_client_that_does_not_read)
{
    open_with("timeouts: {idle: 1h}\n");
    const int server = fill_socket();
    http2_client_reset(&client, 1);
    server_assert_closed(&stage, server);
    drain();
    turn_until_closed(3 * US_PER_S);
    close(server);
}
END_TEST

START_TEST(a_drain_does_not_wait_for_what_becomes_idle_later)
{
    open_with("timeouts: {idle: 1h}\n");
    const int server = fill_socket();
    drain();
    iterations_for(stage.worker.env.loop, 1000);
    ck_assert(!is_closed());
    http2_client_reset(&client, 1);
    turn_until_closed(3 * US_PER_S);
    close(server);
}
END_TEST

START_TEST(a_drain_waits_a_moment_for_the_answer_to_its_ping)
{
    open_with("timeouts: {idle: 1h}\n");
    drain();
    ck_assert_str_eq(http2_client_read_until(&client, "ping"), "goaway 2147483647 0\nping\n");
    ck_assert(!is_closed());
    ck_assert_str_eq(http2_client_read_to_end(&client), "goaway 0 0\n");
}
END_TEST

START_TEST(the_last_request_of_a_connection_is_announced)
{
    open_with("max: {requests_per_connection: 2}\n");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int first = server_take();
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS);
    const int second = server_take();
    ck_assert_str_eq(http2_client_read_until(&client, "ping"), "goaway 2147483647 0\nping\n");
    http2_client_pong(&client);
    ck_assert_str_eq(http2_client_read_until(&client, "goaway"), "goaway 3 0\n");
    answer(first);
    answer(second);
    const char *seen = http2_client_read_to_end(&client);
    ck_assert_ptr_nonnull(strstr(seen, "data 1 2 end\n"));
    ck_assert_ptr_nonnull(strstr(seen, "data 3 2 end\n"));
    close(first);
    close(second);
}
END_TEST

START_TEST(a_drain_lets_what_is_on_its_way_in_and_then_no_more)
{
    open_with("");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int first = server_take();
    struct client_connection *connection = only_connection();
    connection->ops->drain(connection);
    ck_assert_str_eq(http2_client_read_until(&client, "ping"), "goaway 2147483647 0\nping\n");
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS); /* it was on its way */
    const int second = server_take();
    http2_client_pong(&client);
    ck_assert_str_eq(http2_client_read_until(&client, "goaway"), "goaway 3 0\n");
    http2_client_ask(&client, 5, "GET", "", CLIENT_ENDS);
    server_assert_left_alone(&stage);
    answer(first);
    answer(second);
    (void)http2_client_read_to_end(&client);
    close(first);
    close(second);
}
END_TEST

START_TEST(a_client_that_leaves_ends_its_requests)
{
    open_with("");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int first = server_take();
    http2_client_ask(&client, 3, "POST", "", CLIENT_GOES_ON);
    close(client.fd);
    client.fd = -1;
    server_assert_closed(&stage, first);
    while (!is_closed()) {
        iterations_once(stage.worker.env.loop);
    }
    close(first);
}
END_TEST

START_TEST(a_fault_of_the_peer_ends_the_connection_with_its_code)
{
    open_with("");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    http2_client_frame(&client, 6, 0, 0, "12345", 5); /* PING has 8 bytes */
    ck_assert_str_eq(http2_client_read_to_end(&client), "goaway 1 6\n");
    server_assert_closed(&stage, server);
    close(server);
}
END_TEST

START_TEST(abuse_is_counted_and_ends_the_connection)
{
    open_with("");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take(); /* what is under way may end after a warning */
    bool is_warned = false;
    bool is_ended = false;
    for (unsigned i = 0; i < 400 && !is_ended; i++) {
        http2_client_frame(&client, 6, 0, 0, client.ping, sizeof(client.ping));
        if (i % 10 == 9) {
            const char *seen = http2_client_read(&client);
            is_warned = is_warned || strstr(seen, "goaway 1 0\n") != NULL;
            is_ended = strstr(seen, " 11\n") != NULL;
        }
    }
    ck_assert(is_warned && is_ended);
    server_assert_closed(&stage, server);
    close(server);
    (void)http2_client_read_to_end(&client); /* after a pause */
    ck_assert_uint_ge(counter_read(&stage.worker.env.meters->http2_abuse[HTTP2_ABUSE_PING]), 200);
}
END_TEST

/* --- eviction --- */

static enum eviction_kind evict(void)
{
    struct client_connection *connection = only_connection();
    eviction_remove(&stage.shared.connection_limits.eviction, &connection->candidate);
    connection->candidate.is_due = true;
    return connection->ops->evict(connection);
}

START_TEST(a_resting_connection_gives_way_with_goaway)
{
    open_with("");
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    const int server = server_take();
    answer(server);
    (void)http2_client_read_until(&client, "data 1 2 end\n");
    ck_assert_int_ne(evict(), EVICTED_NONE);
    ck_assert_str_eq(http2_client_read_to_end(&client), "goaway 1 0\n");
    close(server);
}
END_TEST

/* How long after @since_us, monotonic, the connection may be evicted. */
static uint64_t evictable_after_us(uint64_t since_us)
{
    return atomic_load(&only_connection()->candidate.evictable_from_us) - since_us;
}

START_TEST(half_a_head_gives_way_after_a_second)
{
    open_with("");
    const uint64_t begin_us = clock_monotonic_us();
    http2_client_frame(&client, 1, 1, 1, "\x82", 1); /* without END_HEADERS */
    iterations_for(stage.worker.env.loop, 20);
    ck_assert_uint_ge(evictable_after_us(begin_us), EVICTION_REQUEST_GRACE_US);
    ck_assert_uint_lt(evictable_after_us(begin_us), 20 * EVICTION_REQUEST_GRACE_US);
    ck_assert_int_eq(evict(), EVICTED_HEAD);
    ck_assert_ptr_nonnull(strstr(http2_client_read_to_end(&client), "goaway"));
}
END_TEST

START_TEST(answers_whose_window_is_closed_give_way_a_second_after_the_first)
{
    open_with_window("", 0);
    http2_client_ask(&client, 1, "GET", "", CLIENT_ENDS);
    int server = server_take();
    const uint64_t begin_us = clock_monotonic_us();
    ck_assert_uint_eq(atomic_load(&only_connection()->candidate.evictable_from_us), EVICTION_NEVER);
    answer(server);
    (void)http2_client_read_until(&client, "head 1 ");
    const uint64_t first_us = evictable_after_us(begin_us);
    ck_assert_uint_ge(first_us, EVICTION_REQUEST_GRACE_US);
    ck_assert_uint_lt(first_us, 20 * EVICTION_REQUEST_GRACE_US);
    http2_client_ask(&client, 3, "GET", "", CLIENT_ENDS);
    (void)server_read_until(&stage, server, "\r\n\r\n");
    ck_assert_uint_gt(evictable_after_us(begin_us), EVICTION_AFTER_ANSWER - begin_us - 1);
    answer(server);
    (void)http2_client_read_until(&client, "head 3 ");
    ck_assert_uint_eq(evictable_after_us(begin_us), first_us);
    ck_assert_int_eq(evict(), EVICTED_IDLE);
    (void)http2_client_read_to_end(&client);
    close(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/http2_connection");
    TCase *tcase = tcase_create("http2_connection");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, each_stream_is_a_request_of_its_own);
    tcase_add_test(tcase, answers_of_one_iteration_share_a_write);
    tcase_add_test(tcase, an_iteration_begins_few_requests_of_a_connection);
    tcase_add_test(tcase, a_stream_beyond_the_places_is_refused);
    tcase_add_test(tcase, a_place_is_free_when_the_request_is_over);
    tcase_add_test(tcase, a_client_that_answers_no_ping_is_gone);
    tcase_add_test(tcase, a_client_that_answers_pings_stays);
    tcase_add_test(tcase, a_connection_without_requests_ends_after_its_time);
    tcase_add_test(tcase, a_head_that_does_not_end_closes_the_connection);
    tcase_add_test(tcase, heads_that_overlap_have_each_their_own_time);
    tcase_add_test(tcase, a_client_without_requests_that_does_not_read_is_closed_after_its_time);
    tcase_add_test(tcase, a_goaway_that_the_client_does_not_read_has_the_time_of_a_head);
    tcase_add_test(tcase, a_flood_from_a_client_that_does_not_read_ends_its_connection);
    tcase_add_test(tcase, a_goaway_that_is_read_late_still_comes);
    tcase_add_test(tcase, a_drain_does_not_wait_for_a_client_that_does_not_read);
    tcase_add_test(tcase, a_drain_does_not_wait_for_what_becomes_idle_later);
    tcase_add_test(tcase, a_drain_waits_a_moment_for_the_answer_to_its_ping);
    tcase_add_test(tcase, the_last_request_of_a_connection_is_announced);
    tcase_add_test(tcase, a_drain_lets_what_is_on_its_way_in_and_then_no_more);
    tcase_add_test(tcase, a_client_that_leaves_ends_its_requests);
    tcase_add_test(tcase, a_fault_of_the_peer_ends_the_connection_with_its_code);
    tcase_add_test(tcase, abuse_is_counted_and_ends_the_connection);
    tcase_add_test(tcase, a_resting_connection_gives_way_with_goaway);
    tcase_add_test(tcase, half_a_head_gives_way_after_a_second);
    tcase_add_test(tcase, answers_whose_window_is_closed_give_way_a_second_after_the_first);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
