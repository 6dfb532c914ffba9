#include "limit/fixed_window.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

/* 5 units in each window of 10 s that starts 4 s after a multiple of it. A tick is 1 ms. */
static const struct limit_params PARAMS = {
    .rate = 5,
    .period = 10000,
    .offset = 4000,
    .ticks_per_s = 1000,
};
static const uint64_t START = 1004000; /* of a window */

static const struct algorithm *const ALGORITHM = &fixed_window_algorithm;

static void evaluate(const struct fixed_window *state, const struct limit_params *params,
                     uint64_t now, uint32_t cost, struct verdict *verdict)
{
    const struct limit_call call = {.now = now, .cost = cost};
    algorithm_evaluate(ALGORITHM, state, params, &call, verdict);
}

static void charge(struct fixed_window *state, const struct limit_params *params, uint64_t now,
                   uint32_t cost)
{
    const struct limit_call call = {.now = now, .cost = cost};
    ALGORITHM->charge(state, params, &call);
}

/* One request, its answer, and how things stand after it. A story is a list of them on one key. */
struct step {
    const char *says;
    int64_t at; /* ticks since START */
    uint32_t cost;
    bool allowed;
    uint64_t retry_after;
    uint64_t remaining_then;
    uint64_t reset_after_then;
};

static void play(const struct step *steps, size_t n_steps)
{
    struct fixed_window window = {0};

    for (const struct step *step = steps; step < steps + n_steps; step++) {
        const uint64_t now = START + (uint64_t)step->at;
        struct verdict got;
        evaluate(&window, &PARAMS, now, step->cost, &got);
        ck_assert_msg(got.allowed == step->allowed, "%s", step->says);
        ck_assert_msg(got.retry_after == step->retry_after, "%s", step->says);
        if (got.allowed) {
            charge(&window, &PARAMS, now, step->cost);
        }

        evaluate(&window, &PARAMS, now, 0, &got);
        ck_assert_msg(got.limit == PARAMS.rate, "%s", step->says);
        ck_assert_msg(got.remaining == step->remaining_then, "%s", step->says);
        ck_assert_msg(got.next_after == step->reset_after_then, "%s", step->says);
        ck_assert_msg(got.reset_after == step->reset_after_then, "%s", step->says);
    }
}

/* --- evaluate and charge: {story, at, cost, allowed, retry_after; then: remaining, reset} --- */

START_TEST(a_window_admits_its_count_and_the_next_one_starts_anew)
{
    static const struct step story[] = {
        {"asking takes nothing", 0, 0, true, 0, 5, 0},
        {"a new window admits", 0, 3, true, 0, 2, 10000},
        {"all or nothing", 2500, 3, false, 7500, 2, 7500},
        {"what is left passes", 2500, 2, true, 0, 0, 7500},
        {"a full window denies to its last tick", 9999, 1, false, 1, 0, 1},
        {"the edge is the next window's", 10000, 5, true, 0, 0, 10000},
    };
    play(story, ARRAY_LEN(story));
}
END_TEST

START_TEST(what_exceeds_the_count_is_denied_forever)
{
    static const struct step story[] = {
        {"more than the count never passes", 1, 6, false, RETRY_NEVER, 5, 0},
        {"not even the greatest cost wraps", 1, UINT32_MAX, false, RETRY_NEVER, 5, 0},
        {"and was not charged", 1, 5, true, 0, 0, 9999},
    };
    play(story, ARRAY_LEN(story));
}
END_TEST

START_TEST(odd_clocks_neither_give_nor_freeze)
{
    static const struct step story[] = {
        {"spend as a window starts", 0, 4, true, 0, 1, 10000},
        {"half a second back is still that window", -500, 2, false, 10500, 1, 10500},
        {"a second too", -1000, 1, true, 0, 0, 11000},
        {"an age of idling empties", INT64_C(1) << 61, 5, true, 0, 0, 6048},
        {"a clock set back for good is followed, with what was taken", 2000, 1, false, 8000, 0,
         8000},
    };
    play(story, ARRAY_LEN(story));
}
END_TEST

START_TEST(a_full_window_whose_clock_went_back_can_be_followed_without_a_charge)
{
    struct fixed_window window = {.count = 5, .start = START + 3600000};

    ck_assert(ALGORITHM->is_ahead(&window, &PARAMS, START));
    ck_assert(!ALGORITHM->is_ahead(&window, &PARAMS, START + 3599000));
    charge(&window, &PARAMS, START + 1, 0);
    ck_assert_uint_eq(window.count, 5);
    ck_assert_uint_eq(window.start, START);
}
END_TEST

START_TEST(a_time_before_the_first_window_has_a_window_too)
{
    struct fixed_window window = {0};
    struct verdict verdict;

    charge(&window, &PARAMS, 1000, 5);
    evaluate(&window, &PARAMS, 3999, 1, &verdict);
    ck_assert_uint_eq(verdict.retry_after, 1);
    evaluate(&window, &PARAMS, 4000, 1, &verdict);
    ck_assert(verdict.allowed);
}
END_TEST

START_TEST(a_raised_rate_helps_at_once_and_a_lowered_one_counts_what_was_taken)
{
    struct fixed_window window = {.count = 5, .start = START};
    struct limit_params changed = PARAMS;
    struct verdict verdict;

    changed.rate = 8;
    evaluate(&window, &changed, START, 3, &verdict);
    ck_assert(verdict.allowed);
    changed.rate = 2;
    evaluate(&window, &changed, START, 1, &verdict);
    ck_assert(!verdict.allowed);
    ck_assert_uint_eq(verdict.remaining, 0);
}
END_TEST

/* --- check_params --- */

static const struct {
    struct limit_params params;
    const char *says;
} BAD_PARAMS[] = {
    {{.rate = 0, .period = 1}, "rate must be at least 1"},
    {{.rate = 1, .period = 0}, "period must be at least 1 tick"},
    {{.rate = 1, .period = LIMIT_UNITS_MAX + 1}, "period must not exceed 2^52 ticks"},
    {{.rate = 1, .period = 7, .offset = 7}, "offset must be less than the period"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

START_TEST(check_params_accepts_the_greatest_numbers)
{
    const struct limit_params edge = {
        .rate = UINT32_MAX,
        .period = LIMIT_UNITS_MAX,
        .offset = LIMIT_UNITS_MAX - 1,
    };
    ck_assert_ptr_null(ALGORITHM->check_params(&edge));
}
END_TEST

static Suite *fixed_window_suite(void)
{
    Suite *suite = suite_create("limit/fixed_window");

    TCase *decide = tcase_create("evaluate and charge");
    tcase_add_test(decide, a_window_admits_its_count_and_the_next_one_starts_anew);
    tcase_add_test(decide, what_exceeds_the_count_is_denied_forever);
    tcase_add_test(decide, odd_clocks_neither_give_nor_freeze);
    tcase_add_test(decide, a_full_window_whose_clock_went_back_can_be_followed_without_a_charge);
    tcase_add_test(decide, a_time_before_the_first_window_has_a_window_too);
    tcase_add_test(decide, a_raised_rate_helps_at_once_and_a_lowered_one_counts_what_was_taken);
    suite_add_tcase(suite, decide);

    TCase *check_params = tcase_create("check_params");
    tcase_add_loop_test(check_params, check_params_names_the_fault, 0, (int)ARRAY_LEN(BAD_PARAMS));
    tcase_add_test(check_params, check_params_accepts_the_greatest_numbers);
    suite_add_tcase(suite, check_params);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(fixed_window_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
