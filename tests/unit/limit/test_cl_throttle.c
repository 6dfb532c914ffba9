/* What is sent to redis-cell, and what its answers are taken for. That its answers are those of
 * gcra.c is shown in test_redis_cell.c, by rows of its own documentation and tests. */

#include "limit/script_source.h"

#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/algorithms.h"

static const uint64_t S = 1000000; /* in us, and in ticks of 1 us */

static struct limit limit_of(uint32_t rate, uint64_t period_us, uint32_t burst)
{
    const struct limit_spec spec = {
        .algorithm = &gcra_algorithm, .rate = rate, .burst = burst, .period_us = period_us};
    struct limit limit = {.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    return limit;
}

/* --- arguments --- */

START_TEST(the_arguments_are_the_burst_less_one_the_rate_and_the_cost)
{
    const struct limit limit = limit_of(30, 60 * S, 16);
    uint64_t args[CL_THROTTLE_ARGS];
    cl_throttle_args(&limit, 1, args); /* CL.THROTTLE user123 15 30 60 1 */
    ck_assert_uint_eq(args[0], 15);
    ck_assert_uint_eq(args[1], 30);
    ck_assert_uint_eq(args[2], 60);
    ck_assert_uint_eq(args[3], 1);
}
END_TEST

START_TEST(a_cost_above_the_burst_only_asks)
{
    const struct limit limit = limit_of(30, 60 * S, 16);
    uint64_t args[CL_THROTTLE_ARGS];
    cl_throttle_args(&limit, 16, args);
    ck_assert_uint_eq(args[3], 16);
    cl_throttle_args(&limit, 17, args);
    ck_assert_uint_eq(args[3], 0);
    cl_throttle_args(&limit, UINT32_MAX, args);
    ck_assert_uint_eq(args[3], 0);
}
END_TEST

static const struct {
    uint32_t rate;
    uint64_t period_us;
    uint32_t burst;
    const char *because;
} MISFITS[] = {
    {30, 60000000, 16, NULL},
    {1000000, 1000000, UINT32_MAX, NULL},
    {1, UINT64_C(1000000) * 86400 * 30, 400, NULL},
    {10, 500000, 10, "its period is no whole number of seconds"},
    {10, 1500000, 10, "its period is no whole number of seconds"},
    {1000500, 1000000, 10, "its rate is above a million a second"},
    {1, UINT64_C(1000000) * 86400 * 30, 500, "it takes more than 36 years to refill"},
    {1, UINT64_C(1000000) * 86400 * 365 * 40, 1, "it takes more than 36 years to refill"},
};

START_TEST(what_the_command_cannot_say_is_a_misfit_with_a_reason)
{
    const struct limit limit = limit_of(MISFITS[_i].rate, MISFITS[_i].period_us, MISFITS[_i].burst);
    const char *because = cl_throttle_misfit(&limit);
    if (MISFITS[_i].because == NULL) {
        ck_assert_ptr_null(because);
    } else {
        ck_assert_ptr_nonnull(because);
        ck_assert_str_eq(because, MISFITS[_i].because);
    }
}
END_TEST

START_TEST(other_algorithms_and_limits_that_count_denied_requests_are_misfits)
{
    struct limit limit = limit_of(30, 60 * S, 16);
    limit.charge_denied = true;
    ck_assert_str_eq(cl_throttle_misfit(&limit), "it counts denied requests");
    limit.algorithm = &token_bucket_algorithm;
    ck_assert_str_eq(cl_throttle_misfit(&limit), "its algorithm is not gcra");
}
END_TEST

/* --- answers --- */

/* Of 30 a minute, 16 at once: a unit every 2 s. Times in seconds, -1: never. */
static const struct {
    const char *says;
    uint32_t cost;
    long long ints[CL_THROTTLE_INTS];
    bool allowed;
    uint64_t remaining;
    int64_t retry_s;
    uint64_t next_s;
    uint64_t reset_s;
} ANSWERS[] = {
    {"the first of 16, as the README of redis-cell has it",
     1,
     {0, 16, 15, -1, 2},
     true,
     15,
     0,
     2,
     2},
    {"the same, some of a second later: 14 and a part are left",
     1,
     {0, 16, 14, -1, 4},
     true,
     14,
     0,
     2,
     4},
    {"the last", 1, {0, 16, 0, -1, 32}, true, 0, 0, 3, 33},
    {"too many: 2 s may be 2.0009 s of a version that rounds up, or 2.9 s of one that drops",
     1,
     {1, 16, 0, 2, 32},
     false,
     0,
     3,
     3,
     33},
    {"half a second, of a version that drops fractions", 1, {1, 16, 0, 0, 30}, false, 0, 1, 1, 31},
    {"some left, and not enough", 5, {1, 16, 3, 4, 26}, false, 3, 5, 2, 26},
    {"more than the burst: -1 is never, and how things stand was asked with 0",
     17,
     {0, 16, 9, -1, 14},
     false,
     9,
     -1,
     2,
     14},
    {"asking takes nothing, and untouched is untouched", 0, {0, 16, 16, -1, 0}, true, 16, 0, 0, 0},
    {"asking is allowed also where more is owed than a burst that was lowered",
     0,
     {1, 16, 0, 20, 52},
     true,
     0,
     0,
     23,
     53},
    {"of a key that outlived its time by a moment", 17, {0, 16, 17, -1, 0}, false, 16, -1, 0, 0},
};

START_TEST(an_answer_is_read_as_a_verdict_whose_times_are_never_too_early)
{
    const struct limit limit = limit_of(30, 60 * S, 16);
    struct verdict verdict;
    const uint64_t retry_after =
        ANSWERS[_i].retry_s < 0 ? RETRY_NEVER : (uint64_t)ANSWERS[_i].retry_s * S;
    ck_assert(cl_throttle_read_verdict(&limit, ANSWERS[_i].cost, ANSWERS[_i].ints, &verdict));
    ck_assert_int_eq(verdict.allowed, ANSWERS[_i].allowed);
    ck_assert_uint_eq(verdict.limit, 16);
    ck_assert_uint_eq(verdict.remaining, ANSWERS[_i].remaining);
    ck_assert_uint_eq(verdict.retry_after, retry_after);
    ck_assert_uint_eq(verdict.next_after, ANSWERS[_i].next_s * S);
    ck_assert_uint_eq(verdict.reset_after, ANSWERS[_i].reset_s * S);
    ck_assert_uint_eq(verdict.wait, 0);
}
END_TEST

static const struct {
    const char *says;
    uint32_t cost;
    long long ints[CL_THROTTLE_INTS];
} NONSENSE[] = {
    {"neither limited nor not", 1, {2, 16, 15, -1, 2}},
    {"limited by less than nothing", 1, {-1, 16, 15, -1, 2}},
    {"another limit", 1, {0, 15, 15, -1, 2}},
    {"a limit below zero", 1, {0, -16, 15, -1, 2}},
    {"less than nothing left", 1, {0, 16, -1, -1, 2}},
    {"a time before now", 1, {1, 16, 0, -2, 2}},
    {"never, for what fits", 1, {1, 16, 0, -1, 2}},
    {"full in the past", 1, {0, 16, 15, -1, -1}},
    {"the least numbers there are", 1, {LLONG_MIN, LLONG_MIN, LLONG_MIN, LLONG_MIN, LLONG_MIN}},
    {"the greatest numbers there are", 1, {1, 16, LLONG_MAX, LLONG_MAX, LLONG_MAX}},
    {"full after more than a century", 1, {0, 16, 15, -1, 1LL << 33}},
    {"to retry after more than a century", 1, {1, 16, 0, 1LL << 33, 2}},
};

START_TEST(an_answer_that_makes_no_sense_is_refused)
{
    const struct limit limit = limit_of(30, 60 * S, 16);
    struct verdict verdict;
    ck_assert_msg(!cl_throttle_read_verdict(&limit, NONSENSE[_i].cost, NONSENSE[_i].ints, &verdict),
                  "%s", NONSENSE[_i].says);
}
END_TEST

START_TEST(no_number_that_is_let_pass_overflows)
{
    enum { BURST = 1 << 30 }; /* as deep as a bucket that the command can judge */
    static const long long most = 1LL << 32;
    const long long ints[][CL_THROTTLE_INTS] = {
        {1, BURST, LLONG_MAX, most, most},
        {1, BURST, 0, most, most},
        {0, BURST, 0, -1, 0},
    };
    const struct limit limit = limit_of(1, S, BURST);
    struct verdict verdict;
    for (size_t i = 0; i < ARRAY_LEN(ints); i++) {
        ck_assert(cl_throttle_read_verdict(&limit, 1, ints[i], &verdict));
        ck_assert_uint_le(verdict.remaining, BURST);
        ck_assert_uint_le(verdict.retry_after, (uint64_t)(most + 1) * S);
        ck_assert_uint_le(verdict.reset_after, (uint64_t)(most + 1) * S);
    }
}
END_TEST

/* --- every answer that redis-cell may give is read so that no time in it is too early --- */

/* What redis-cell says of @debt_ns before and after @cost is taken, where it drops fractions of a
 * second or rounds up those of a millisecond. */
static void answer_as(bool drops, const struct limit *limit, uint64_t debt_ns, uint32_t cost,
                      long long ints[CL_THROTTLE_INTS])
{
    const uint64_t interval = limit->period_us * 1000 / limit->params.rate;
    const uint64_t depth = interval * limit->params.burst;
    const bool limited = debt_ns + cost * interval > depth;
    const uint64_t retry_ns = limited ? debt_ns + cost * interval - depth : 0;
    const uint64_t after_ns = limited ? debt_ns : debt_ns + cost * interval;
    const uint64_t times[] = {retry_ns, after_ns};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        const uint64_t up = drops || times[i] % 1000000000 / 1000000 == 0 ? 0 : 1;
        ints[3 + i] = (long long)(times[i] / 1000000000 + up);
    }
    ints[0] = limited;
    ints[1] = limit->params.burst;
    ints[2] = after_ns < depth ? (long long)((depth - after_ns) / 1000 / (interval / 1000)) : 0;
    ints[3] = limited ? ints[3] : -1;
}

