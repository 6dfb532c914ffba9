#include "limit/sliding_window.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "golden.h"

static const struct algorithm *const ALGORITHM = &sliding_window_algorithm;

/* 10 units in 6 s, in three sub-windows of 2 s. A tick is 1 ms. */
static const struct limit_params PARAMS = {
    .rate = 10,
    .period = 6000,
    .buckets = 3,
    .ticks_per_s = 1000,
};
static const struct limit_params STRICT = {
    .rate = 10,
    .period = 6000,
    .buckets = 3,
    .strict = true,
    .ticks_per_s = 1000,
};
static const uint64_t START = 6000000; /* of a sub-window */

/* --- {story, kind, at, units, of, allowed, retry_after, wait, {then:
 * remaining, next, reset}} --- */

START_TEST(the_oldest_sub_window_counts_by_the_part_that_is_still_inside)
{
    static const struct golden story[] = {
        {"asking takes nothing", ASK, 0, 0, 0, true, 0, 0, {10, 0, 0}},
        {"four in the first", ASK, 0, 4, 0, true, 0, 0, {6, 6500, 8000}},
        {"six in the second", ASK, 2500, 6, 0, true, 0, 0, {0, 4000, 7500}},
        {"then nothing", ASK, 2500, 1, 0, false, 4000, 0, {0, 4000, 7500}},
        {"all of the first still counts at 6 s", ASK, 6000, 1, 0, false, 500, 0, {0, 500, 4000}},
        {"a tick before a quarter of it is out", ASK, 6499, 1, 0, false, 1, 0, {0, 1, 3501}},
        {"a quarter of four is one", ASK, 6500, 1, 0, true, 0, 0, {0, 500, 7500}},
        {"three more by 8 s", ASK, 8000, 3, 0, true, 0, 0, {0, 334, 8000}},
        {"the six lose one after a third of a second", ASK, 8333, 1, 0, false, 1, 0, {0, 1, 7667}},
        {"on the first tick that lets it in", ASK, 8334, 1, 0, true, 0, 0, {0, 333, 7666}},
        {"more than the rate never passes",
         ASK,
         8334,
         11,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 333, 7666}},
        {"not even the greatest cost wraps",
         ASK,
         8334,
         UINT32_MAX,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 333, 7666}},
        {"after a period and a sub-window nothing is left",
         ASK,
         16000,
         10,
         0,
         true,
         0,
         0,
         {0, 6200, 8000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(strict_counts_the_oldest_whole)
{
    static const struct golden story[] = {
        {"ten at the end of a sub-window", ASK, 1999, 10, 0, true, 0, 0, {0, 6001, 6001}},
        {"still there a period later", ASK, 7999, 1, 0, false, 1, 0, {0, 1, 1}},
        {"gone with its sub-window", ASK, 8000, 10, 0, true, 0, 0, {0, 8000, 8000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &STRICT, START);
}
END_TEST

START_TEST(what_is_settled_is_of_its_own_sub_window)
{
    static const struct golden story[] = {
        {"eight in the first", ASK, 0, 8, 0, true, 0, 0, {2, 6250, 8000}},
        {"two in the second", ASK, 2000, 2, 0, true, 0, 0, {0, 4250, 8000}},
        {"five of the first come back", SETTLE, 2000, -5, 0, false, 0, 0, {5, 4667, 8000}},
        {"a cost learnt later is of then", SETTLE, 2000, 3, 2000, false, 0, 0, {2, 4667, 8000}},
        {"not more comes back than there is", SETTLE, 2000, -9, 2000, false, 0, 0, {7, 4667, 6000}},
        {"what is out is out", SETTLE, 8500, -3, 0, false, 0, 0, {10, 0, 0}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(odd_clocks_neither_give_nor_freeze)
{
    static const struct golden story[] = {
        {"four at 60 s", ASK, 60000, 4, 0, true, 0, 0, {6, 6500, 8000}},
        {"half a second back is the later sub-window",
         ASK,
         59500,
         6,
         0,
         true,
         0,
         0,
         {0, 6700, 8500}},
        {"a clock set back for good is followed", ASK, 0, 1, 0, false, 6200, 0, {0, 6200, 8000}},
        {"and goes on from there", ASK, 6200, 1, 0, true, 0, 0, {0, 200, 7800}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(one_bucket_is_the_approximation_with_two_counters)
{
    struct limit_params params = PARAMS;
    static const struct golden story[] = {
        {"a full window", ASK, 0, 10, 0, true, 0, 0, {0, 6600, 12000}},
        {"half of it counts half a period later", ASK, 9000, 5, 0, true, 0, 0, {0, 600, 9000}},
    };
    params.buckets = 1;
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &params, START);
}
END_TEST

START_TEST(the_greatest_state_is_within_the_bound)
{
    const struct limit_params params = {
        .rate = 1, .period = 100, .buckets = SLIDING_WINDOW_BUCKETS_MAX, .ticks_per_s = 1};
    ck_assert_ptr_null(ALGORITHM->check_params(&params));
    ck_assert_uint_le(ALGORITHM->state_bytes(NULL, &params, NULL), LIMIT_STATE_BYTES_MAX);
}
END_TEST

/* --- check_params --- */

static const struct {
    struct limit_params params;
    const char *says;
} BAD_PARAMS[] = {
    {{.rate = 0, .period = 6, .buckets = 3}, "rate must be at least 1"},
    {{.rate = 1, .period = 0, .buckets = 3}, "period must be at least 1 tick"},
    {{.rate = 1, .period = 6, .buckets = 0}, "buckets must be 1 to 100"},
    {{.rate = 1, .period = 606, .buckets = 101}, "buckets must be 1 to 100"},
    {{.rate = 1, .period = 10, .buckets = 3}, "buckets must divide the period into whole ticks"},
    {{.rate = 2, .period = LIMIT_UNITS_MAX, .buckets = 1},
     "rate times period, divided by buckets, must not exceed 2^52 ticks"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/sliding_window");
    TCase *tcase = tcase_create("evaluate, charge and settle");
    tcase_add_test(tcase, the_oldest_sub_window_counts_by_the_part_that_is_still_inside);
    tcase_add_test(tcase, strict_counts_the_oldest_whole);
    tcase_add_test(tcase, what_is_settled_is_of_its_own_sub_window);
    tcase_add_test(tcase, odd_clocks_neither_give_nor_freeze);
    tcase_add_test(tcase, one_bucket_is_the_approximation_with_two_counters);
    tcase_add_test(tcase, the_greatest_state_is_within_the_bound);
    suite_add_tcase(suite, tcase);
    TCase *check_params = tcase_create("check_params");
    tcase_add_loop_test(check_params, check_params_names_the_fault, 0, (int)ARRAY_LEN(BAD_PARAMS));
    suite_add_tcase(suite, check_params);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
