#include "limit/leaky_bucket.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "golden.h"

static const struct algorithm *const ALGORITHM = &leaky_bucket_algorithm;

/* 10 units a second, 5 in the bucket: one drains in 100 ms. A tick is 1 us. */
static const struct limit_params PARAMS = {
    .rate = 10,
    .burst = 5,
    .period = 1000000,
    .ticks_per_s = 1000000,
};

/* The same as a queue: a departure every 100 ms, none later than 300 ms. */
static const struct limit_params SHAPING = {
    .rate = 10,
    .burst = 4,
    .period = 1000000,
    .max_wait = 300000,
    .ticks_per_s = 1000000,
};
static const uint64_t START = 1000000000;

/* --- {story, kind, at, units, of, allowed, retry_after, wait, {then:
 * remaining, next, reset}} --- */

START_TEST(what_would_spill_over_is_refused_until_it_has_drained)
{
    static const struct golden story[] = {
        {"an empty bucket takes its depth at once", ASK, 0, 5, 0, true, 0, 0, {0, 100000, 500000}},
        {"a full one takes nothing", ASK, 0, 1, 0, false, 100000, 0, {0, 100000, 500000}},
        {"a microsecond early is early", ASK, 99999, 1, 0, false, 1, 0, {0, 1, 400001}},
        {"on time is on time", ASK, 100000, 1, 0, true, 0, 0, {0, 100000, 500000}},
        {"all or nothing", ASK, 250000, 2, 0, false, 50000, 0, {1, 50000, 350000}},
        {"one passes, and half a one is none", ASK, 250000, 1, 0, true, 0, 0, {0, 50000, 450000}},
        {"more than the depth never passes",
         ASK,
         250000,
         6,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 50000, 450000}},
        {"not even the greatest cost wraps",
         ASK,
         250000,
         UINT32_MAX,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 50000, 450000}},
        {"asking takes nothing", ASK, 250000, 0, 0, true, 0, 0, {0, 50000, 450000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(what_is_settled_drains_or_fills)
{
    static const struct golden story[] = {
        {"three of five", ASK, 0, 3, 0, true, 0, 0, {2, 100000, 300000}},
        {"two come back", SETTLE, 0, -2, 0, false, 0, 0, {4, 100000, 100000}},
        {"not more than there is", SETTLE, 50000, -9, 0, false, 0, 0, {5, 0, 0}},
        {"a cost learnt later may pass the depth",
         SETTLE,
         50000,
         7,
         0,
         false,
         0,
         0,
         {0, 300000, 700000}},
        {"and is waited for", ASK, 50000, 1, 0, false, 300000, 0, {0, 300000, 700000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(odd_clocks_neither_drain_nor_freeze)
{
    static const struct golden story[] = {
        {"full at 2 s", ASK, 2000000, 5, 0, true, 0, 0, {0, 100000, 500000}},
        {"half a second back drains nothing",
         ASK,
         1500000,
         1,
         0,
         false,
         600000,
         0,
         {0, 600000, 1000000}},
        {"an age of idling merely drains",
         ASK,
         INT64_MAX / 4,
         1,
         0,
         true,
         0,
         0,
         {4, 100000, 100000}},
        {"a clock set back for good is followed", ASK, 0, 1, 0, true, 0, 0, {3, 100000, 200000}},
        {"and goes on from there", ASK, 100000, 0, 0, true, 0, 0, {4, 100000, 100000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(a_queue_grants_departures_a_gap_apart)
{
    static const struct golden story[] = {
        {"the first departs at once", ASK, 0, 1, 0, true, 0, 0, {3, 100000, 100000}},
        {"the second after the gap of the first",
         ASK,
         0,
         1,
         0,
         true,
         0,
         100000,
         {2, 100000, 200000}},
        {"two units leave a gap of two", ASK, 0, 2, 0, true, 0, 200000, {0, 100000, 400000}},
        {"four in the queue are enough", ASK, 0, 1, 0, false, 100000, 0, {0, 100000, 400000}},
        {"a place is free when a gap has passed",
         ASK,
         100000,
         1,
         0,
         true,
         0,
         300000,
         {0, 100000, 400000}},
        {"idle time is not saved up", ASK, 5000000, 1, 0, true, 0, 0, {3, 100000, 100000}},
        {"asking waits for nothing", ASK, 5000000, 0, 0, true, 0, 0, {3, 100000, 100000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &SHAPING, START);
}
END_TEST

START_TEST(a_granted_departure_is_not_taken_back)
{
    static const struct golden story[] = {
        {"three in the queue", ASK, 0, 3, 0, true, 0, 0, {1, 100000, 300000}},
        {"a refund changes nothing", SETTLE, 0, -2, 0, false, 0, 0, {1, 100000, 300000}},
        {"a cost learnt later delays those to come",
         SETTLE,
         0,
         1,
         0,
         false,
         0,
         0,
         {0, 100000, 400000}},
        {"by as much", ASK, 100000, 1, 0, true, 0, 300000, {0, 100000, 400000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &SHAPING, START);
}
END_TEST

START_TEST(a_wait_that_is_too_long_is_what_is_waited_for)
{
    /* Seven may be in the queue, but the fourth would wait 300 ms of 250 ms. */
    struct limit_params params = SHAPING;
    static const struct golden story[] = {
        {"three are", ASK, 0, 3, 0, true, 0, 0, {0, 50000, 300000}},
        {"the next would wait too long", ASK, 0, 1, 0, false, 50000, 0, {0, 50000, 300000}},
        {"and is let in when it need not", ASK, 50000, 1, 0, true, 0, 250000, {0, 100000, 350000}},
    };
    params.burst = 7;
    params.max_wait = 250000;
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &params, START);
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
    {{.rate = 1, .burst = 1, .period = 1, .max_wait = LIMIT_UNITS_MAX + 1},
     "max_wait must not exceed 2^52 ticks"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/leaky_bucket");
    TCase *tcase = tcase_create("evaluate, charge and settle");
    tcase_add_test(tcase, what_would_spill_over_is_refused_until_it_has_drained);
    tcase_add_test(tcase, what_is_settled_drains_or_fills);
    tcase_add_test(tcase, odd_clocks_neither_drain_nor_freeze);
    tcase_add_test(tcase, a_queue_grants_departures_a_gap_apart);
    tcase_add_test(tcase, a_granted_departure_is_not_taken_back);
    tcase_add_test(tcase, a_wait_that_is_too_long_is_what_is_waited_for);
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
