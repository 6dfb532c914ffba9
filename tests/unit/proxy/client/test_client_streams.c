/* How many requests by HTTP/2 there are at a time, and which gives way when there are too many. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http2_client.h"
#include "support/iterations.h"

enum { WINDOW = 65535, CLIENTS_MAX = 16, SERVERS_MAX = 32 };

static struct stage stage;
static struct http2_client clients[CLIENTS_MAX];
static size_t n_clients;
static int servers[SERVERS_MAX]; /* the connections to the server, one for each request */
static size_t n_servers;

static void open_with(const char *max)
{
    char policy[512];
    (void)snprintf(policy, sizeof(policy),
                   "listen: {address: 127.0.0.1:0, http: 2}\nmax: {%s}\n"
                   "trusted_proxies: [192.0.2.100]\nupstream: http://127.0.0.1:PORT\n",
                   max);
    stage_open(&stage, policy);
    n_clients = 0;
    n_servers = 0;
}

static void teardown(void)
{
    for (size_t i = 0; i < n_clients; i++) {
        http2_client_close(&clients[i]);
    }
    for (size_t i = 0; i < n_servers; i++) {
        close(servers[i]);
    }
    stage_close(&stage);
}

static struct http2_client *come_from(const char *address, uint32_t window)
{
    struct http2_client *client = &clients[n_clients++];
    http2_client_open_from(client, &stage, window, address);
    return client;
}

static struct http2_client *come(unsigned number)
{
    char address[32];
    (void)snprintf(address, sizeof(address), "192.0.2.%u", number);
    return come_from(address, WINDOW);
}

/* A request of @client that its server does not answer. Returns the server's end. */
static int ask(struct http2_client *client, uint32_t stream)
{
    http2_client_ask(client, stream, "GET", "", CLIENT_ENDS);
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\n");
    servers[n_servers++] = server;
    return server;
}

static void ask_many(struct http2_client *client, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        (void)ask(client, 2 * i + 1);
    }
}

static void assert_refused(struct http2_client *client, uint32_t stream)
{
    char reset[32];
    (void)snprintf(reset, sizeof(reset), "reset %u 7\n", stream);
    http2_client_ask(client, stream, "GET", "", CLIENT_ENDS);
    (void)http2_client_read_until(client, reset);
}

static void assert_counted(unsigned n_active, unsigned n_evicted, unsigned n_refused)
{
    const struct worker_meters *meters = stage.worker.env.meters;
    ck_assert_uint_eq(counter_read(&meters->http2_active), n_active);
    ck_assert_uint_eq(counter_read(&meters->http2_evicted), n_evicted);
    ck_assert_uint_eq(counter_read(&meters->http2_refused), n_refused);
}

/* Ten clients have come, of which the last has none of the twelve requests, and the first three. */
static void fill_twelve(void)
{
    static const unsigned COUNTS[] = {3, 2, 2, 1, 1, 1, 1, 1, 0};
    for (unsigned i = 0; i < sizeof(COUNTS) / sizeof(COUNTS[0]); i++) {
        ask_many(come(i + 1), COUNTS[i]);
    }
    assert_counted(12, 0, 0);
}

START_TEST(a_newcomer_takes_the_place_of_one_of_the_client_with_the_most)
{
    open_with("http2_requests: 12");
    fill_twelve();
    (void)ask(&clients[8], 1);
    ck_assert_str_eq(http2_client_read_until(&clients[0], "reset"), "reset 1 11\n");
    server_assert_closed(&stage, servers[0]);
    assert_counted(12, 1, 0);
}
END_TEST

