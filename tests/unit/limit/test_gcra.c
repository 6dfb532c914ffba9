#include "limit/gcra.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "golden.h"

static const struct algorithm *const ALGORITHM = &gcra_algorithm;

/* 10 units a second, 5 at once: an interval of 100 ms. A tick is 1 us. */
static const struct limit_params PARAMS = {
    .rate = 10,
    .burst = 5,
    .period = 1000000,
    .ticks_per_s = 1000000,
};
static const uint64_t START = 1000000000;

/* --- {story, kind, at, units, of, allowed, retry_after, wait, {then:
 * remaining, next, reset}} --- */

START_TEST(units_pass_while_the_arrival_time_is_near_enough)
{
    static const struct golden story[] = {
        {"the burst passes at once", ASK, 0, 5, 0, true, 0, 0, {0, 100000, 500000}},
        {"then nothing", ASK, 0, 1, 0, false, 100000, 0, {0, 100000, 500000}},
        {"a microsecond early is early", ASK, 99999, 1, 0, false, 1, 0, {0, 1, 400001}},
        {"on time is on time", ASK, 100000, 1, 0, true, 0, 0, {0, 100000, 500000}},
        {"all or nothing", ASK, 350000, 3, 0, false, 50000, 0, {2, 50000, 250000}},
        {"two pass", ASK, 350000, 2, 0, true, 0, 0, {0, 50000, 450000}},
        {"more than the burst never passes",
         ASK,
         350000,
         6,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 50000, 450000}},
        {"not even the greatest cost wraps",
         ASK,
         350000,
         UINT32_MAX,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 50000, 450000}},
        {"asking takes nothing", ASK, 350000, 0, 0, true, 0, 0, {0, 50000, 450000}},
        {"idle time is not saved up", ASK, 9000000, 1, 0, true, 0, 0, {4, 100000, 100000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(what_is_settled_moves_the_arrival_time)
{
    static const struct golden story[] = {
        {"three of five", ASK, 0, 3, 0, true, 0, 0, {2, 100000, 300000}},
        {"two come back", SETTLE, 0, -2, 0, false, 0, 0, {4, 100000, 100000}},
        {"not more than there is", SETTLE, 50000, -9, 0, false, 0, 0, {5, 0, 0}},
        {"a cost learnt later fills it at most",
         SETTLE,
         50000,
         7,
         0,
         false,
         0,
         0,
         {0, 100000, 500000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(a_clock_set_back_beyond_the_bucket_leaves_it_full)
{
    static const struct golden story[] = {
        {"full at 100 s", ASK, 100000000, 5, 0, true, 0, 0, {0, 100000, 500000}},
        {"half a second back takes away what would have come",
         ASK,
         99500000,
         1,
         0,
         false,
         600000,
         0,
         {0, 600000, 1000000}},
        {"a clock set back for good is followed",
         ASK,
         0,
         1,
         0,
         false,
         100000,
         0,
         {0, 100000, 500000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

/* --- redis-cell --- */

enum { NEVER = -1 };

/* One call of redis-cell: what it decides, left, and us to retry, or NEVER where
 * it says -1, and to full. */
struct throttled {
    bool limited;
    uint64_t remaining;
    int64_t retry_after;
    uint64_t reset_after;
};

/* Judge and charge as CL.THROTTLE does. */
static struct throttled throttle(uint64_t *state, const struct limit_params *params, uint64_t now,
                                 uint32_t quantity)
{
    const struct limit_call call = {.now = now, .cost = quantity};
    struct verdict before;
    struct verdict after;
    algorithm_evaluate(ALGORITHM, state, params, &call, &before);
    if (before.allowed) {
        ALGORITHM->charge(state, params, &call);
    }
    algorithm_evaluate(ALGORITHM, state, params, &(struct limit_call){.now = now}, &after);
    const bool waits = !before.allowed && before.retry_after != RETRY_NEVER;
    return (struct throttled){
        .limited = !before.allowed,
        .remaining = after.remaining,
        .retry_after = waits ? (int64_t)before.retry_after : NEVER,
        .reset_after = after.reset_after,
    };
}

static void assert_throttled(const struct throttled *got, const struct throttled *expected,
                             size_t row)
{
    ck_assert_msg(
        got->limited == expected->limited && got->remaining == expected->remaining &&
            got->retry_after == expected->retry_after && got->reset_after == expected->reset_after,
        "row %zu: %d %llu %lld %llu", row, got->limited, (unsigned long long)got->remaining,
        (long long)got->retry_after, (unsigned long long)got->reset_after);
}

/* The table of redis-cell's own test it_rate_limits (src/cell/mod.rs, version 0.4.0), row by row:
 * one a second, max_burst 4. Its -1 is of what is allowed, and of what can never be. */
START_TEST(the_rows_of_the_test_of_redis_cell_hold)
{
    static const struct limit_params params = {
        .rate = 1, .burst = 5, .period = 1000000, .ticks_per_s = 1000000};
    static const struct {
        uint64_t at_ms;
        uint32_t quantity;
        uint64_t remaining;
        uint64_t reset_ms;
        int64_t retry_ms;
        bool limited;
    } rows[] = {
        {0, 6, 5, 0, NEVER, true}, /* "you can never make a request larger than the maximum" */
        {0, 1, 4, 1000, NEVER, false},
        {0, 1, 3, 2000, NEVER, false},
        {0, 1, 2, 3000, NEVER, false},
        {0, 1, 1, 4000, NEVER, false},
        {0, 1, 0, 5000, NEVER, false},
        {0, 1, 0, 5000, 1000, true},
        {3000, 1, 2, 3000, NEVER, false},
        {3100, 1, 1, 3900, NEVER, false},
        {4000, 1, 1, 4000, NEVER, false},
        {8000, 1, 4, 1000, NEVER, false},
        {9500, 1, 4, 1000, NEVER, false},
        {9500, 0, 4, 1000, NEVER, false}, /* "zero-volume request just peeks at the state" */
        {9500, 2, 2, 3000, NEVER, false},
        {9500, 5, 2, 3000, 3000, true},
    };
    uint64_t state[1] = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct throttled expected = {
            .limited = rows[i].limited,
            .remaining = rows[i].remaining,
            .retry_after = rows[i].retry_ms == NEVER ? NEVER : rows[i].retry_ms * 1000,
            .reset_after = rows[i].reset_ms * 1000,
        };
        const struct throttled got =
            throttle(state, &params, START + rows[i].at_ms * 1000, rows[i].quantity);
        assert_throttled(&got, &expected, i);
    }
}
END_TEST

static int64_t whole_seconds(int64_t us)
{
    return us == NEVER ? -1 : (us + 999999) / 1000000;
}

/* What the command answers, in its whole seconds. README.md of brandur/redis-cell:
 * "CL.THROTTLE user123 15 30 60 1" is 0 16 15 -1 2; its tests/e2e.rs: a burst of 0, one in 2
 * s; the rest is its formula, by hand. Ours are rounded up, always: redis-cell drops fractions
 * up to version 0.3.0, and later those below a millisecond, so that at 999.5 ms it tells 1 s
 * where 1.0005 s are to wait. */
static const struct {
    const char *says;
    struct limit_params params;
    struct {
        uint64_t at_us;
        uint32_t quantity;
        int64_t answer[5];
    } rows[10];
    size_t n_rows;
} COMMANDS[] = {
    {"CL.THROTTLE user123 15 30 60",
     {.rate = 30, .burst = 16, .period = 60000000, .ticks_per_s = 1000000},
     {{0, 1, {0, 16, 15, -1, 2}},
      {0, 15, {0, 16, 0, -1, 32}},
      {0, 1, {1, 16, 0, 2, 32}},
      {0, 16, {1, 16, 0, 32, 32}},
      {0, 17, {1, 16, 0, -1, 32}},
      {500000, 1, {1, 16, 0, 2, 32}},
      {999500, 1, {1, 16, 0, 2, 32}},
      {2000000, 1, {0, 16, 0, -1, 32}},
      {2000000, 0, {0, 16, 0, -1, 32}},
      {34000000, 16, {0, 16, 0, -1, 32}}},
     10},
    {"CL.THROTTLE user123 0 1 2",
     {.rate = 1, .burst = 1, .period = 2000000, .ticks_per_s = 1000000},
     {{0, 1, {0, 1, 0, -1, 2}}, {0, 1, {1, 1, 0, 2, 2}}, {2000000, 1, {0, 1, 0, -1, 2}}},
     3},
};

START_TEST(answers_are_those_of_redis_cell)
{
    const struct limit_params *params = &COMMANDS[_i].params;
    uint64_t state[1] = {0};
    for (size_t i = 0; i < COMMANDS[_i].n_rows; i++) {
        const struct throttled got = throttle(state, params, START + COMMANDS[_i].rows[i].at_us,
                                              COMMANDS[_i].rows[i].quantity);
        const int64_t answer[5] = {
            got.limited,
            params->burst,
            (int64_t)got.remaining,
            whole_seconds(got.retry_after),
            whole_seconds((int64_t)got.reset_after),
        };
        ck_assert_msg(memcmp(answer, COMMANDS[_i].rows[i].answer, sizeof(answer)) == 0,
                      "%s, row %zu", COMMANDS[_i].says, i);
    }
}
END_TEST

START_TEST(an_interval_is_rounded_up_by_a_thousandth_at_most)
{
    /* 7 * 143 = 1001: a unit in 1000, and two in 999. */
    const struct limit_params edge = {.rate = 7, .burst = 1, .period = 1000};
    const struct limit_params beyond = {.rate = 7, .burst = 1, .period = 999};
    ck_assert_uint_eq(gcra_interval(&edge), 143);
    ck_assert_uint_eq(gcra_interval(&beyond), 143);
    ck_assert_ptr_null(ALGORITHM->check_params(&edge));
    ck_assert_ptr_nonnull(ALGORITHM->check_params(&beyond));
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
    {{.rate = 1, .burst = 1, .period = LIMIT_UNITS_MAX + 1}, "period must not exceed 2^52 ticks"},
    {{.rate = 1, .burst = 2, .period = LIMIT_UNITS_MAX},
     "burst times the interval of a unit must not exceed 2^52 ticks"},
    {{.rate = 3, .burst = 1, .period = 1000},
     "rate does not divide the period into whole ticks within 0.1 %; use token_bucket"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/gcra");
    TCase *tcase = tcase_create("evaluate, charge and settle");
    tcase_add_test(tcase, units_pass_while_the_arrival_time_is_near_enough);
    tcase_add_test(tcase, what_is_settled_moves_the_arrival_time);
    tcase_add_test(tcase, a_clock_set_back_beyond_the_bucket_leaves_it_full);
    tcase_add_test(tcase, the_rows_of_the_test_of_redis_cell_hold);
    tcase_add_loop_test(tcase, answers_are_those_of_redis_cell, 0, (int)ARRAY_LEN(COMMANDS));
    tcase_add_test(tcase, an_interval_is_rounded_up_by_a_thousandth_at_most);
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
