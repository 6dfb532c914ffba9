#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limit/algorithm.h"
#include "limit/algorithms.h"
#include "limit/limit.h"

enum { N_PAIRS = 4000, N_STEPS = 120, STATE_BYTES = 4096, US = 1, MS = 1000, S = 1000000 };

static const struct algorithm *const ALGORITHMS[] = {
    &token_bucket_algorithm, &leaky_bucket_algorithm,   &gcra_algorithm,
    &fixed_window_algorithm, &sliding_window_algorithm, &sliding_log_algorithm,
};

static struct limit limit_of(const struct algorithm *algorithm, uint32_t rate, uint64_t period_us,
                             uint32_t burst)
{
    struct limit limit = {.name = SPAN("x")};
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = rate,
        .burst = burst,
        .period_us = period_us,
        .lease_us = 60 * S,
        .buckets = 10,
    };
    const char *fault = limit_init(&limit, &spec);
    ck_assert_msg(fault == NULL, "%s", fault != NULL ? fault : "");
    return limit;
}

/* --- what is proven holds --- */

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % n;
}

static struct limit random_limit(void)
{
    static const uint64_t PERIODS_US[] = {100 * MS, 1 * S, 2 * S, 10 * S, 60 * S};
    const struct algorithm *algorithm = ALGORITHMS[below(ARRAY_LEN(ALGORITHMS))];
    return limit_of(algorithm, 1 + below(below(2) == 0 ? 12 : 100),
                    PERIODS_US[below(ARRAY_LEN(PERIODS_US))], 1 + below(20));
}

/* Now and then to an edge of something, so that windows end between two requests. */
static uint64_t later(uint64_t now_us)
{
    static const uint64_t STEPS_US[] = {0, 0, 1, 999, 10 * MS, 100 * MS, 1 * S, 7 * S};
    const uint64_t then_us = now_us + STEPS_US[below(ARRAY_LEN(STEPS_US))];
    return below(4) == 0 ? then_us / (100 * MS) * (100 * MS) + (uint64_t)(100 * MS) - below(2)
                         : then_us;
}

struct meter_of {
    const struct limit *limit;
    _Alignas(16) char state[STATE_BYTES];
};

static bool allows(struct meter_of *meter, const struct limit_call *call)
{
    struct verdict verdict;
    algorithm_judge(meter->limit->algorithm, meter->state, &meter->limit->params, call, &verdict);
    return verdict.allowed;
}

static void charge(struct meter_of *meter, const struct limit_call *call)
{
    ck_assert_uint_le(
        meter->limit->algorithm->state_bytes(meter->state, &meter->limit->params, call),
        STATE_BYTES);
    meter->limit->algorithm->charge(meter->state, &meter->limit->params, call);
}

/* Requests that both judge, and some that @strict alone does. */
static void run_beside(const struct limit *loose, const struct limit *strict)
{
    struct meter_of a = {.limit = loose};
    struct meter_of b = {.limit = strict};
    uint64_t now_us = UINT64_C(1700000000) * S + below(60 * S);
    for (int i = 0; i < N_STEPS; i++) {
        now_us = later(now_us);
        const uint32_t cost = 1 + below(3);
        const struct limit_call call_a = limit_call_at(loose, now_us, cost);
        const struct limit_call call_b = limit_call_at(strict, now_us, cost);
        if (!allows(&b, &call_b)) {
            continue;
        }
        if (below(8) != 0) {
            ck_assert_msg(
                allows(&a, &call_a), "%s %u/%llu us, burst %u, beside %s %u/%llu us, burst %u",
                loose->algorithm->name, loose->params.rate, (unsigned long long)loose->period_us,
                loose->params.burst, strict->algorithm->name, strict->params.rate,
                (unsigned long long)strict->period_us, strict->params.burst);
            charge(&a, &call_a);
        }
        charge(&b, &call_b);
    }
}

START_TEST(a_limit_that_never_binds_never_denies_what_the_stricter_one_allows)
{
    unsigned n_proven = 0;
    seed = 20261121;
    for (int i = 0; i < N_PAIRS; i++) {
        const struct limit loose = random_limit();
        const struct limit strict = random_limit();
        if (bounds_never_binds(&loose, &strict)) {
            n_proven++;
            run_beside(&loose, &strict);
        }
    }
    ck_assert_uint_gt(n_proven, N_PAIRS / 20);
}
END_TEST

