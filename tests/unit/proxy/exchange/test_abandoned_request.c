/* What a client that leaves lets a server do for nobody, with the slots that it holds. */

#include "proxy/exchange/exchange_config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "one_exchange.h"
#include "support/iterations.h"

#define POLICY                                                                                     \
    "listen: 127.0.0.1:1\n"                                                                        \
    "log: off\n"                                                                                   \
    "upstreams:\n"                                                                                 \
    "  api: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}}\n"                         \
    "  held: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}, retries: 1,\n"            \
    "         hold_slots: true}\n"                                                                 \
    "limits:\n"                                                                                    \
    "  slots: {key: client.ip, algorithm: concurrency, rate: 2}\n"                                 \
    "  tries: {key: client.ip, rate: 9/minute, charge_on: [2xx]}\n"                                \
    "routes:\n"                                                                                    \
    "- {match: {path: /tries}, limits: [tries], upstream: api}\n"                                  \
    "- {match: {path: /held}, limits: [slots], upstream: held}\n"                                  \
    "- {match: {path: /bare}, limits: [slots], upstream: api, request: {remove: [If-Match]}}\n"    \
    "- {match: {path: /}, limits: [slots], upstream: api}\n"

static unsigned n_released(void)
{
    return stage.store.n_settled[SETTLE_RELEASE];
}

static uint64_t n_abandoned(void)
{
    return counter_read(&stage.worker.env.meters->abandoned);
}

static void set_up(void)
{
    one_exchange_open(POLICY);
}

static void tear_down(void)
{
    abandoned_requests_end(&stage.worker.env);
    one_exchange_close();
}

/* The server's side of a connection whose client has left. */
static int leave(void)
{
    const int fd = begin_get("/");
    exchange_on_client_gone(client.exchange);
    assert_over(EXCHANGE_CLOSED);
    iterations_once(stage.worker.env.loop);
    return fd;
}

static void await_none(void)
{
    while (n_abandoned() > 0) {
        iterations_once(stage.worker.env.loop);
    }
}

START_TEST(the_slot_is_held_until_the_answer_has_ended)
{
    const int fd = leave();
    ck_assert_uint_eq(n_abandoned(), 1);
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_released(), 0);
    server_send(fd, "b");
    await_none();
    ck_assert_uint_eq(n_released(), 1);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_head_that_comes_in_parts_is_read_from_its_beginning)
{
    const int fd = begin_get("/");
    server_send(fd, "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 204 No Cont");
    await_sends(1);
    exchange_on_client_gone(client.exchange);
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_released(), 0);
    server_send(fd, "ent\r\n\r\n");
    await_none();
    ck_assert_uint_eq(n_released(), 1);
    close(fd);
}
END_TEST

START_TEST(an_answer_that_the_client_did_not_take_is_read_on)
{
    const int fd = begin_get("/");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nd");
    await_sends(1);
    exchange_on_client_gone(client.exchange);
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_released(), 0);
    server_send(fd, "e\r\n0\r\nA: b\r\n\r\n");
    await_none();
    ck_assert_uint_eq(n_released(), 1);
    close(fd);
}
END_TEST

START_TEST(an_answer_that_is_refused_holds_the_slot_until_the_server_closes)
{
    const int fd = begin_get("/");
    server_send(fd, "HTTP/1.1 200 OK\r\nX-Name: \1\r\nContent-Length: 1\r\n\r\na");
    await_end();
    ck_assert_uint_eq(n_abandoned(), 1);
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_released(), 0);
    close(fd);
    await_none();
    ck_assert_uint_eq(n_released(), 1);
}
END_TEST

START_TEST(a_malformed_answer_that_nobody_awaits_holds_the_slot_until_the_server_closes)
{
    const int fd = leave();
    server_send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nx\r\n");
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_released(), 0);
    close(fd);
    await_none();
    ck_assert_uint_eq(n_released(), 1);
}
END_TEST

