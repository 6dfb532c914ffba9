#include "limit/judge.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"

static const uint64_t NOW_US = UINT64_C(1763667890000000);

/* Two limits and their states: a bucket of 5 and a window of 2. */
static struct limit limits[2];
static uint64_t states[2][4];
static struct judged judged[2];
static struct verdict verdicts[2];
static uint64_t now_us;

static void setup(void)
{
    const struct limit_spec bucket = {
        .algorithm = &token_bucket_algorithm, .rate = 5, .burst = 5, .period_us = 60000000};
    const struct limit_spec window = {
        .algorithm = &fixed_window_algorithm, .rate = 2, .period_us = 60000000};
    limits[0] = (struct limit){.name = SPAN("bucket")};
    limits[1] = (struct limit){.name = SPAN("window")};
    ck_assert_ptr_null(limit_init(&limits[0], &bucket));
    ck_assert_ptr_null(limit_init(&limits[1], &window));
    memset(states, 0, sizeof(states));
    now_us = NOW_US;
}

static bool decide(uint32_t bucket_cost, uint32_t window_cost)
{
    bool admitted;
    const uint32_t costs[] = {bucket_cost, window_cost};
    for (size_t i = 0; i < 2; i++) {
        judged[i] = (struct judged){
            .limit = &limits[i],
            .state = states[i],
            .call = limit_call_at(&limits[i], now_us, costs[i]),
            .verdict = &verdicts[i],
        };
    }
    ck_assert_int_eq(judge_evaluate(judged, 2, &admitted), STATUS_OK);
    judge_conclude(&judged[0], admitted);
    judge_conclude(&judged[1], admitted);
    return admitted;
}

static void ck_remaining(uint64_t bucket, uint64_t window)
{
    ck_assert_uint_eq(verdicts[0].remaining, bucket);
    ck_assert_uint_eq(verdicts[1].remaining, window);
}

START_TEST(what_all_allow_is_charged_to_all)
{
    ck_assert(decide(3, 1));
    ck_remaining(2, 1);
    ck_assert(judged[0].charged && judged[1].charged);
}
END_TEST

START_TEST(what_one_denies_is_charged_to_none)
{
    ck_assert(decide(1, 2));
    ck_assert(!decide(1, 1));
    ck_remaining(4, 0);
    ck_assert(verdicts[0].allowed && !verdicts[1].allowed);
    ck_assert(!judged[0].charged && !judged[1].charged);
}
END_TEST

START_TEST(a_cost_of_nothing_is_not_charged)
{
    ck_assert(decide(0, 1));
    ck_remaining(5, 1);
    ck_assert(!judged[0].charged && judged[1].charged);
    ck_assert_uint_eq(states[0][0], 0);
}
END_TEST

/* Bytes of a log of @n entries from one tick on, after a denied request a second after all but the
 * newest of them have left. */
static size_t log_bytes_after_denial(uint64_t n, struct verdict *verdict)
{
    static uint64_t state[512];
    const struct limit_spec spec = {
        .algorithm = &sliding_log_algorithm, .rate = 1000, .period_us = 60000000};
    struct limit log = {.name = SPAN("log")};
    ck_assert_ptr_null(limit_init(&log, &spec));
    memset(state, 0, sizeof(state));
    for (uint64_t i = 0; i <= n; i++) {
        struct limit_call call = limit_call_at(&log, i < n ? NOW_US : NOW_US + 30000000, 1);
        log.algorithm->charge(state, &log.params, &call);
    }
    bool admitted;
    struct judged one = {.limit = &log,
                         .state = state,
                         .call = limit_call_at(&log, NOW_US + 61000000, 1),
                         .verdict = verdict};
    ck_assert_int_eq(judge_evaluate(&one, 1, &admitted), STATUS_OK);
    judge_conclude(&one, false);
    ck_assert(!one.charged);
    return log.algorithm->state_bytes(state, &log.params, &one.call);
}

START_TEST(many_that_have_left_a_log_are_dropped_though_the_request_is_denied)
{
    struct verdict few;
    struct verdict many;
    ck_assert_uint_ge(log_bytes_after_denial(8, &few), 16 + 9 * 12);
    ck_assert_uint_le(log_bytes_after_denial(300, &many), 16 + 3 * 12);
    ck_assert_uint_eq(many.remaining, 999);
    ck_assert_uint_eq(many.next_after, 29000000);
    ck_assert_uint_eq(few.allowed, many.allowed);
    ck_assert_uint_eq(few.retry_after, many.retry_after);
    ck_assert_uint_eq(few.wait, many.wait);
    ck_assert_uint_eq(few.limit, many.limit);
    ck_assert_uint_eq(few.remaining, many.remaining);
    ck_assert_uint_eq(few.next_after, many.next_after);
    ck_assert_uint_eq(few.reset_after, many.reset_after);
}
END_TEST

START_TEST(a_shadow_is_charged_as_if_real_and_denies_nobody)
{
    limits[1].shadow = true;
    ck_assert(decide(1, 2));
    ck_remaining(4, 0);
    ck_assert(decide(1, 1));
    ck_assert(!verdicts[1].allowed && verdicts[1].retry_after > 0);
    ck_assert(judged[0].charged && !judged[1].charged);
    ck_remaining(3, 0);
}
END_TEST

