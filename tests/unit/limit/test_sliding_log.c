#include "limit/sliding_log.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "golden.h"

static const struct algorithm *const ALGORITHM = &sliding_log_algorithm;

/* 5 units in any 10 s. A tick is 1 ms. */
static const struct limit_params PARAMS = {.rate = 5, .period = 10000, .ticks_per_s = 1000};
static const uint64_t START = UINT64_C(1763667890123); /* of both halves of a word */

/* --- {story, kind, at, units, of, allowed, retry_after, wait, {then:
 * remaining, next, reset}} --- */

START_TEST(what_left_the_window_makes_room_to_the_tick)
{
    static const struct golden story[] = {
        {"asking takes nothing", ASK, 0, 0, 0, true, 0, 0, {5, 0, 0}},
        {"two", ASK, 0, 2, 0, true, 0, 0, {3, 10000, 10000}},
        {"and two in the same tick", ASK, 0, 2, 0, true, 0, 0, {1, 10000, 10000}},
        {"all or nothing", ASK, 4000, 2, 0, false, 6000, 0, {1, 6000, 6000}},
        {"one", ASK, 4000, 1, 0, true, 0, 0, {0, 6000, 10000}},
        {"five must wait for all of it", ASK, 4000, 5, 0, false, 10000, 0, {0, 6000, 10000}},
        {"more than the rate never passes",
         ASK,
         4000,
         6,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 6000, 10000}},
        {"not even the greatest cost wraps",
         ASK,
         4000,
         UINT32_MAX,
         0,
         false,
         RETRY_NEVER,
         0,
         {0, 6000, 10000}},
        {"a tick early is early", ASK, 9999, 1, 0, false, 1, 0, {0, 1, 4001}},
        {"both entries leave at once", ASK, 10000, 4, 0, true, 0, 0, {0, 4000, 10000}},
        {"one leaves by itself", ASK, 14000, 1, 0, true, 0, 0, {0, 6000, 10000}},
        {"then all do", ASK, 24000, 5, 0, true, 0, 0, {0, 10000, 10000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(what_is_settled_is_an_entry_of_its_own_tick)
{
    static const struct golden story[] = {
        {"two", ASK, 0, 2, 0, true, 0, 0, {3, 10000, 10000}},
        {"three later", ASK, 1000, 3, 0, true, 0, 0, {0, 9000, 10000}},
        {"one of the three", SETTLE, 1000, -1, 1000, false, 0, 0, {1, 9000, 10000}},
        {"more than they were is all of them",
         SETTLE,
         1000,
         -9,
         1000,
         false,
         0,
         0,
         {3, 9000, 9000}},
        {"an entry that is no more takes nothing",
         SETTLE,
         1000,
         2,
         1000,
         false,
         0,
         0,
         {1, 9000, 9000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

START_TEST(odd_clocks_neither_give_nor_freeze)
{
    static const struct golden story[] = {
        {"three at 100 s", ASK, 100000, 3, 0, true, 0, 0, {2, 10000, 10000}},
        {"half a second back is no time", ASK, 99500, 2, 0, true, 0, 0, {0, 10500, 10500}},
        {"a clock set back for good is followed", ASK, 0, 1, 0, false, 10000, 0, {0, 10000, 10000}},
    };
    golden_play(story, ARRAY_LEN(story), ALGORITHM, &PARAMS, START);
}
END_TEST

static size_t bytes_for(const uint64_t *state, uint64_t now)
{
    const struct limit_call call = {.now = now, .cost = 1};
    return ALGORITHM->state_bytes(state, &PARAMS, &call);
}

START_TEST(a_log_has_twice_as_many_entries_as_its_rate_at_most)
{
    uint64_t state[GOLDEN_STATE_WORDS] = {0};
    const size_t most =
        sizeof(struct sliding_log) + (2 * PARAMS.rate + 1) * sizeof(struct sliding_log_entry);
    for (uint64_t at = 0; at < 1000000; at += 1000) {
        const struct limit_call call = {.now = START + at, .cost = 1};
        struct verdict verdict;
        algorithm_evaluate(ALGORITHM, state, &PARAMS, &call, &verdict);
        ck_assert_uint_le(bytes_for(state, call.now), most + 7);
        if (verdict.allowed) {
            ALGORITHM->charge(state, &PARAMS, &call);
        }
    }
}
END_TEST

START_TEST(what_is_refunded_whole_leaves_no_entry)
{
    uint64_t state[GOLDEN_STATE_WORDS] = {0};
    const size_t one = bytes_for(NULL, START);
    for (int i = 0; i < 1000; i++) {
        const struct limit_call call = {.now = START, .cost = 5};
        ALGORITHM->charge(state, &PARAMS, &call);
        ALGORITHM->settle(state, &PARAMS, START, START, -5);
    }
    ck_assert_uint_eq(bytes_for(state, START), one);
}
END_TEST

START_TEST(entries_of_a_time_to_come_are_one_entry_when_the_clock_is_followed)
{
    uint64_t state[GOLDEN_STATE_WORDS] = {0};
    const struct limit_call later = {.now = START + 100000, .cost = 1};
    ALGORITHM->charge(state, &PARAMS, &later);
    ALGORITHM->charge(state, &PARAMS, &later);
    ck_assert(ALGORITHM->is_ahead(state, &PARAMS, START));
    ALGORITHM->charge(state, &PARAMS, &(struct limit_call){.now = START});
    ck_assert(!ALGORITHM->is_ahead(state, &PARAMS, START));
    const struct sliding_log *log = (const struct sliding_log *)(const void *)state;
    ck_assert_uint_eq(log->n, 1);
    ck_assert_uint_eq(log->units, 2);
}
END_TEST

/* --- check_params --- */

static const struct {
    struct limit_params params;
    const char *says;
} BAD_PARAMS[] = {
    {{.rate = 0, .period = 1}, "rate must be at least 1"},
    {{.rate = 100001, .period = 1},
     "rate must not exceed 100,000, the entries of a key; use sliding_window"},
    {{.rate = 1, .period = 0}, "period must be at least 1 tick"},
    {{.rate = 1, .period = LIMIT_UNITS_MAX + 1}, "period must not exceed 2^52 ticks"},
};

START_TEST(check_params_names_the_fault)
{
    ck_assert_str_eq(ALGORITHM->check_params(&BAD_PARAMS[_i].params), BAD_PARAMS[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/sliding_log");
    TCase *tcase = tcase_create("evaluate, charge and settle");
    tcase_add_test(tcase, what_left_the_window_makes_room_to_the_tick);
    tcase_add_test(tcase, what_is_settled_is_an_entry_of_its_own_tick);
    tcase_add_test(tcase, odd_clocks_neither_give_nor_freeze);
    tcase_add_test(tcase, a_log_has_twice_as_many_entries_as_its_rate_at_most);
    tcase_add_test(tcase, what_is_refunded_whole_leaves_no_entry);
    tcase_add_test(tcase, entries_of_a_time_to_come_are_one_entry_when_the_clock_is_followed);
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