START_TEST(a_request_of_which_nothing_was_sent_is_given_up)
{
    fake_client_send_head(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    exchange_on_client_gone(client.exchange);
    ck_assert_uint_eq(n_abandoned(), 0);
    ck_assert_uint_eq(n_released(), 1);
}
END_TEST

START_TEST(a_request_on_a_kept_connection_of_which_nothing_was_sent_is_given_up)
{
    const int fd = begin_get("/");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    await_end();
    one_exchange_again();
    fake_client_send_head(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(client.exchange->state, EXCHANGE_FORWARD);
    exchange_on_client_gone(client.exchange);
    ck_assert_uint_eq(n_abandoned(), 0);
    ck_assert_uint_eq(n_released(), 2);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

/* The server's side of a connection whose client has left in the middle of a body. */
static int leave_in_body(void)
{
    const int fd = begin_post("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    fake_client_send_body(&client, "abc", false);
    server_read_until(&stage, fd, "abc");
    exchange_on_client_gone(client.exchange);
    iterations_once(stage.worker.env.loop);
    ck_assert_uint_eq(n_abandoned(), 1);
    return fd;
}

START_TEST(a_body_that_breaks_off_leaves_a_server_at_work)
{
    const int fd = leave_in_body();
    server_send(fd, "HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n");
    await_none();
    ck_assert_uint_eq(n_released(), 1);
    close(fd);
}
END_TEST

/* What servers do that take the end of a stream within a request for the end of its client. */
static const char *const ENDS[] = {
    "",
    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 400 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\n\r\nend",
    "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    "what?\r\n\r\n",
};

START_TEST(a_server_that_closes_when_a_body_breaks_off_may_be_at_work_still)
{
    const int fd = leave_in_body();
    server_send(fd, ENDS[_i]);
    close(fd);
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_abandoned(), 1);
    ck_assert_uint_eq(n_released(), 0);
}
END_TEST

/* Answers to a GET of which no handler can be known to have ended. */
static const char *const GATEWAYS[] = {
    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 503 Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
};

START_TEST(a_gateway_that_lost_the_answer_leaves_a_handler_at_work)
{
    const int fd = begin_get("/");
    server_send(fd, GATEWAYS[_i]);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert_uint_eq(n_abandoned(), 1);
    ck_assert_uint_eq(n_released(), 0);
    server_assert_closed(&stage, fd);
    close(fd);
    iterations_for(stage.worker.env.loop, 20 * 1000);
    ck_assert_uint_eq(n_released(), 0);
}
END_TEST

START_TEST(so_does_one_whose_client_has_left)
{
    const int fd = leave();
    server_send(fd, GATEWAYS[_i]);
    server_assert_closed(&stage, fd);
    close(fd);
    ck_assert_uint_eq(n_abandoned(), 1);
    ck_assert_uint_eq(n_released(), 0);
}
END_TEST

/* Answers that a cache may make by the head of the handler's, or another part of the application in
 * its place, and when they hold the slot. */
static const struct {
    const char *request, *answer;
    bool is_held;
} CONDITIONS[] = {
    {"GET / HTTP/1.1\r\nIf-Match: \"z\"", "412 No", true},
    {"GET / HTTP/1.1\r\nif-unmodified-since: x", "412 No", true},
    {"GET / HTTP/1.1\r\nRange: bytes=9-", "416 No", true},
    {"GET / HTTP/1.1\r\nAccept: a", "412 No", false},
    {"GET / HTTP/1.1\r\nIf-None-Match: \"z\"", "304 Same", false},
    {"GET / HTTP/1.1\r\nRange: bytes=0-0", "206 Part", false},
    {"GET /held HTTP/1.1\r\nIf-None-Match: \"z\"", "304 Same", true},
    {"GET /held HTTP/1.1\r\nRange: bytes=0-0", "206 Part", true},
    {"GET /held HTTP/1.1\r\nAccept: a", "304 Same", false},
    {"GET /held HTTP/1.1\r\nIf-Match: \"z\"", "200 OK", false},
    {"GET /bare HTTP/1.1\r\nIf-Match: \"z\"", "412 No", false},
    {"GET / HTTP/1.1\r\nAccept-Encoding: identity;q=0", "406 No", false},
    {"GET /held HTTP/1.1\r\nAccept-Encoding: identity;q=0", "406 No", true},
    {"GET /held HTTP/1.1\r\nAccept: a", "500 No", true},
};

START_TEST(an_answer_to_a_condition_may_leave_a_handler_at_work)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "%s\r\nHost: a\r\n\r\n", CONDITIONS[_i].request);
    fake_client_send_head(&client, text);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    (void)snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n",
                   CONDITIONS[_i].answer);
    server_send(fd, text);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert_uint_eq(n_abandoned(), CONDITIONS[_i].is_held);
    ck_assert_uint_eq(n_released(), !CONDITIONS[_i].is_held);
    close(fd);
}
END_TEST