START_TEST(a_shadow_is_not_charged_what_a_real_limit_denies)
{
    limits[1].shadow = true;
    ck_assert(!decide(6, 1));
    ck_remaining(5, 2);
}
END_TEST

START_TEST(a_limit_that_counts_denied_requests_is_filled_at_most)
{
    limits[1].charge_denied = true;
    ck_assert(!decide(6, 1)); /* denied by the bucket */
    ck_remaining(5, 1);
    ck_assert(!decide(1, 3)); /* and by itself */
    ck_remaining(5, 0);
    ck_assert(!decide(1, UINT32_MAX));
    ck_remaining(5, 0);
    ck_assert_uint_eq(states[1][0], 2);
    ck_assert(!judged[1].charged);
}
END_TEST

START_TEST(a_bucket_that_counts_denied_requests_is_filled_to_the_last_part)
{
    limits[0].charge_denied = true;
    ck_assert(decide(4, 0));
    ck_assert(!decide(2, 0));
    ck_remaining(0, 2);
    ck_assert_uint_eq(verdicts[0].next_after, 12000000);
    ck_assert_uint_eq(states[0][0], UINT64_C(5) * 60000000);
}
END_TEST

/* Half a token is there when the request is denied, and is taken from it. */
START_TEST(who_waits_as_a_limit_that_counts_denied_requests_says_is_let_in)
{
    limits[0].charge_denied = true;
    ck_assert(decide(5, 0));
    now_us += 6 * 1000000;
    ck_assert(!decide(1, 0));
    ck_assert_uint_eq(verdicts[0].retry_after, 12000000);
    now_us += 12 * 1000000;
    ck_assert(decide(1, 0));
    ck_assert(!decide(6, 0));
    ck_assert(verdicts[0].retry_after == RETRY_NEVER);
}
END_TEST

START_TEST(a_shadow_that_counts_what_it_would_deny_is_filled)
{
    limits[1].shadow = true;
    limits[1].charge_denied = true;
    ck_assert(decide(1, 1));
    ck_assert(decide(1, 2));
    ck_remaining(3, 0);
    ck_assert(!judged[1].charged);
}
END_TEST

START_TEST(slots_are_never_taken_by_what_is_denied)
{
    const struct limit_spec slots = {
        .algorithm = &concurrency_algorithm, .rate = 2, .lease_us = 60000000};
    ck_assert_ptr_null(limit_init(&limits[1], &slots));
    limits[1].charge_denied = true;
    ck_assert(!decide(6, 1));
    ck_remaining(5, 2);
}
END_TEST

START_TEST(a_clock_that_was_set_back_is_followed_by_what_is_denied_too)
{
    ck_assert(decide(5, 0));
    states[0][1] += UINT64_C(3600) * 1000000;
    ck_assert(!decide(1, 0));
    ck_assert_uint_eq(states[0][1], NOW_US);
}
END_TEST

START_TEST(a_time_outside_the_calendar_is_judged_by_nobody)
{
    static const uint64_t edges[LIMIT_EDGES] = {100, 200, 300, 400};
    limits[1].params.is_calendar = true;
    struct judged one = {
        .limit = &limits[1],
        .state = states[1],
        .call = {.now = 399, .cost = 1, .edges = edges},
        .verdict = &verdicts[1],
    };
    bool admitted;
    ck_assert_int_eq(judge_evaluate(&one, 1, &admitted), STATUS_OK);
    one.call.now = 400;
    ck_assert_int_eq(judge_evaluate(&one, 1, &admitted), STATUS_INVALID);
    one.call.now = 99;
    ck_assert_int_eq(judge_evaluate(&one, 1, &admitted), STATUS_INVALID);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("limit/judge");
    TCase *tcase = tcase_create("decisions");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, what_all_allow_is_charged_to_all);
    tcase_add_test(tcase, what_one_denies_is_charged_to_none);
    tcase_add_test(tcase, a_cost_of_nothing_is_not_charged);
    tcase_add_test(tcase, many_that_have_left_a_log_are_dropped_though_the_request_is_denied);
    tcase_add_test(tcase, a_shadow_is_charged_as_if_real_and_denies_nobody);
    tcase_add_test(tcase, a_shadow_is_not_charged_what_a_real_limit_denies);
    tcase_add_test(tcase, a_limit_that_counts_denied_requests_is_filled_at_most);
    tcase_add_test(tcase, a_bucket_that_counts_denied_requests_is_filled_to_the_last_part);
    tcase_add_test(tcase, who_waits_as_a_limit_that_counts_denied_requests_says_is_let_in);
    tcase_add_test(tcase, a_shadow_that_counts_what_it_would_deny_is_filled);
    tcase_add_test(tcase, slots_are_never_taken_by_what_is_denied);
    tcase_add_test(tcase, a_clock_that_was_set_back_is_followed_by_what_is_denied_too);
    tcase_add_test(tcase, a_time_outside_the_calendar_is_judged_by_nobody);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
