#include "proxy/exchange/exchange_steps.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "limits:\n"
    "  client: {key: client.ip, rate: [10/minute, 100/hour]}\n"
    "  custom:\n"
    "    key: client.ip\n"
    "    rate: 5/minute\n"
    "    deny: {status: 420, body: \"Slow down.\\n\", content_type: text/plain}\n"
    "  silent: {key: client.ip, rate: 5/minute, deny: {status: 503}}\n"
    "routes:\n"
    "- {match: {path: /custom}, limits: [custom], respond: {status: 204}}\n"
    "- {match: {path: /silent}, limits: [silent], respond: {status: 204}}\n"
    "- {match: {path: /**}, limits: [client], respond: {status: 204}}\n";

static struct stage stage;
static struct fake_client client;

static void set_up(void)
{
    stage_open(&stage, POLICY);
    fake_client_open(&client, &stage, "192.0.2.1");
}

static void tear_down(void)
{
    stage_close(&stage);
}

static const struct {
    enum fake_mood mood;
    const char *request;
    const char *answer;
} REPLIES[] = {
    {FAKE_ALLOWS, "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
     "204 No Content\r\nDate: DATE\r\n"
     "RateLimit-Policy: \"client.1m\";q=10;w=60, \"client.1h\";q=100;w=3600\r\n"
     "RateLimit: \"client.1m\";r=7;t=12, \"client.1h\";r=7;t=12\r\n"
     "Cache-Control: no-store\r\n\r\n"},
    {FAKE_DENIES, "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
     "429 Too Many Requests\r\nDate: DATE\r\nCache-Control: no-store\r\nRetry-After: 12\r\n"
     "RateLimit-Policy: \"client.1m\";q=10;w=60, \"client.1h\";q=100;w=3600\r\n"
     "RateLimit: \"client.1m\";r=0;t=12, \"client.1h\";r=0;t=12\r\n"
     "Content-Type: application/problem+json\r\nContent-Length: 175\r\n\r\n"
     "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
     "\"title\":\"Quota exceeded\",\"status\":429,"
     "\"violated-policies\":[\"client.1m\",\"client.1h\"],\"retry-after\":12}\n"},
    {FAKE_DENIES, "GET /custom HTTP/1.1\r\nHost: a\r\n\r\n",
     "420 \r\nDate: DATE\r\nCache-Control: no-store\r\nRetry-After: 12\r\n"
     "RateLimit-Policy: \"custom\";q=5;w=60\r\nRateLimit: \"custom\";r=0;t=12\r\n"
     "Content-Type: text/plain\r\nContent-Length: 11\r\n\r\nSlow down.\n"},
    {FAKE_DENIES, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n",
     "503 Service Unavailable\r\nDate: DATE\r\nCache-Control: no-store\r\nRetry-After: 12\r\n"
     "RateLimit-Policy: \"silent\";q=5;w=60\r\nRateLimit: \"silent\";r=0;t=12\r\n"
     "Content-Length: 0\r\n\r\n"},
    {FAKE_FAILS, "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
     "503 Service Unavailable\r\nDate: DATE\r\nCache-Control: no-store\r\nRetry-After: 1\r\n"
     "Content-Type: application/problem+json\r\nContent-Length: 195\r\n\r\n"
     "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
     "\"title\":\"Temporary reduced capacity\",\"status\":503,"
     "\"detail\":\"the request's limits cannot be checked just now\"}\n"},
    {FAKE_ALLOWS, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
     "400 Bad Request\r\nDate: DATE\r\nCache-Control: no-store\r\n"
     "Content-Type: application/problem+json\r\nContent-Length: 106\r\n\r\n"
     "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
     "\"detail\":\"the path holds a % that is no escape\"}\n"},
};

/* The number that Content-Length of @answer says is that of its body. */
static void assert_length_is_true(const char *answer)
{
    static const char NAME[] = "\r\nContent-Length: ";
    const char *length = strstr(answer, NAME);
    const char *body = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(body);
    if (length != NULL) {
        ck_assert_uint_eq(strtoul(length + strlen(NAME), NULL, 10), strlen(body + 4));
    }
}

START_TEST(an_answer_of_our_own_is_exactly_this)
{
    stage.store.mood = REPLIES[_i].mood;
    fake_client_send_head(&client, REPLIES[_i].request);
    ck_assert(client.is_over);
    ck_assert_str_eq(fake_client_answer(&client), REPLIES[_i].answer);
    assert_length_is_true(fake_client_answer(&client));
}
END_TEST

START_TEST(a_denial_that_no_waiting_helps_says_nothing_of_when)
{
    stage.store.mood = FAKE_PROMISES;
    fake_client_send_head(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    struct decision *decision = stage.store.pending;
    stage.store.pending = NULL;
    decision->status = STATUS_OK;
    decision->allowed = false;
    for (size_t i = 0; i < decision->n_charges; i++) {
        decision->charges[i].verdict = (struct verdict){.retry_after = RETRY_NEVER};
    }
    store_answer(decision);
    ck_assert(client.is_over);
    ck_assert_ptr_null(strstr(fake_client_answer(&client), "Retry-After"));
    ck_assert_ptr_null(strstr(fake_client_answer(&client), "retry-after"));
    ck_assert_ptr_nonnull(strstr(fake_client_answer(&client), "\"client.1h\"]}\n"));
}
END_TEST

START_TEST(a_decision_that_was_skipped_speaks_of_no_quota)
{
    stage.store.mood = FAKE_PROMISES;
    fake_client_send_head(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    struct decision *decision = stage.store.pending;
    stage.store.pending = NULL;
    decision->status = STATUS_OK;
    decision->allowed = true;
    decision->source = DECISION_SKIPPED;
    decision->failure = STATUS_UNREACHABLE;
    store_answer(decision);
    ck_assert_str_eq(fake_client_answer(&client),
                     "204 No Content\r\nDate: DATE\r\nCache-Control: no-store\r\n\r\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/reply");
    TCase *all = tcase_create("reply");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_loop_test(all, an_answer_of_our_own_is_exactly_this, 0, ARRAY_LEN(REPLIES));
    tcase_add_test(all, a_denial_that_no_waiting_helps_says_nothing_of_when);
    tcase_add_test(all, a_decision_that_was_skipped_speaks_of_no_quota);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
