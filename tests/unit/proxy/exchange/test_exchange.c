#include "proxy/exchange/exchange.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "one_exchange.h"
#include "support/iterations.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "max: {body: 16KiB}\n"
                             "timeouts: {head: 1s, idle: 1s}\n"
                             "upstreams:\n"
                             "  api: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}}\n"
                             "limits:\n"
                             "  client: {key: client.ip, rate: 10/minute}\n"
                             "  keyed: {key: header.x-key, missing: deny, rate: 10/minute}\n"
                             "routes:\n"
                             "- {match: {path: /keyed}, limits: [client, keyed], upstream: api}\n"
                             "- {match: {path: /self}, limits: [client],\n"
                             "   respond: {status: 200, body: hi, content_type: text/plain}}\n"
                             "- {match: {path: /api}, limits: [client], upstream: api}\n";

static void set_up(void)
{
    one_exchange_open(POLICY);
}

static void tear_down(void)
{
    one_exchange_close();
}

/* --- before the upstream --- */

START_TEST(an_allowed_request_is_forwarded_and_answered)
{
    fake_client_send_head(&client, "GET /api?q HTTP/1.1\r\nHost: a.example\r\n\r\n");
    const int fd = server_accept(&stage);
    ck_assert(strstr(server_read_until(&stage, fd, "\r\n\r\n"), "GET /api?q HTTP/1.1\r\n") != NULL);
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer(
        "200 OK\r\nContent-Length: 2\r\nX-A: b\r\nDate: DATE\r\n"
        "RateLimit-Policy: \"client\";q=10;w=60\r\nRateLimit: \"client\";r=7;t=12\r\n\r\nhi");
    close(fd);
}
END_TEST

START_TEST(a_denied_request_is_answered_and_reaches_nobody)
{
    stage.store.mood = FAKE_DENIES;
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("429 Too Many Requests\r\n");
    server_assert_left_alone(&stage);
}
END_TEST

START_TEST(without_a_decision_the_answer_is_503)
{
    stage.store.mood = FAKE_FAILS;
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("503 Service Unavailable\r\n");
    ck_assert(!answer_has("RateLimit"));
    server_assert_left_alone(&stage);
}
END_TEST

