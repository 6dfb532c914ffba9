#include "limit/concurrency.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "golden.h"

static const struct algorithm *const ALGORITHM = &concurrency_algorithm;

/* Two slots, with a lease of 10 s. A tick is 1 ms. */
static const struct limit_params PARAMS = {.rate = 2, .lease = 10000, .ticks_per_s = 1000};
static const uint64_t START = 1000000;

/* --- {story, kind, at, units, of, allowed, retry_after, wait, {then:
 * remaining, next, reset}} --- */

START_TEST(slots_are_taken_given_back_and_renewed)
{
    static const struct golden story[] = {
        {"asking takes nothing", ASK, 0, 0, 0, true, 0, 0, {2, 0, 0}},
        {"one", ASK, 0, 1, 1, true, 0, 0, {1, 10000, 10000}},
        {"two", ASK, 3000, 1, 2, true, 0, 0, {0, 7000, 10000}},
        {"when the third may come nobody can tell",
         ASK,
         3000,
         1,
         3,
         false,
         RETRY_UNKNOWN,
         0,
         {0, 7000, 10000}},
        {"one is given back", RELEASE, 4000, 0, 1, false, 0, 0, {1, 9000, 9000}},
        {"nothing is given back twice", RELEASE, 4000, 0, 1, false, 0, 0, {1, 9000, 9000}},
        {"a cost counts as one slot", ASK, 4000, UINT32_MAX, 3, true, 0, 0, {0, 9000, 10000}},
        {"the second is renewed", RENEW, 12000, 0, 2, false, 0, 0, {0, 2000, 10000}},
        {"the third ends with its lease", ASK, 14000, 1, 4, true, 0, 0, {0, 8000, 10000}},
        {"and cannot be renewed then", RENEW, 14000, 0, 3, false, 0, 0, {0, 8000, 10000}},
        {"a lease that ends leaves room", ASK, 22000, 0, 0, true, 0, 0, {1, 2000, 2000}},
        {"all end by themselves", ASK, 24000, 0, 0, true, 0, 0, {2, 0, 0}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(a_slot_that_is_taken_again_is_one)
{
    static const struct golden story[] = {
        {"one", ASK, 0, 1, 7, true, 0, 0, {1, 10000, 10000}},
        {"again", ASK, 5000, 1, 7, true, 0, 0, {1, 10000, 10000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(a_clock_set_back_is_followed)
{
    static const struct golden story[] = {
        {"one at 100 s", ASK, 100000, 1, 1, true, 0, 0, {1, 10000, 10000}},
        {"another", ASK, 100000, 1, 2, true, 0, 0, {0, 10000, 10000}},
        {"no lease is longer than one that begins now",
         ASK,
         0,
         1,
         3,
         false,
         RETRY_UNKNOWN,
         0,
         {0, 10000, 10000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(a_lowered_rate_waits_for_more_than_one_to_end)
{
    uint64_t state[GOLDEN_STATE_WORDS] = {0};
    struct limit_params lowered = PARAMS;
    struct verdict verdict;
    for (uint64_t i = 0; i < 2; i++) {
        const struct limit_call call = {.now = START + i, .cost = 1, .slot = i};
        ALGORITHM->charge(state, &PARAMS, &call);
    }
    lowered.rate = 1;
    algorithm_evaluate(ALGORITHM, state, &lowered, &(struct limit_call){.now = START + 1},
                       &verdict);
    ck_assert_uint_eq(verdict.remaining, 0);
    ck_assert_uint_eq(verdict.next_after, 10000);
}
END_TEST

/* --- check_params --- */

static const struct {
    struct limit_params params;
    const char *says;
} BAD_PARAMS[] = {
    {{.rate = 0, .lease = 1}, "rate must be at least 1"},
    {{.rate = 100001, .lease = 1}, "rate must not exceed 100,000, the slots of a key"},
    {{.rate = 1, .lease = 0}, "lease must be at least 1 tick"},
    {{.rate = 1, .lease = LIMIT_UNITS_MAX + 1}, "lease must not exceed 2^52 ticks"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/concurrency");
    TCase *tcase = tcase_create("evaluate, charge and settle");
    tcase_add_test(tcase, slots_are_taken_given_back_and_renewed);
    tcase_add_test(tcase, a_slot_that_is_taken_again_is_one);
    tcase_add_test(tcase, a_clock_set_back_is_followed);
    tcase_add_test(tcase, a_lowered_rate_waits_for_more_than_one_to_end);
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