/* --- what can be proven is --- */

#define TOKENS &token_bucket_algorithm
#define WINDOW &fixed_window_algorithm

static const struct {
    const struct algorithm *loose;
    uint32_t loose_rate;
    uint64_t loose_us;
    uint32_t loose_burst;
    const struct algorithm *strict;
    uint32_t strict_rate;
    uint64_t strict_us;
    uint32_t strict_burst;
    bool never;
} PAIRS[] = {
    {TOKENS, 10, 1 * S, 10, TOKENS, 10, 1 * S, 10, true},
    {TOKENS, 10, 1 * S, 10, TOKENS, 600, 60 * S, 10, true},
    {TOKENS, 10, 1 * S, 9, TOKENS, 10, 1 * S, 10, false},
    {TOKENS, 1000000, UINT64_C(86400) * S, 1000000, TOKENS, 10, 1 * S, 10, true}, /* other ticks */
    {TOKENS, 1000000, UINT64_C(86400) * S, 1000000, TOKENS, 12, 1 * S, 10, false},
    {TOKENS, 599, 60 * S, 10, TOKENS, 10, 1 * S, 10, false},
    {&leaky_bucket_algorithm, 10, 1 * S, 10, &gcra_algorithm, 3, 1 * S, 10, true},
    {&gcra_algorithm, 3, 1 * S, 10, TOKENS, 3, 1 * S, 10, false},
    {&gcra_algorithm, 4, 1 * S, 10, TOKENS, 3, 1 * S, 10, true},
    {WINDOW, 100, 60 * S, 0, WINDOW, 100, 60 * S, 0, true},
    {WINDOW, 100, 60 * S, 0, WINDOW, 101, 60 * S, 0, false},
    {WINDOW, 100, 60 * S, 0, WINDOW, 1, 1 * S, 0, true},
    {WINDOW, 61, 60 * S, 0, WINDOW, 1, 1 * S, 0, false}, /* its windows touch 62 of them */
    {WINDOW, 71, 60 * S, 0, TOKENS, 1, 1 * S, 10, true},
    {WINDOW, 70, 60 * S, 0, TOKENS, 1, 1 * S, 10, false}, /* the tick */
    {TOKENS, 10, 1 * S, 22, WINDOW, 10, 1 * S, 0, false},
    {TOKENS, 11, 1 * S, 22, WINDOW, 10, 1 * S, 0, true},
    {TOKENS, 11, 1 * S, 20, WINDOW, 10, 1 * S, 0, false}, /* both sides of an edge */
    {&sliding_log_algorithm, 100, 60 * S, 0, TOKENS, 1, 1 * S, 30, true},
    {&sliding_window_algorithm, 95, 60 * S, 0, TOKENS, 1, 1 * S, 30, false},
    {&sliding_window_algorithm, 97, 60 * S, 0, TOKENS, 1, 1 * S, 30, true},
    {WINDOW, 200, 60 * S, 0, &sliding_log_algorithm, 100, 60 * S, 0, true},
    {WINDOW, 199, 60 * S, 0, &sliding_log_algorithm, 100, 60 * S, 0, false},
    {WINDOW, UINT32_MAX, 60 * S, 0, TOKENS, UINT32_MAX, 1 * US, 1, false},
};

START_TEST(what_can_be_proven_is)
{
    const struct limit loose =
        limit_of(PAIRS[_i].loose, PAIRS[_i].loose_rate, PAIRS[_i].loose_us, PAIRS[_i].loose_burst);
    const struct limit strict = limit_of(PAIRS[_i].strict, PAIRS[_i].strict_rate,
                                         PAIRS[_i].strict_us, PAIRS[_i].strict_burst);
    ck_assert_int_eq(bounds_never_binds(&loose, &strict), PAIRS[_i].never);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/bounds");
    TCase *tcase = tcase_create("bounds_never_binds");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_limit_that_never_binds_never_denies_what_the_stricter_one_allows);
    tcase_add_loop_test(tcase, what_can_be_proven_is, 0, ARRAY_LEN(PAIRS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