START_TEST(the_request_that_has_waited_longest_without_progress_gives_way)
{
    open_with("http2_requests: 12");
    fill_twelve();
    iterations_for(stage.worker.env.loop, 2000);
    server_send(servers[0], "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    ck_assert_str_eq(http2_client_read_until(&clients[0], "data"), "head 1 200\ndata 1 2\n");
    (void)ask(&clients[8], 1);
    ck_assert_str_eq(http2_client_read_until(&clients[0], "reset"), "reset 3 11\n");
    server_send(servers[0], "cdefghij");
    ck_assert_str_eq(http2_client_read_until(&clients[0], "end\n"), "data 1 8 end\n");
}
END_TEST

START_TEST(a_client_takes_no_place_of_one_that_would_have_no_more_than_itself)
{
    open_with("http2_requests: 12");
    fill_twelve();
    assert_refused(&clients[1], 5); /* it would have three */
    (void)ask(&clients[3], 3);      /* it would have two */
    ck_assert_str_eq(http2_client_read_until(&clients[0], "reset"), "reset 1 11\n");
    assert_refused(&clients[3], 5);
    assert_refused(&clients[4], 3); /* nobody has more than two */
    assert_counted(12, 1, 3);
}
END_TEST

START_TEST(none_gives_way_while_there_are_slots)
{
    open_with("http2_requests: 40");
    ask_many(come(1), 8);
    ask_many(come(2), 7);
    ask_many(come(3), 5);
    assert_refused(&clients[2], 11); /* it has a quarter of twenty */
    assert_counted(20, 0, 1);
}
END_TEST

START_TEST(where_each_has_one_none_gives_way)
{
    open_with("http2_requests: 4");
    for (unsigned i = 1; i <= 4; i++) {
        ask_many(come(i), 1);
    }
    assert_refused(come(5), 1);
    http2_client_reset(&clients[0], 1);
    server_assert_closed(&stage, servers[0]);
    (void)ask(&clients[4], 3);
    assert_counted(4, 0, 1);
}
END_TEST

/* Twelve clients have one request each, so that a thirteenth takes the slot of none. */
static void fill_and_be_refused(void)
{
    open_with("http2_requests: 12");
    for (unsigned i = 1; i <= 12; i++) {
        ask_many(come(i), 1);
    }
    assert_refused(come(13), 1);
    assert_counted(12, 0, 1);
}

START_TEST(who_has_grown_at_another_worker_since_a_refusal_gives_way_a_moment_later)
{
    struct address address;
    fill_and_be_refused();
    ck_assert(address_parse(SPAN("192.0.2.5"), &address));
    struct client_counts *counts = &stage.worker.clients.connection_limits->http2_clients;
    struct client_count *count = client_counts_join(counts, &address);
    ck_assert(client_count_take(count, 10));
    iterations_for(stage.worker.env.loop, 2 * STREAM_SEARCH_PAUSE_US);
    (void)ask(&clients[12], 3);
    ck_assert_str_eq(http2_client_read_until(&clients[4], "reset"), "reset 1 11\n");
    client_count_give(count);
    client_counts_leave(counts, count);
}
END_TEST

/* Each connection is full with two requests. */
static struct http2_client *come_by(unsigned number, unsigned n_connections)
{
    struct http2_client *last = NULL;
    for (unsigned i = 0; i < n_connections; i++) {
        last = come(number);
        ask_many(last, 2);
    }
    return last;
}

START_TEST(a_client_with_as_many_as_a_connection_may_have_takes_no_place_of_others)
{
    open_with("streams: 2, http2_requests: 32");
    (void)come_by(1, 3);
    for (unsigned number = 2; number <= 4; number++) {
        (void)come_by(number, 2);
    }
    (void)come_by(5, 1);
    struct http2_client *last = come(5);
    (void)ask(last, 1);
    assert_refused(last, 3); /* it has a quarter of eleven */
    assert_counted(21, 0, 1);
}
END_TEST

START_TEST(a_client_is_one_by_all_its_connections_and_by_its_prefix)
{
    open_with("streams: 1, http2_requests: 12");
    for (unsigned i = 1; i <= 3; i++) {
        char address[32];
        (void)snprintf(address, sizeof(address), "2001:db8:0:%u::1", i);
        ask_many(come_from(address, WINDOW), 1);
    }
    for (unsigned number = 2; number <= 3; number++) {
        ask_many(come(number), 1);
        ask_many(come(number), 1);
    }
    for (unsigned number = 4; number <= 8; number++) {
        ask_many(come(number), 1);
    }
    ask_many(come(9), 1);
    ck_assert_str_eq(http2_client_read_until(&clients[0], "reset"), "reset 1 11\n");
    assert_counted(12, 1, 0);
}
END_TEST

START_TEST(an_answer_that_waits_for_its_client_gives_way)
{
    open_with("http2_requests: 12");
    struct http2_client *slow = come_from("192.0.2.1", 0);
    const char *answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    server_send(ask(slow, 1), answer);
    ck_assert_str_eq(http2_client_read_until(slow, "head"), "head 1 200\n");
    iterations_for(stage.worker.env.loop, 2000);
    (void)ask(slow, 3);
    (void)ask(slow, 5);
    for (unsigned number = 2; number <= 8; number++) {
        ask_many(come(number), number <= 3 ? 2 : 1);
    }
    assert_counted(12, 0, 0);
    ask_many(come(9), 1);
    ck_assert_str_eq(http2_client_read_until(slow, "reset"), "reset 1 11\n");
}
END_TEST

START_TEST(requests_of_trusted_proxies_do_not_count)
{
    open_with("http2_requests: 1");
    struct http2_client *proxy = come_from("192.0.2.100", WINDOW);
    ask_many(proxy, 3);
    assert_counted(0, 0, 0);
    ask_many(come(1), 1);
    (void)ask(proxy, 7);
    assert_refused(come(2), 1);
    assert_counted(1, 0, 1);
}
END_TEST

static const struct stream_slot *exempt;

static bool is_exempt(struct stream_slot *slot)
{
    return slot == exempt;
}

static uint64_t moved_us(struct stream_slot *slot)
{
    (void)slot;
    return 1;
}

START_TEST(who_has_grown_since_a_search_is_found_at_once)
{
    static const struct stream_slot_ops OPS = {.is_exempt = is_exempt, .moved_us = moved_us};
    struct stream_slot slots[] = {{.ops = &OPS}, {.ops = &OPS}};
    struct stream_clients these;
    struct client_counts counts;
    struct address one;
    struct address other;
    ck_assert(address_parse(SPAN("192.0.2.1"), &one) && address_parse(SPAN("192.0.2.2"), &other));
    stream_clients_init(&these);
    client_counts_init(&counts);
    struct stream_client *grown = stream_clients_join(&these, &counts, &one);
    struct stream_client *own = stream_clients_join(&these, &counts, &other);
    for (size_t i = 0; i < ARRAY_LEN(slots); i++) {
        ck_assert_ptr_null(stream_clients_choose(&these, own, 1));
        ck_assert(client_count_take(grown->count, 10));
        stream_clients_add(&these, grown, &slots[i]);
    }
    ck_assert_ptr_eq(stream_clients_choose(&these, own, 1), &slots[0]);
    ck_assert_ptr_null(stream_clients_choose(&these, own, 2));
    exempt = &slots[1];
    ck_assert_ptr_eq(stream_clients_choose(&these, own, 1), &slots[1]);
    for (size_t i = 0; i < ARRAY_LEN(slots); i++) {
        stream_clients_remove(&these, &slots[i]);
    }
    stream_clients_leave(&these, &counts, grown);
    stream_clients_leave(&these, &counts, own);
    client_counts_close(&counts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client streams");
    TCase *group = tcase_create("too many requests");
    tcase_add_checked_fixture(group, NULL, teardown);
    tcase_add_test(group, a_newcomer_takes_the_place_of_one_of_the_client_with_the_most);
    tcase_add_test(group, the_request_that_has_waited_longest_without_progress_gives_way);
    tcase_add_test(group, a_client_takes_no_place_of_one_that_would_have_no_more_than_itself);
    tcase_add_test(group, where_each_has_one_none_gives_way);
    tcase_add_test(group, who_has_grown_at_another_worker_since_a_refusal_gives_way_a_moment_later);
    tcase_add_test(group, none_gives_way_while_there_are_slots);
    tcase_add_test(group, a_client_with_as_many_as_a_connection_may_have_takes_no_place_of_others);
    tcase_add_test(group, a_client_is_one_by_all_its_connections_and_by_its_prefix);
    tcase_add_test(group, an_answer_that_waits_for_its_client_gives_way);
    tcase_add_test(group, requests_of_trusted_proxies_do_not_count);
    suite_add_tcase(suite, group);
    TCase *search = tcase_create("the search");
    tcase_add_test(search, who_has_grown_since_a_search_is_found_at_once);
    suite_add_tcase(suite, search);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
