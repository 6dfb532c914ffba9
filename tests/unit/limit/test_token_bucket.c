#include "limit/token_bucket.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "limit/meter.h"

/* 10 tokens a second, 5 at most: a token every 100 ms, full again after 500 ms. A tick is 1 us. */
static const struct limit_params PARAMS = {
    .rate = 10,
    .burst = 5,
    .period = 1000000,
    .ticks_per_s = 1000000,
};
static const uint64_t START = 1000000000;

static const struct algorithm *const ALGORITHM = &token_bucket_algorithm;

static void evaluate(const struct meter *state, const struct limit_params *params, uint64_t now,
                     uint32_t cost, struct verdict *verdict)
{
    const struct limit_call call = {.now = now, .cost = cost};
    algorithm_evaluate(ALGORITHM, state, params, &call, verdict);
}

static void charge(struct meter *state, const struct limit_params *params, uint64_t now,
                   uint32_t cost)
{
    const struct limit_call call = {.now = now, .cost = cost};
    ALGORITHM->charge(state, params, &call);
}

/* One request, its answer, and how things stand after it. A story is a list of them on one bucket.
 */
struct step {
    const char *says;
    uint64_t at; /* ticks since START */
    uint32_t cost;
    bool allowed;
    uint64_t retry_after;
    uint64_t remaining_then;
    uint64_t next_after_then;
    uint64_t reset_after_then;
};

static void play(const struct step *steps, size_t n_steps)
{
    struct meter bucket = {0};

    for (const struct step *step = steps; step < steps + n_steps; step++) {
        const uint64_t now = START + step->at;
        struct verdict got;
        evaluate(&bucket, &PARAMS, now, step->cost, &got);
        ck_assert_msg(got.allowed == step->allowed, "%s", step->says);
        ck_assert_msg(got.retry_after == step->retry_after, "%s", step->says);
        if (got.allowed) {
            charge(&bucket, &PARAMS, now, step->cost);
        }

        evaluate(&bucket, &PARAMS, now, 0, &got);
        ck_assert_msg(got.limit == PARAMS.burst, "%s", step->says);
        ck_assert_msg(got.remaining == step->remaining_then, "%s", step->says);
        ck_assert_msg(got.next_after == step->next_after_then, "%s", step->says);
        ck_assert_msg(got.reset_after == step->reset_after_then, "%s", step->says);
    }
}

/* {story, at, cost, allowed, retry_after; then: remaining, next, reset} */

START_TEST(the_burst_is_spent_then_one_token_per_interval)
{
    static const struct step story[] = {
        {"a full bucket gives its burst at once", 0, 5, true, 0, 0, 100000, 500000},
        {"an empty bucket denies", 0, 1, false, 100000, 0, 100000, 500000},
        {"a microsecond early is early", 99999, 1, false, 1, 0, 1, 400001},
        {"on time is on time", 100000, 1, true, 0, 0, 100000, 500000},
    };
    play(story, ARRAY_LEN(story));
}
END_TEST

START_TEST(what_exceeds_the_burst_is_denied_forever)
{
    static const struct step story[] = {
        {"more than the burst never passes", 0, 6, false, RETRY_NEVER, 5, 0, 0},
        {"not even the greatest cost wraps", 0, UINT32_MAX, false, RETRY_NEVER, 5, 0, 0},
        {"and was not charged", 0, 5, true, 0, 0, 100000, 500000},
    };
    play(story, ARRAY_LEN(story));
}
END_TEST

START_TEST(odd_clocks_neither_give_nor_freeze)
{
    static const struct step story[] = {
        {"spend at 2 s", 2000000, 5, true, 0, 0, 100000, 500000},
        {"half a second back gains nothing", 1500000, 0, true, 0, 0, 600000, 1000000},
        {"and loses nothing", 2100000, 1, true, 0, 0, 100000, 500000},
        {"an age of idling merely fills", UINT64_C(1) << 62, 1, true, 0, 4, 100000, 100000},
        {"a clock set back for good is followed", 0, 1, true, 0, 3, 100000, 200000},
        {"and goes on from there", 100000, 0, true, 0, 4, 100000, 100000},
    };
    play(story, ARRAY_LEN(story));
}
END_TEST

