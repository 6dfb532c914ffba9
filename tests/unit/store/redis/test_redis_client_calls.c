/* What a client has in flight when its decisions are cancelled: Redis has the calls still. */

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "limit/algorithms.h"
#include "net/loop.h"
#include "store/layers.h"
#include "store/redis_store.h"
#include "support/redis_server.h"

enum {
    CALLS = CLIENT_CALLS_FREE + CLIENT_CALLS_MAX, /* of a client that is alone */
    QUESTIONS_MAX = 2 * CALLS + 4,
    LONG_US = 10 * 1000 * 1000, /* longer than a machine stands still */
    SHORT_US = 100 * 1000,
};

static struct redis_server server;
static struct loop *loop;
static struct store *redis;
static struct store *store; /* the client queue over it */
static struct limit limit;
static struct address address;

/* One request with a key of its own. */
struct question {
    char key[32];
    struct charge charge;
    struct decision decision;
    bool answered;
};

static struct question questions[QUESTIONS_MAX];

static void iterate(void)
{
    ck_assert_int_eq(loop_iteration(loop, true), STATUS_OK);
}

static void start(uint64_t deadline_us)
{
    const struct limit_spec spec = {
        .algorithm = &sliding_log_algorithm, .rate = 1000, .period_us = UINT64_C(604800000000)};
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    ck_assert(address_parse(SPAN("192.0.2.1"), &address));
    server = (struct redis_server){0};
    redis_server_start(&server);
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    struct client_calls *calls = client_calls_new(loop);
    ck_assert_ptr_nonnull(calls);
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .limits = &limit,
        .n_limits = 1,
        .prefix = SPAN("test"),
        .deadline_us = deadline_us,
        .calls = calls,
    };
    ck_assert_int_eq(redis_store_new(loop, &options, &redis), STATUS_OK);
    ck_assert_int_eq(call_counter_new(calls, redis, &store), STATUS_OK);
    ck_assert_int_eq(client_queue_new(calls, store, NULL, &store), STATUS_OK);
    client_calls_leave(calls);
    while (!redis_store_is_up(redis)) {
        iterate();
    }
}

static void start_patient(void)
{
    start(LONG_US);
}

static void start_hasty(void)
{
    start(SHORT_US);
}

static void stop(void)
{
    store_free(store);
    loop_free(loop);
    redis_server_stop(&server);
}

static void on_answer(struct decision *decision)
{
    *(bool *)decision->context = true;
}

static void ask(size_t i)
{
    struct question *question = &questions[i];
    *question = (struct question){.charge = {.limit = &limit, .cost = 1}};
    snprintf(question->key, sizeof(question->key), "{%zu}", i);
    question->charge.key = span_of_text(question->key);
    question->decision = (struct decision){.charges = &question->charge,
                                           .n_charges = 1,
                                           .client = address,
                                           .context = &question->answered};
    ck_assert_int_eq(store_decide(store, &question->decision, on_answer), STORE_PENDING);
}

/* Asks and cancels from @from to @to - 1. */
static void ask_and_leave(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        ask(i);
        store_cancel(&questions[i].decision);
        memset(&questions[i], 0xee, sizeof(questions[i]));
    }
}

static void await(size_t i, enum status status)
{
    while (!questions[i].answered) {
        iterate();
    }
    ck_assert_int_eq(questions[i].decision.status, status);
}

static uint64_t count_calls(void)
{
    return redis_store_count(redis).n_calls;
}

START_TEST(a_client_that_leaves_has_no_more_calls_in_flight_than_one_that_waits)
{
    redis_server_pause(&server);
    ask_and_leave(0, 2 * CALLS);
    ck_assert_uint_eq(count_calls(), CLIENT_CALLS_MAX);
    ask(2 * CALLS);
    ck_assert_uint_eq(count_calls(), CLIENT_CALLS_MAX);

    redis_server_resume(&server);
    await(2 * CALLS, STATUS_OK);
    ck_assert_uint_eq(count_calls(), CLIENT_CALLS_MAX + 1);
    ck_assert_uint_eq(redis_store_count(redis).n_late_replies, CLIENT_CALLS_MAX);
}
END_TEST

START_TEST(calls_that_a_client_waits_for_and_others_are_counted_together)
{
    redis_server_pause(&server);
    for (size_t i = 0; i < CALLS; i++) {
        ask(i);
    }
    for (size_t i = 0; i < CALLS; i++) {
        store_cancel(&questions[i].decision);
    }
    ask(CALLS);
    ck_assert_uint_eq(count_calls(), CALLS);
    redis_server_resume(&server);
    await(CALLS, STATUS_OK);
}
END_TEST

START_TEST(the_loss_of_the_link_ends_them)
{
    redis_server_pause(&server);
    ask_and_leave(0, CALLS);
    ask(CALLS);
    redis_server_kill(&server);
    await(CALLS, STATUS_UNREACHABLE);
    ck_assert_uint_eq(count_calls(), CLIENT_CALLS_MAX);
}
END_TEST

START_TEST(a_store_can_be_freed_while_redis_has_them)
{
    redis_server_pause(&server);
    ask_and_leave(0, CALLS);
    store_free(store);
    redis_server_resume(&server);
    store = NULL;
}
END_TEST

START_TEST(the_deadline_ends_them_as_if_the_client_had_waited)
{
    redis_server_pause(&server);
    ask_and_leave(0, CALLS);
    ask(CALLS);
    ck_assert_uint_eq(count_calls(), CLIENT_CALLS_MAX);
    await(CALLS, STATUS_TIMEOUT); /* it was asked then, and Redis is as silent */
    ck_assert_uint_eq(count_calls(), CLIENT_CALLS_MAX + 1);
    redis_server_resume(&server);
    while (redis_store_count(redis).n_late_replies < CLIENT_CALLS_MAX + 1) {
        iterate();
    }
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
    Suite *suite = suite_create("store/redis_client_calls");
    TCase *tcase = tcase_create("until the reply");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, start_patient, stop);
    tcase_add_test(tcase, a_client_that_leaves_has_no_more_calls_in_flight_than_one_that_waits);
    tcase_add_test(tcase, calls_that_a_client_waits_for_and_others_are_counted_together);
    tcase_add_test(tcase, the_loss_of_the_link_ends_them);
    tcase_add_test(tcase, a_store_can_be_freed_while_redis_has_them);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("until the deadline");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, start_hasty, stop);
    tcase_add_test(tcase, the_deadline_ends_them_as_if_the_client_had_waited);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
