#include "proxy/exchange.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage.h"
#include "support/turns.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "max: {body: 16KiB}\n"
    "timeouts: {head: 20ms, idle: 1h}\n"
    "upstreams:\n"
    "  api: {servers: [http://127.0.0.1:PORT], timeout: {response: 1h}}\n"
    "  slow: {servers: [http://127.0.0.1:PORT], timeout: {response: 20ms}}\n"
    "limits:\n"
    "  client: {key: client.ip, rate: 10/minute}\n"
    "  keyed: {key: header.x-key, missing: deny, rate: 10/minute}\n"
    "routes:\n"
    "- {match: {path: /free}, limits: [], upstream: api}\n"
    "- {match: {path: /slow}, limits: [], upstream: slow}\n"
    "- {match: {path: /keyed}, limits: [client, keyed], upstream: api}\n"
    "- {match: {path: /self}, limits: [client],\n"
    "   respond: {status: 200, body: hi, content_type: text/plain}}\n"
    "- {match: {path: /api}, limits: [client], upstream: api}\n";

static struct stage stage;
static struct fake_client client;

static void set_up(void)
{
    stage_open(&stage, POLICY);
    fake_client_open(&client, &stage, "192.0.2.1");
}

static void tear_down(void)
{
    if (client.exchange != NULL) {
        exchange_on_client_gone(client.exchange);
    }
    stage_close(&stage);
}

static void await_end(void)
{
    turns_until(stage.worker.loop, &client.is_over);
}

static void assert_answer(const char *expected)
{
    ck_assert_str_eq(fake_client_answer(&client), expected);
}

static void assert_answer_starts(const char *expected)
{
    ck_assert_msg(strncmp(fake_client_answer(&client), expected, strlen(expected)) == 0,
                  "'%s' does not start with '%s'", fake_client_answer(&client), expected);
}

static void assert_over(enum exchange_state state)
{
    ck_assert(client.is_over);
    ck_assert_str_eq(exchange_state_name(client.last_state), exchange_state_name(state));
}

static bool answer_has(const char *text)
{
    return strstr(fake_client_answer(&client), text) != NULL;
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
                  "Content-Length: 2\r\n\r\nhi");
}
END_TEST

