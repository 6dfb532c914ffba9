/* A Redis store that learns the limits of a policy that comes while it decides over
 * those of the one before. */

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/layers.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

enum { N_BEFORE = 1, N_AFTER = 2 };

static const uint64_t WEEK_US = UINT64_C(604800000000);

static struct redis_server server;
static struct redis_client client;
static struct limit before[N_BEFORE];
static struct limit after[N_AFTER]; /* the first is the one before, with another number */

static void fill(struct limit *limits, uint32_t index, const struct algorithm *algorithm,
                 uint32_t rate)
{
    const struct limit_spec spec = {.algorithm = algorithm,
                                    .rate = rate,
                                    .burst = rate,
                                    .period_us = WEEK_US,
                                    .lease_us = WEEK_US,
                                    .buckets = 10};
    limits[index] = (struct limit){.name = span_of_text(algorithm->name), .index = index};
    ck_assert_ptr_null(limit_init(&limits[index], &spec));
}

static void start(void)
{
    fill(before, 0, &token_bucket_algorithm, 10);
    fill(after, 0, &token_bucket_algorithm, 100);
    fill(after, 1, &sliding_window_algorithm, 5);
    server = (struct redis_server){0};
    redis_server_start(&server);
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .limits = before,
        .n_limits = N_BEFORE,
    };
    redis_client_open(&client, &options);
}

static void stop(void)
{
    redis_client_close(&client);
    redis_server_stop(&server);
}

static void on_answer(struct decision *decision)
{
    *(bool *)decision->context = true;
}

/* What is left of @limit after one more of the key. */
static uint64_t take(const struct limit *limit)
{
    bool is_answered = false;
    struct charge charge = {.limit = limit, .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1, .context = &is_answered};
    if (store_decide(client.store, &decision, on_answer) == STORE_PENDING) {
        redis_client_await(&client, &is_answered);
    }
    ck_assert_int_eq(decision.status, STATUS_OK);
    return charge.verdict.remaining;
}

static void await_ready(void)
{
    while (!store_is_ready(client.store)) {
        redis_client_iterate(&client);
    }
}

START_TEST(limits_of_two_policies_are_decided_over_side_by_side)
{
    (void)redis_client_await_up(&client, true);
    ck_assert_uint_eq(take(&before[0]), 9);
    ck_assert_int_eq(store_add_limits(client.store, after, N_AFTER), STATUS_OK);
    await_ready();
    ck_assert_uint_eq(take(&after[0]), 98); /* what was taken under the old number counts */
    ck_assert_uint_eq(take(&after[1]), 4);
    ck_assert_uint_eq(take(&before[0]), 7);
    store_remove_limits(client.store, before);
    ck_assert_uint_eq(take(&after[0]), 96);
}
END_TEST

START_TEST(a_link_that_is_up_stays_up_when_limits_are_learnt)
{
    (void)redis_client_await_up(&client, true);
    const uint64_t n_connects = redis_store_count(client.store).n_connects;
    for (unsigned i = 0; i < 50; i++) {
        ck_assert_int_eq(store_add_limits(client.store, after, N_AFTER), STATUS_OK);
        await_ready();
        (void)take(&after[1]);
        store_remove_limits(client.store, after);
    }
    ck_assert_uint_eq(redis_store_count(client.store).n_connects, n_connects);
    ck_assert_uint_eq(redis_store_count(client.store).n_failures, 0);
    (void)take(&before[0]);
}
END_TEST

START_TEST(a_decision_does_not_wait_for_the_script_that_it_needs)
{
    (void)redis_client_await_up(&client, true);
    ck_assert_int_eq(store_add_limits(client.store, after, N_AFTER), STATUS_OK);
    ck_assert_uint_eq(take(&after[1]), 4);
    ck_assert_uint_eq(take(&after[1]), 3);
    ck_assert_uint_eq(take(&before[0]), 9);
    ck_assert_uint_eq(redis_store_count(client.store).n_calls, 3); /* each by the script's name */
}
END_TEST

START_TEST(a_policy_between_two_that_redis_was_too_slow_for_has_its_script)
{
    struct limit last[1];
    bool is_answered = false;
    struct charge charge = {.limit = &after[1], .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1, .context = &is_answered};
    (void)redis_client_await_up(&client, true);
    redis_server_pause(&server);
    fill(last, 0, &sliding_log_algorithm, 7);
    ck_assert_int_eq(store_add_limits(client.store, after, N_AFTER), STATUS_OK);
    ck_assert_int_eq(store_add_limits(client.store, last, 1), STATUS_OK);
    ck_assert_int_eq(store_decide(client.store, &decision, on_answer), STORE_PENDING);
    redis_server_resume(&server);
    redis_client_await(&client, &is_answered);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert_uint_eq(charge.verdict.remaining, 4);
    ck_assert_uint_eq(take(&after[1]), 3);
    ck_assert_uint_eq(take(&last[0]), 6);
    store_remove_limits(client.store, last);
}
END_TEST

START_TEST(limits_that_are_learnt_while_the_link_is_made_are_known_when_it_is_up)
{
    ck_assert_int_eq(store_add_limits(client.store, after, N_AFTER), STATUS_OK);
    await_ready();
    ck_assert_uint_eq(take(&after[1]), 4);
    ck_assert_uint_eq(take(&before[0]), 9);
}
END_TEST

START_TEST(the_scripts_of_two_policies_survive_a_flush)
{
    (void)redis_client_await_up(&client, true);
    ck_assert_int_eq(store_add_limits(client.store, after, N_AFTER), STATUS_OK);
    await_ready();
    redis_server_command(&server, "SCRIPT FLUSH");
    ck_assert_uint_eq(take(&after[1]), 4);
    redis_server_command(&server, "SCRIPT FLUSH");
    ck_assert_uint_eq(take(&before[0]), 9);
}
END_TEST

START_TEST(a_call_under_way_for_nobody_goes_with_the_limits_it_is_over)
{
    struct store *coalesce;
    bool is_answered = false;
    struct charge charge = {.limit = &before[0], .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1, .context = &is_answered};
    (void)redis_client_await_up(&client, true);
    ck_assert_int_eq(coalesce_store_new(client.loop, client.store, 2000000, NULL, &coalesce),
                     STATUS_OK);
    ck_assert_int_eq(store_decide(coalesce, &decision, on_answer), STORE_PENDING);
    store_cancel(&decision);
    ck_assert_int_eq(store_add_limits(coalesce, after, N_AFTER), STATUS_OK);
    store_remove_limits(coalesce, before);
    client.store = coalesce;                    /* which owns it */
    fill(before, 0, &concurrency_algorithm, 1); /* nobody may look at it any more */
    (void)take(&after[0]);
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
    Suite *suite = suite_create("store/redis_learn");
    TCase *tcase = tcase_create("learning");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, limits_of_two_policies_are_decided_over_side_by_side);
    tcase_add_test(tcase, a_link_that_is_up_stays_up_when_limits_are_learnt);
    tcase_add_test(tcase, a_decision_does_not_wait_for_the_script_that_it_needs);
    tcase_add_test(tcase, a_policy_between_two_that_redis_was_too_slow_for_has_its_script);
    tcase_add_test(tcase, limits_that_are_learnt_while_the_link_is_made_are_known_when_it_is_up);
    tcase_add_test(tcase, the_scripts_of_two_policies_survive_a_flush);
    tcase_add_test(tcase, a_call_under_way_for_nobody_goes_with_the_limits_it_is_over);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