START_TEST(a_denied_bucket_whose_clock_went_back_can_be_followed_without_a_charge)
{
    struct meter bucket = {.taken = 5000000, .updated = START + 3600000000};

    ck_assert(ALGORITHM->is_ahead(&bucket, &PARAMS, START));
    ck_assert(!ALGORITHM->is_ahead(&bucket, &PARAMS, START + 3599000000));
    charge(&bucket, &PARAMS, START, 0);
    ck_assert_uint_eq(bucket.taken, 5000000);
    ck_assert_uint_eq(bucket.updated, START);
}
END_TEST

START_TEST(evaluate_changes_nothing_and_a_raised_burst_helps_at_once)
{
    struct meter bucket = {0};
    struct limit_params raised = PARAMS;
    struct verdict verdict;

    charge(&bucket, &PARAMS, START, 5);
    evaluate(&bucket, &PARAMS, START, 1, &verdict);
    ck_assert(!verdict.allowed);

    raised.burst = 8;
    evaluate(&bucket, &raised, START, 3, &verdict);
    ck_assert(verdict.allowed);
    evaluate(&bucket, &raised, START, 3, &verdict);
    ck_assert(verdict.allowed);
}
END_TEST

START_TEST(a_lowered_burst_counts_what_was_taken)
{
    struct meter bucket = {0};
    struct limit_params lowered = PARAMS;
    struct verdict verdict;

    charge(&bucket, &PARAMS, START, 5);
    lowered.burst = 2;
    evaluate(&bucket, &lowered, START, 1, &verdict);
    ck_assert(!verdict.allowed);
    ck_assert_uint_eq(verdict.remaining, 0);
    ck_assert_uint_eq(verdict.retry_after, 400000); /* 4 of the 5 must have come back */
    ck_assert_uint_eq(verdict.reset_after, 500000);
}
END_TEST

/* --- check_params --- */

static const struct {
    struct limit_params params;
    const char *says;
} BAD_PARAMS[] = {
    {{.rate = 0, .burst = 1, .period = 1}, "rate must be at least 1"},
    {{.rate = 1, .burst = 0, .period = 1}, "burst must be at least 1"},
    {{.rate = 1, .burst = 1, .period = 0}, "period must be at least 1 tick"},
    {{.rate = 1, .burst = 2, .period = LIMIT_UNITS_MAX},
     "burst times period must not exceed 2^52 ticks"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

START_TEST(check_params_accepts_the_greatest_debt)
{
    const struct limit_params edge = {.rate = 1, .burst = 1, .period = LIMIT_UNITS_MAX};
    ck_assert_ptr_null(ALGORITHM->check_params(&edge));
}
END_TEST

static Suite *token_bucket_suite(void)
{
    Suite *suite = suite_create("limit/token_bucket");

    TCase *decide = tcase_create("evaluate and charge");
    tcase_add_test(decide, the_burst_is_spent_then_one_token_per_interval);
    tcase_add_test(decide, what_exceeds_the_burst_is_denied_forever);
    tcase_add_test(decide, odd_clocks_neither_give_nor_freeze);
    tcase_add_test(decide, a_denied_bucket_whose_clock_went_back_can_be_followed_without_a_charge);
    tcase_add_test(decide, evaluate_changes_nothing_and_a_raised_burst_helps_at_once);
    tcase_add_test(decide, a_lowered_burst_counts_what_was_taken);
    suite_add_tcase(suite, decide);

    TCase *check_params = tcase_create("check_params");
    tcase_add_loop_test(check_params, check_params_names_the_fault, 0, (int)ARRAY_LEN(BAD_PARAMS));
    tcase_add_test(check_params, check_params_accepts_the_greatest_debt);
    suite_add_tcase(suite, check_params);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(token_bucket_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