START_TEST(no_time_is_too_early_nor_two_seconds_too_late)
{
    const struct limit limits[] = {limit_of(30, 60 * S, 16), limit_of(10, S, 10),
                                   limit_of(997, S, 100), limit_of(1, 9 * S, 3)};
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const struct limit *limit = &limits[i % 4];
        const uint64_t interval = limit->period_us * 1000 / limit->params.rate;
        const uint64_t depth = interval * limit->params.burst;
        const uint64_t debt = (seed >> 20) % (depth + 1);
        const uint32_t cost = (uint32_t)(seed >> 10) % (limit->params.burst + 1);
        long long ints[CL_THROTTLE_INTS];
        struct verdict verdict;
        answer_as(i % 8 < 4, limit, debt, cost, ints);
        ck_assert(cl_throttle_read_verdict(limit, cost, ints, &verdict));

        const bool allowed = debt + cost * interval <= depth;
        const uint64_t after = allowed ? debt + cost * interval : debt;
        ck_assert_int_eq(verdict.allowed, allowed);
        if (!allowed) {
            const uint64_t retry = debt + cost * interval - depth;
            ck_assert_uint_ge(verdict.retry_after * 1000, retry);
            ck_assert_uint_le(verdict.retry_after * 1000, retry + 2000000000);
        }
        ck_assert_uint_ge(verdict.reset_after * 1000 + interval / 1000, after);
        ck_assert_uint_le(verdict.reset_after * 1000, after + 2000000000 + interval);
        ck_assert_uint_ge(verdict.remaining + 1, (depth - after) / interval);
        ck_assert_uint_le(verdict.remaining, (depth - after) / interval + 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/cl_throttle");
    TCase *arguments = tcase_create("arguments");
    tcase_add_test(arguments, the_arguments_are_the_burst_less_one_the_rate_and_the_cost);
    tcase_add_test(arguments, a_cost_above_the_burst_only_asks);
    tcase_add_loop_test(arguments, what_the_command_cannot_say_is_a_misfit_with_a_reason, 0,
                        (int)ARRAY_LEN(MISFITS));
    tcase_add_test(arguments, other_algorithms_and_limits_that_count_denied_requests_are_misfits);
    suite_add_tcase(suite, arguments);
    TCase *answers = tcase_create("answers");
    tcase_add_loop_test(answers, an_answer_is_read_as_a_verdict_whose_times_are_never_too_early, 0,
                        (int)ARRAY_LEN(ANSWERS));
    tcase_add_loop_test(answers, an_answer_that_makes_no_sense_is_refused, 0,
                        (int)ARRAY_LEN(NONSENSE));
    tcase_add_test(answers, no_number_that_is_let_pass_overflows);
    tcase_add_test(answers, no_time_is_too_early_nor_two_seconds_too_late);
    suite_add_tcase(suite, answers);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
