/* What each algorithm promises, over random traces: bursts, costs above one, idle times long enough for a
 * state to be forgotten. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/fixed_window.h"
#include "limit/token_bucket.h"

enum { N_ASKED = 3000 };

struct admitted {
    uint64_t at; /* ticks */
    uint64_t cost;
};

/* A trace that presses: mostly asked again before enough has come back. Returns how many passed. */
static size_t play(const struct algorithm *algorithm, const struct limit_params *params,
                   struct admitted *admitted)
{
    uint64_t state[4] = {0};
    uint64_t now = UINT64_C(1763667890123456);
    size_t n_admitted = 0;
    for (int i = 0; i < N_ASKED; i++) {
        const uint32_t cost = (uint32_t)rand() % 4;
        struct verdict verdict;
        now += rand() % 50 == 0 ? params->period * 2
                                : (uint64_t)rand() % (params->period / params->rate * 2);
        if (rand() % 40 == 0) {
            algorithm->evaluate(state, params, &(struct limit_call){.now = now}, &verdict);
            if (verdict.reset_after == 0) {
                memset(state, 0, sizeof(state)); /* expired */
            }
        }
        const struct limit_call call = {.now = now, .cost = cost};
        algorithm->evaluate(state, params, &call, &verdict);
        if (verdict.allowed && cost > 0) {
            algorithm->charge(state, params, &call);
            admitted[n_admitted++] = (struct admitted){now, cost};
        }
    }
    return n_admitted;
}

static const struct limit_params PARAMS[] = {
    {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000},
    {.rate = 7, .burst = 20, .period = 1000000, .ticks_per_s = 1000000},
    {.rate = 3, .burst = 3, .period = 999983, .ticks_per_s = 1000000},
    {.rate = 100, .burst = 10, .period = 86400000, .ticks_per_s = 1000},
};

START_TEST(a_token_bucket_admits_in_any_interval_its_burst_and_what_came_back_meanwhile)
{
    static struct admitted admitted[N_ASKED];
    const struct limit_params *params = &PARAMS[_i];
    srand(1);
    const size_t n = play(&token_bucket_algorithm, params, admitted);
    bool kept = n > 100;
    for (size_t i = 0; i < n; i++) {
        uint64_t units = 0;
        for (size_t j = i; j < n; j++) {
            const uint64_t length = admitted[j].at - admitted[i].at;
            units += admitted[j].cost;
            kept = kept &&
                   units * params->period <= params->burst * params->period + length * params->rate;
        }
    }
    ck_assert(kept);
}
END_TEST

START_TEST(a_fixed_window_admits_in_each_window_its_count)
{
    static struct admitted admitted[N_ASKED];
    struct limit_params params = PARAMS[_i];
    uint64_t window = 0;
    uint64_t units = 0;
    params.offset = params.period / 3;
    srand(1);
    const size_t n = play(&fixed_window_algorithm, &params, admitted);
    ck_assert_uint_gt(n, 100);
    for (size_t i = 0; i < n; i++) {
        const uint64_t of = (admitted[i].at - params.offset) / params.period;
        units = of == window ? units : 0;
        window = of;
        units += admitted[i].cost;
        ck_assert_uint_le(units, params.rate);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/promises");
    TCase *promises = tcase_create("promises");
    tcase_add_loop_test(
        promises, a_token_bucket_admits_in_any_interval_its_burst_and_what_came_back_meanwhile, 0,
        (int)ARRAY_LEN(PARAMS));
    tcase_add_loop_test(promises, a_fixed_window_admits_in_each_window_its_count, 0,
                        (int)ARRAY_LEN(PARAMS));
    suite_add_tcase(suite, promises);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