START_TEST(an_answer_of_our_own_to_head_has_no_body)
{
    fake_client_send_head(&client, "HEAD /self HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("Content-Length: 2\r\n\r\n"));
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
    client.exchange->request.error = (struct http_error){431, "too many fields"};
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

START_TEST(a_client_that_breaks_under_an_answer_is_over)
{
    client.send_result = STREAM_BROKEN;
    fake_client_send_head(&client, "GET /nowhere HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_over(EXCHANGE_CLOSED);
}
END_TEST

/* --- the request's body --- */

static int begin_post(const char *head)
{
    fake_client_send_head(&client, head);
    const int fd = server_accept(&stage);
    while (client.n_pumps == 0) {
        turns_once(stage.worker.loop);
    }
    return fd;
}

static const char POST[] = "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n";
static const char POST_CHUNKED[] =
    "POST /api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char OK_EMPTY[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

START_TEST(a_head_goes_out_although_its_body_is_late)
{
    const int fd = begin_post(POST);
    server_read_until(&stage, fd, "\r\n\r\n");
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "hello");
    fake_client_send_body(&client, " world", true);
    server_read_until(&stage, fd, " world");
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(a_body_of_unknown_length_goes_out_chunked)
{
    const int fd = begin_post(POST_CHUNKED);
    server_read_until(&stage, fd, "Transfer-Encoding: chunked\r\n");
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "5\r\nhello\r\n");
    fake_client_send_body(&client, "", true);
    server_read_until(&stage, fd, "0\r\n\r\n");
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(a_body_of_unknown_length_that_grows_too_large_is_refused)
{
    static char large[16 * 1024 + 2];
    memset(large, 'x', sizeof(large) - 1);
    const int fd = begin_post(POST_CHUNKED);
    fake_client_send_body(&client, large, false);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("413 Content Too Large\r\n");
    close(fd);
}
END_TEST

START_TEST(a_bad_body_is_refused_and_never_completed_upstream)
{
    const struct http_error error = {400, "a chunk's size is not hexadecimal"};
    const int fd = begin_post(POST_CHUNKED);
    fake_client_send_body(&client, "hello", false);
    server_read_until(&stage, fd, "5\r\nhello\r\n");
    exchange_on_bad_body(client.exchange, &error);
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("400 Bad Request\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(an_early_answer_ends_the_exchange_and_the_upstream)
{
    const int fd = begin_post(POST);
    server_read_until(&stage, fd, "\r\n\r\n");
    server_send(fd, OK_EMPTY);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("200 OK\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

/* --- the answer --- */

static int begin_get(const char *path)
{
    char head[128];
    struct text text = text_of(head, sizeof(head) - 1);
    text_add_format(&text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    head[text.len] = '\0';
    fake_client_send_head(&client, head);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    return fd;
}

static void await_sends(unsigned n)
{
    turns_until_count(stage.worker.loop, &client.n_sends, n);
}

START_TEST(a_head_without_body_yet_is_passed_on)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    await_sends(1);
    assert_answer("200 OK\r\nContent-Length: 2\r\nDate: DATE\r\n\r\n");
    server_send(fd, "hi");
    await_end();
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(a_head_with_no_more_than_a_chunk_line_is_passed_on)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n");
    await_sends(1);
    assert_answer("200 OK\r\nDate: DATE\r\n\r\n");
    server_send(fd, "hi\r\n0\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("\r\n\r\nhi"));
    close(fd);
}
END_TEST

START_TEST(nothing_is_sent_to_a_blocked_client_until_it_is_drained)
{
    const int fd = begin_get("/free");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab");
    await_sends(1);
    server_send(fd, "cd");
    server_assert_left_alone(&stage);
    ck_assert_uint_eq(client.n_sends, 1);

    exchange_on_client_drained(client.exchange);
    await_sends(2);
    ck_assert(answer_has("\r\n\r\nabcd"));
    server_send(fd, "ef");
    server_assert_left_alone(&stage);
    exchange_on_client_drained(client.exchange);
    await_sends(3);
    ck_assert(client.is_ended);
    ck_assert(!client.is_over);
    exchange_on_client_drained(client.exchange);
    assert_over(EXCHANGE_DONE);
    close(fd);
}
END_TEST

START_TEST(interim_responses_are_passed_on_before_the_final_one)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"
                    "HTTP/1.1 204 No Content\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer("103 Early Hints\r\nLink: x\r\n\r\n103 Early Hints\r\n\r\n"
                  "204 No Content\r\nDate: DATE\r\n\r\n");
    close(fd);
}
END_TEST

START_TEST(a_client_blocked_by_an_interim_response_gets_the_final_one_when_drained)
{
    const int fd = begin_get("/free");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    await_sends(1);
    server_assert_left_alone(&stage);
    ck_assert_uint_eq(client.n_sends, 1);
    client.send_result = STREAM_DONE;
    exchange_on_client_drained(client.exchange);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("204 No Content\r\n"));
    close(fd);
}
END_TEST

/* The memory of what blocks is still in use: there is no room for another answer. */
START_TEST(a_bad_body_under_a_blocked_interim_response_cuts)
{
    const struct http_error error = {400, "bad"};
    const int fd = begin_post(POST_CHUNKED);
    server_read_until(&stage, fd, "\r\n\r\n");
    client.send_result = STREAM_BLOCKED;
    server_send(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    await_sends(1);
    exchange_on_bad_body(client.exchange, &error);
    assert_over(EXCHANGE_CLOSED);
    ck_assert_uint_eq(client.n_sends, 1);
    close(fd);
}
END_TEST

START_TEST(an_answer_to_head_has_the_length_and_no_body)
{
    fake_client_send_head(&client, "HEAD /free HTTP/1.1\r\nHost: a\r\n\r\n");
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer("200 OK\r\nContent-Length: 5\r\nDate: DATE\r\n\r\n");
    close(fd);
}
END_TEST

/* --- an upstream that fails --- */

static const char *const BAD_ANSWERS[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "no HTTP at all\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
};

START_TEST(a_bad_answer_is_502_and_ends_the_connection)
{
    const int fd = begin_get("/free");
    server_send(fd, BAD_ANSWERS[_i]);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
    server_assert_closed(&stage, fd);
    close(fd);
}
END_TEST

START_TEST(a_refused_connection_is_502)
{
    stage_stop_listening(&stage);
    fake_client_send_head(&client, "GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
}
END_TEST

START_TEST(a_connection_lost_before_the_head_is_502)
{
    const int fd = begin_get("/free");
    close(fd);
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("502 Bad Gateway\r\n");
    server_assert_left_alone(&stage);
}
END_TEST

static const char *const CUT_ANSWERS[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
};

START_TEST(an_answer_that_is_cut_short_never_looks_complete)
{
    const int fd = begin_get("/free");
    server_send(fd, CUT_ANSWERS[_i]);
    await_sends(1);
    close(fd);
    await_end();
    assert_over(EXCHANGE_CLOSED);
    ck_assert(!client.is_ended);
}
END_TEST

START_TEST(an_answer_that_ends_with_its_connection_is_whole)
{
    const int fd = begin_get("/free");
    server_send(fd, "HTTP/1.1 200 OK\r\n\r\nabc");
    close(fd);
    await_end();
    assert_over(EXCHANGE_DONE);
    ck_assert(answer_has("\r\n\r\nabc"));
}
END_TEST

/* --- time --- */

START_TEST(a_slow_upstream_is_504)
{
    const int fd = begin_get("/slow");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("504 Gateway Timeout\r\n");
    close(fd);
}
END_TEST

/* As soon as the request is sent, the upstream is waited for, not the client. */
START_TEST(a_slow_upstream_is_504_also_after_a_body)
{
    const int fd = begin_post("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    fake_client_send_body(&client, "hello", true);
    server_read_until(&stage, fd, "hello");
    await_end();
    assert_over(EXCHANGE_DONE);
    assert_answer_starts("504 Gateway Timeout\r\n");
    close(fd);
}
END_TEST

START_TEST(an_answer_that_stops_half_way_is_cut)
{
    const int fd = begin_get("/slow");
    server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    await_end();
    assert_over(EXCHANGE_CLOSED);
    close(fd);
}
END_TEST

/* --- connections that are used again --- */

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
    fake_client_open(&client, &stage, "192.0.2.1");
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
    fake_client_open(&client, &stage, "192.0.2.1");
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
    tcase_add_test(leaving, a_client_that_breaks_under_an_answer_is_over);
    suite_add_tcase(suite, leaving);
}

static void add_bodies(Suite *suite)
{
    TCase *body = tcase_create("body");
    tcase_add_checked_fixture(body, set_up, tear_down);
    tcase_add_test(body, a_head_goes_out_although_its_body_is_late);
    tcase_add_test(body, a_body_of_unknown_length_goes_out_chunked);
    tcase_add_test(body, a_body_of_unknown_length_that_grows_too_large_is_refused);
    tcase_add_test(body, a_bad_body_is_refused_and_never_completed_upstream);
    tcase_add_test(body, an_early_answer_ends_the_exchange_and_the_upstream);
    suite_add_tcase(suite, body);
}

static void add_answers(Suite *suite)
{
    TCase *answer = tcase_create("answer");
    tcase_add_checked_fixture(answer, set_up, tear_down);
    tcase_add_test(answer, a_head_without_body_yet_is_passed_on);
    tcase_add_test(answer, a_head_with_no_more_than_a_chunk_line_is_passed_on);
    tcase_add_test(answer, nothing_is_sent_to_a_blocked_client_until_it_is_drained);
    tcase_add_test(answer, interim_responses_are_passed_on_before_the_final_one);
    tcase_add_test(answer, a_client_blocked_by_an_interim_response_gets_the_final_one_when_drained);
    tcase_add_test(answer, a_bad_body_under_a_blocked_interim_response_cuts);
    tcase_add_test(answer, an_answer_to_head_has_the_length_and_no_body);
    suite_add_tcase(suite, answer);
}

static void add_failures(Suite *suite)
{
    TCase *failure = tcase_create("failure");
    tcase_add_checked_fixture(failure, set_up, tear_down);
    tcase_add_loop_test(failure, a_bad_answer_is_502_and_ends_the_connection, 0,
                        ARRAY_LEN(BAD_ANSWERS));
    tcase_add_test(failure, a_refused_connection_is_502);
    tcase_add_test(failure, a_connection_lost_before_the_head_is_502);
    tcase_add_loop_test(failure, an_answer_that_is_cut_short_never_looks_complete, 0,
                        ARRAY_LEN(CUT_ANSWERS));
    tcase_add_test(failure, an_answer_that_ends_with_its_connection_is_whole);
    tcase_add_test(failure, a_slow_upstream_is_504);
    tcase_add_test(failure, a_slow_upstream_is_504_also_after_a_body);
    tcase_add_test(failure, an_answer_that_stops_half_way_is_cut);
    suite_add_tcase(suite, failure);
}

static void add_reuse(Suite *suite)
{
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
    suite_add_tcase(suite, reuse);
}

int main(void)
{
    Suite *suite = suite_create("proxy/exchange");
    add_before(suite);
    add_leaving(suite);
    add_bodies(suite);
    add_answers(suite);
    add_failures(suite);
    add_reuse(suite);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
