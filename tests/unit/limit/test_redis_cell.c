/* gcra answers as CL.THROTTLE of redis-cell does. */

#include "limit/algorithms.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static const struct algorithm *const ALGORITHM = &gcra_algorithm;

static const uint64_t START = 1000000000;

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

int main(void)
{
    Suite *suite = suite_create("limit/redis_cell");
    TCase *tcase = tcase_create("redis-cell");
    tcase_add_test(tcase, the_rows_of_the_test_of_redis_cell_hold);
    tcase_add_loop_test(tcase, answers_are_those_of_redis_cell, 0, (int)ARRAY_LEN(COMMANDS));
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
