/* The breaker of a link, on a Redis that refuses: when decisions are
 * asked, wait, or fail at once. */

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "store/redis_options.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

enum {
    DEADLINE_US = 20 * 1000 * 1000,
    RETURN_US = 10 * 1000 * 1000, /* within which sharing resumes: 2 s, and what a machine stalls */
    FEW = 5,
};

static struct redis_server server;
static struct redis_client client;

static void start(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .deadline_us = DEADLINE_US,
    };
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
}

static void stop(void)
{
    redis_client_close(&client);
    redis_server_stop(&server);
}

static struct redis_store_counters count(void)
{
    return redis_store_count(client.store);
}

static void decide_refused(enum redis_fault fault, bool at_once)
{
    struct redis_question question;
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_REFUSED);
    ck_assert_int_eq(question.decision.fault, fault);
    ck_assert_int_eq(question.at_once, at_once);
}

static void decide_well(void)
{
    struct redis_question question;
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert_int_eq(question.decision.fault, REDIS_FAULT_NONE);
}

static void break_it(void)
{
    redis_server_command(&server, "CONFIG SET maxmemory 1");
    for (int i = 0; i < FEW; i++) {
        decide_refused(REDIS_FAULT_OOM, false);
    }
}

static void reconnect_now(void)
{
    redis_server_command(&server, "CONFIG SET maxmemory 0");
}

START_TEST(a_few_refusals_in_a_row_open_it_and_then_nothing_is_asked)
{
    break_it();
    const uint64_t n_calls = count().n_calls;
    ck_assert_uint_eq(count().n_openings, 1);
    for (int i = 0; i < 100; i++) {
        decide_refused(REDIS_FAULT_OOM, true);
    }
    ck_assert_uint_eq(count().n_calls, n_calls);
    ck_assert_uint_eq(count().n_connects, 1);
}
END_TEST

START_TEST(a_decision_that_is_made_forgets_the_refusals_before_it)
{
    for (int round = 0; round < 3; round++) {
        redis_server_command(&server, "CONFIG SET maxmemory 1");
        for (int i = 0; i < FEW - 1; i++) {
            decide_refused(REDIS_FAULT_OOM, false);
        }
        reconnect_now();
        decide_well();
    }
    ck_assert_uint_eq(count().n_openings, 0);
}
END_TEST

START_TEST(refusals_of_one_key_do_not_open_it)
{
    struct redis_question question;
    char key[128];
    redis_client_ask(&client, &question, 1);
    redis_client_await(&client, &question.answered);
    struct text text = text_of(key, sizeof(key) - 1);
    redis_key_write(&text, SPAN("test"), &question.charge);
    key[text.len] = '\0';
    redis_server_command(&server, "FLUSHALL");
    char command[192];
    snprintf(command, sizeof(command), "LPUSH %s x", key);
    redis_server_command(&server, command);
    for (int i = 0; i < 4 * FEW; i++) {
        decide_refused(REDIS_FAULT_WRONGTYPE, false);
    }
    ck_assert_uint_eq(count().n_openings, 0);
    redis_server_command(&server, "FLUSHALL"); /* that key has no end */
}
END_TEST

START_TEST(a_redis_that_is_well_again_is_asked_again_soon)
{
    break_it();
    reconnect_now();
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    decide_well();
    decide_well();
}
END_TEST

START_TEST(after_trouble_one_decision_is_asked_and_the_others_wait_for_what_comes_of_it)
{
    struct redis_question questions[4];
    break_it();
    reconnect_now();
    (void)redis_client_await_up(&client, true);
    const uint64_t n_calls = count().n_calls;
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_ask(&client, &questions[i], 1);
    }
    ck_assert_uint_eq(count().n_calls, n_calls + 1);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_await(&client, &questions[i].answered);
        ck_assert_int_eq(questions[i].decision.status, STATUS_OK);
    }
    ck_assert_uint_eq(count().n_calls, n_calls + ARRAY_LEN(questions));
    ck_assert_uint_eq(count().n_openings, 1);
}
END_TEST

START_TEST(a_trial_that_fails_fails_those_that_wait_for_it)
{
    struct redis_question questions[4];
    break_it();
    (void)redis_client_await_up(&client, true); /* a PING is answered all the same */
    const uint64_t n_calls = count().n_calls;
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_ask(&client, &questions[i], 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_await(&client, &questions[i].answered);
        ck_assert_int_eq(questions[i].decision.status, STATUS_REFUSED);
    }
    ck_assert_uint_eq(count().n_calls, n_calls + 1);
    ck_assert_uint_eq(count().n_openings, 2);
    decide_refused(REDIS_FAULT_OOM, true);
}
END_TEST

START_TEST(a_trial_that_is_cancelled_is_made_by_the_next_decision)
{
    struct redis_question left;
    struct redis_question waiting;
    break_it();
    reconnect_now();
    (void)redis_client_await_up(&client, true);
    redis_client_ask(&client, &left, 1);
    redis_client_ask(&client, &waiting, 1);
    store_cancel(&left.decision);
    redis_client_await(&client, &waiting.answered);
    ck_assert_int_eq(waiting.decision.status, STATUS_OK);
    ck_assert(!left.answered);
    decide_well();
}
END_TEST

START_TEST(a_connection_alone_does_not_shorten_the_wait_for_the_next)
{
    const uint64_t start_us = clock_monotonic_us();
    redis_server_command(&server, "REPLICAOF 127.0.0.1 1");
    for (uint64_t n = 1; n < 7; n++) {
        decide_refused(REDIS_FAULT_READONLY, false);
        ck_assert_uint_ge(count().n_connects, n);
        (void)redis_client_await_up(&client, true);
    }
    /* Half of 50, 100, 200, 400, 800 and 1,000 ms at least. */
    ck_assert_uint_ge(clock_monotonic_us() - start_us, (uint64_t)1275 * 1000);
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the program does: hiredis writes to peers that have gone */
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_breaker");
    TCase *tcase = tcase_create("breaker");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, a_few_refusals_in_a_row_open_it_and_then_nothing_is_asked);
    tcase_add_test(tcase, a_decision_that_is_made_forgets_the_refusals_before_it);
    tcase_add_test(tcase, refusals_of_one_key_do_not_open_it);
    tcase_add_test(tcase, a_redis_that_is_well_again_is_asked_again_soon);
    tcase_add_test(tcase,
                   after_trouble_one_decision_is_asked_and_the_others_wait_for_what_comes_of_it);
    tcase_add_test(tcase, a_trial_that_fails_fails_those_that_wait_for_it);
    tcase_add_test(tcase, a_trial_that_is_cancelled_is_made_by_the_next_decision);
    tcase_add_test(tcase, a_connection_alone_does_not_shorten_the_wait_for_the_next);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