START_TEST(a_route_may_answer_by_itself_and_is_limited_too)
{
    fake_client_send_head(&client, "GET /self HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_DONE);
    ck_assert_uint_eq(stage.store.n_decisions, 1);
    assert_answer("200 OK\r\nDate: DATE\r\nRateLimit-Policy: \"client\";q=10;w=60\r\n"
                  "RateLimit: \"client\";r=7;t=12\r\nContent-Type: text/plain\r\n"
                  "Content-Length: 2\r\nCache-Control: no-store\r\n\r\nhi");
}
END_TEST

START_TEST(an_answer_of_our_own_to_head_has_no_body)
{
    fake_client_send_head(&client, "HEAD /self HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("Content-Length: 2\r\nCache-Control: no-store\r\n\r\n"));
    ck_assert(!answer_has("hi"));
}
END_TEST

static const struct refusal {
    const char *head;
    const char *status;
} REFUSALS[] = {
    {"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found\r\n"},
    {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request\r\n"},
    {"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 16385\r\n\r\n", "413 Content Too Large\r\n"},
    {"GET /keyed HTTP/1.1\r\nHost: a\r\n\r\n", "403 Forbidden\r\n"},
};

START_TEST(what_is_refused_before_a_decision_is_not_counted)
{
    fake_client_send_head(&client, REFUSALS[_i].head);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts(REFUSALS[_i].status);
    ck_assert(answer_has("Content-Type: application/problem+json\r\n"));
    ck_assert(!answer_has("RateLimit"));
    ck_assert_uint_eq(stage.store.n_decisions, 0);
    server_assert_left_alone(&stage);
}
END_TEST

START_TEST(a_bad_head_is_answered_with_its_error)
{
    client.exchange->request.error =
        (struct http_error){.status = 431, .reason = "too many fields"};
    exchange_on_bad_head(client.exchange);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("431 Request Header Fields Too Large\r\n");
    ck_assert(answer_has("\"detail\":\"too many fields\""));
}
END_TEST

START_TEST(a_head_that_takes_too_long_is_answered_with_408)
{
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("408 Request Timeout\r\n");
}
END_TEST

START_TEST(a_promised_decision_is_waited_for)
{
    stage.store.mood = FAKE_PROMISES;
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    server_assert_left_alone(&stage);
    ck_assert_int_eq(client.exchange->state, EXCHANGE_DECIDE);
    fake_store_answer(&stage.store, FAKE_ALLOWS);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    server_send(fd, "HTTP/1.1 204 No Content\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("204 No Content\r\n");
    close(fd);
}
END_TEST

START_TEST(a_promised_denial_is_answered)
{
    stage.store.mood = FAKE_PROMISES;
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    fake_store_answer(&stage.store, FAKE_DENIES);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("429 Too Many Requests\r\n");
}
END_TEST

/* --- a client that leaves --- */

static void leave(void)
{
    exchange_on_client_gone(client.exchange);
    assert_over(EXCHANGE_CLOSED);
}

START_TEST(a_client_that_leaves_while_its_head_comes_is_over)
{
    leave();
    ck_assert_uint_eq(client.n_sends, 0);
}
END_TEST

START_TEST(a_client_that_leaves_while_the_store_is_asked_cancels)
{
    stage.store.mood = FAKE_PROMISES;
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    leave();
    ck_assert_uint_eq(stage.store.n_cancelled, 1);
}
END_TEST

START_TEST(a_client_that_leaves_while_connecting_closes_the_upstream)
{
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    ck_assert_int_eq(client.exchange->state, EXCHANGE_CONNECT);
    leave();
    const int fd = server_accept(&stage);
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_client_that_leaves_while_it_is_served_closes_the_upstream)
{
    fake_client_send_head(&client, "GET /api HTTP/1.1\r\nHost: a.example\r\n\r\n");
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    leave();
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_client_that_leaves_while_it_is_replied_to_is_over)
{
    client.send_result = STREAM_BLOCKED;
    fake_client_send_head(&client, "GET /nowhere HTTP/1.1\r\nHost: a.example\r\n\r\n");
    ck_assert_int_eq(client.exchange->state, EXCHANGE_REPLY);
    leave();
}
END_TEST

START_TEST(a_client_that_does_not_read_a_reply_is_cut)
{
    client.send_result = STREAM_BLOCKED;
    fake_client_send_head(&client, "GET /nowhere HTTP/1.1\r\nHost: a.example\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_CLOSED);
}
END_TEST

START_TEST(a_blocked_reply_is_done_when_it_has_gone_out)
{
    client.send_result = STREAM_BLOCKED;
    fake_client_send_head(&client, "GET /nowhere HTTP/1.1\r\nHost: a.example\r\n\r\n");
    exchange_on_client_drained(client.exchange);
    assert_over(EXCHANGE_DONE);
}
END_TEST

START_TEST(a_client_that_breaks_under_an_answer_is_over)
{
    client.send_result = STREAM_BROKEN;
    fake_client_send_head(&client, "GET /nowhere HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_CLOSED);
}
END_TEST

static void add_before(Suite *suite)
{
    TCase *before = tcase_create("before");
    tcase_add_checked_fixture(before, set_up, tear_down);
    tcase_add_test(before, an_allowed_request_is_forwarded_and_answered);
    tcase_add_test(before, a_denied_request_is_answered_and_reaches_nobody);
    tcase_add_test(before, without_a_decision_the_answer_is_503);
    tcase_add_test(before, a_route_may_answer_by_itself_and_is_limited_too);
    tcase_add_test(before, an_answer_of_our_own_to_head_has_no_body);
    tcase_add_loop_test(before, what_is_refused_before_a_decision_is_not_counted, 0,
                        ARRAY_LEN(REFUSALS));
    tcase_add_test(before, a_bad_head_is_answered_with_its_error);
    tcase_add_test(before, a_head_that_takes_too_long_is_answered_with_408);
    tcase_add_test(before, a_promised_decision_is_waited_for);
    tcase_add_test(before, a_promised_denial_is_answered);
    suite_add_tcase(suite, before);
}

static void add_leaving(Suite *suite)
{
    TCase *leaving = tcase_create("leaving");
    tcase_add_checked_fixture(leaving, set_up, tear_down);
    tcase_add_test(leaving, a_client_that_leaves_while_its_head_comes_is_over);
    tcase_add_test(leaving, a_client_that_leaves_while_the_store_is_asked_cancels);
    tcase_add_test(leaving, a_client_that_leaves_while_connecting_closes_the_upstream);
    tcase_add_test(leaving, a_client_that_leaves_while_it_is_served_closes_the_upstream);
    tcase_add_test(leaving, a_client_that_leaves_while_it_is_replied_to_is_over);
    tcase_add_test(leaving, a_client_that_does_not_read_a_reply_is_cut);
    tcase_add_test(leaving, a_blocked_reply_is_done_when_it_has_gone_out);
    tcase_add_test(leaving, a_client_that_breaks_under_an_answer_is_over);
    suite_add_tcase(suite, leaving);
}

int main(void)
{
    Suite *suite = suite_create("proxy/exchange");
    add_before(suite);
    add_leaving(suite);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