START_TEST(an_error_of_the_handler_frees_the_slot)
{
    const int fd = begin_get("/");
    server_send(fd, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    await_end();
    ck_assert_uint_eq(n_abandoned(), 0);
    ck_assert_uint_eq(n_released(), 1);
    close(fd);
}
END_TEST

/* The server's side of a request of which a part was sent, and which is answered by @answer. */
static int answer_in_body(const char *path, const char *answer)
{
    char head[128];
    (void)snprintf(head, sizeof(head), "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
                   path);
    const int fd = begin_post(head);
    fake_client_send_body(&client, "abc", false);
    server_read_until(&stage, fd, "abc");
    server_send(fd, answer);
    await_end();
    return fd;
}

START_TEST(an_error_before_the_body_is_whole_leaves_a_handler_at_work)
{
    const int fd = answer_in_body("/", "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
    ck_assert_uint_eq(n_abandoned(), 1);
    ck_assert_uint_eq(n_released(), 0);
    close(fd);
}
END_TEST

START_TEST(another_answer_before_the_body_is_whole_frees_the_slot)
{
    const int fd = answer_in_body("/", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ck_assert_uint_eq(n_abandoned(), 0);
    ck_assert_uint_eq(n_released(), 1);
    close(fd);
}
END_TEST

/* Answers in the middle of a body, and whether charge_on: [2xx] gives back. */
static const struct {
    const char *answer;
    bool is_returned;
} REFUSALS[] = {
    {"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", false},
    {"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", false},
    {"HTTP/1.1 408 Slow\r\nContent-Length: 0\r\n\r\n", false},
    {"HTTP/1.1 431 Large\r\nContent-Length: 0\r\n\r\n", false},
    {"HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n", true},
};

START_TEST(a_body_that_is_refused_stays_charged)
{
    const int fd = answer_in_body("/tries", REFUSALS[_i].answer);
    ck_assert_uint_eq(stage.store.n_settled[SETTLE_COST], REFUSALS[_i].is_returned);
    close(fd);
}
END_TEST

START_TEST(a_client_has_as_many_as_places_are_free)
{
    counter_set(&stage.worker.env.meters->abandoned, ABANDONED_REQUESTS_MAX - 1);
    const int first = leave();
    ck_assert_uint_eq(n_abandoned(), ABANDONED_REQUESTS_MAX);
    counter_set(&stage.worker.env.meters->abandoned, ABANDONED_REQUESTS_MAX - 1);
    one_exchange_again();
    const int second = leave();
    server_assert_closed(&stage, second);
    ck_assert_uint_eq(n_abandoned(), ABANDONED_REQUESTS_MAX - 1);
    ck_assert_uint_eq(n_released(), 0);
    counter_set(&stage.worker.env.meters->abandoned, ABANDONED_REQUESTS_MAX - 2);
    one_exchange_again();
    const int third = leave();
    ck_assert_uint_eq(n_abandoned(), ABANDONED_REQUESTS_MAX - 1);
    counter_set(&stage.worker.env.meters->abandoned, 2);
    close(first);
    close(second);
    close(third);
}
END_TEST

START_TEST(without_a_place_the_slot_of_a_whole_answer_stays)
{
    counter_set(&stage.worker.env.meters->abandoned, ABANDONED_REQUESTS_MAX);
    const int fd = begin_get("/");
    server_send(fd, GATEWAYS[0]);
    await_end();
    ck_assert_uint_eq(n_released(), 0);
    counter_set(&stage.worker.env.meters->abandoned, 0);
    close(fd);
}
END_TEST

/* Of a server that closes without an answer, of which hold_slots may be said. */
static void assert_held_behind_loss(bool is_held)
{
    await_end();
    assert_answer_starts("502 ");
    ck_assert_uint_eq(n_abandoned(), is_held);
    ck_assert_uint_eq(n_released(), !is_held);
}

static const struct {
    const char *head;
    bool is_held;
} LOST[] = {
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", false},
    {"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", true},
};

START_TEST(a_server_that_closes_without_an_answer_may_be_held_to_be_at_work)
{
    const int fd = begin_post(LOST[_i].head);
    fake_client_send_body(&client, "a", true);
    server_read_until(&stage, fd, "\r\n\r\na");
    close(fd);
    assert_held_behind_loss(LOST[_i].is_held);
}
END_TEST

START_TEST(so_may_the_one_that_was_asked_before)
{
    const bool is_held = _i == 1;
    const char *path = is_held ? "/held" : "/";
    char head[64];
    const int fd = begin_get(path);
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    await_end();
    one_exchange_again();
    (void)snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    fake_client_send_head(&client, head);
    server_read_until(&stage, fd, "\r\n\r\n");
    close(fd);
    while (client.exchange->state != EXCHANGE_CONNECT) {
        iterations_once(stage.worker.env.loop);
    }
    exchange_on_client_gone(client.exchange);
    ck_assert_uint_eq(n_abandoned(), is_held);
    ck_assert_uint_eq(n_released(), 1U + !is_held);
}
END_TEST

enum { PERIOD_US = 60 * 1000 * 1000 }; /* longer than the test takes */

static bool renew_at(uint64_t now_us)
{
    struct exchange_config *config = stage.worker.env.config;
    return slot_holders_renew(&config->slot_holders, config->store, now_us, PERIOD_US);
}

START_TEST(the_lease_of_its_slot_is_renewed)
{
    const int fd = leave();
    const uint64_t later_us = clock_monotonic_us() + PERIOD_US;
    ck_assert(!renew_at(later_us - PERIOD_US));
    ck_assert_uint_eq(stage.store.n_settled[SETTLE_RENEW], 0);
    ck_assert(!renew_at(later_us));
    ck_assert_uint_eq(stage.store.n_settled[SETTLE_RENEW], 1);
    ck_assert(!renew_at(later_us + PERIOD_US / 4 - 1));
    ck_assert_uint_eq(stage.store.n_settled[SETTLE_RENEW], 1);
    ck_assert_uint_eq(n_released(), 0);
    close(fd);
}
END_TEST

START_TEST(beyond_the_bound_the_connection_ends_and_the_slot_is_left_to_its_lease)
{
    counter_set(&stage.worker.env.meters->abandoned, ABANDONED_REQUESTS_MAX);
    const int fd = leave();
    ck_assert_uint_eq(n_abandoned(), ABANDONED_REQUESTS_MAX);
    server_assert_closed(&stage, fd);
    ck_assert_uint_eq(n_released(), 0);
    counter_set(&stage.worker.env.meters->abandoned, 0);
    close(fd);
}
END_TEST

START_TEST(a_worker_that_ends_gives_the_slots_back)
{
    const int fd = leave();
    abandoned_requests_end(&stage.worker.env);
    ck_assert_uint_eq(n_released(), 1);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("abandoned_request");
    Suite *suite = suite_create("abandoned_request");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_slot_is_held_until_the_answer_has_ended);
    tcase_add_test(tcase, a_head_that_comes_in_parts_is_read_from_its_beginning);
    tcase_add_test(tcase, an_answer_that_the_client_did_not_take_is_read_on);
    tcase_add_test(tcase, an_answer_that_is_refused_holds_the_slot_until_the_server_closes);
    tcase_add_test(tcase,
                   a_malformed_answer_that_nobody_awaits_holds_the_slot_until_the_server_closes);
    tcase_add_test(tcase, a_request_of_which_nothing_was_sent_is_given_up);
    tcase_add_test(tcase, a_request_on_a_kept_connection_of_which_nothing_was_sent_is_given_up);
    tcase_add_test(tcase, a_body_that_breaks_off_leaves_a_server_at_work);
    tcase_add_loop_test(tcase, a_server_that_closes_when_a_body_breaks_off_may_be_at_work_still, 0,
                        ARRAY_LEN(ENDS));
    tcase_add_loop_test(tcase, a_gateway_that_lost_the_answer_leaves_a_handler_at_work, 0,
                        ARRAY_LEN(GATEWAYS));
    tcase_add_loop_test(tcase, so_does_one_whose_client_has_left, 0, ARRAY_LEN(GATEWAYS));
    tcase_add_loop_test(tcase, an_answer_to_a_condition_may_leave_a_handler_at_work, 0,
                        ARRAY_LEN(CONDITIONS));
    tcase_add_test(tcase, an_error_of_the_handler_frees_the_slot);
    tcase_add_test(tcase, an_error_before_the_body_is_whole_leaves_a_handler_at_work);
    tcase_add_test(tcase, another_answer_before_the_body_is_whole_frees_the_slot);
    tcase_add_loop_test(tcase, a_body_that_is_refused_stays_charged, 0, ARRAY_LEN(REFUSALS));
    tcase_add_test(tcase, a_client_has_as_many_as_places_are_free);
    tcase_add_test(tcase, without_a_place_the_slot_of_a_whole_answer_stays);
    tcase_add_loop_test(tcase, a_server_that_closes_without_an_answer_may_be_held_to_be_at_work, 0,
                        ARRAY_LEN(LOST));
    tcase_add_loop_test(tcase, so_may_the_one_that_was_asked_before, 0, 2);
    tcase_add_test(tcase, the_lease_of_its_slot_is_renewed);
    tcase_add_test(tcase, beyond_the_bound_the_connection_ends_and_the_slot_is_left_to_its_lease);
    tcase_add_test(tcase, a_worker_that_ends_gives_the_slots_back);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
