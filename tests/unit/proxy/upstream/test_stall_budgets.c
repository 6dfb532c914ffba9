#include "proxy/upstream/upstream_clients.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"

enum {
    SECOND_US = 1000 * 1000,
    PERIODS_US = 12, /* to get a microsecond back */
    THREADS = 4,
    CLIENTS = 5000,
};

static struct stall_budgets budgets;

static struct address client_of(unsigned number)
{
    return (struct address){
        .family = ADDRESS_IPV4,
        .bytes = {10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}};
}

static uint64_t left(unsigned number, uint64_t now_us)
{
    const struct address client = client_of(number);
    return stall_budgets_left_us(&budgets, &client, now_us);
}

static bool take(unsigned number, uint64_t time_us, uint64_t now_us)
{
    const struct address client = client_of(number);
    return stall_budgets_take(&budgets, &client, time_us, now_us);
}

static void give(unsigned number, uint64_t time_us, uint64_t now_us)
{
    const struct address client = client_of(number);
    stall_budgets_give(&budgets, &client, time_us, now_us);
}

static void begin(void)
{
    budgets = (struct stall_budgets){0};
}

START_TEST(who_is_not_known_has_all)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        ck_assert_uint_eq(left(i, (uint64_t)i * SECOND_US), STALL_BUDGET_US);
    }
}
END_TEST

START_TEST(what_is_taken_is_gone_and_comes_back_evenly)
{
    const uint64_t begins[] = {0, 999, UINT64_C(1) << 39, (UINT64_C(1) << 40) * 1000 - 1};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        const uint64_t now_us = begins[i];
        begin();
        ck_assert(take(1, 2 * SECOND_US, now_us));
        ck_assert_uint_eq(left(1, now_us), 3 * SECOND_US);
        ck_assert(!take(1, 3 * SECOND_US + 1000, now_us));
        ck_assert_uint_eq(left(1, now_us), 3 * SECOND_US);
        ck_assert(take(1, 3 * SECOND_US, now_us));
        ck_assert_uint_eq(left(1, now_us), 0);
        ck_assert(!take(1, 1, now_us));
        ck_assert_uint_eq(left(1, now_us + PERIODS_US * (uint64_t)SECOND_US), SECOND_US);
        ck_assert_uint_eq(left(1, now_us + STALL_BUDGET_PERIOD_US), STALL_BUDGET_US);
        ck_assert_uint_eq(left(1, now_us + 10 * (uint64_t)STALL_BUDGET_PERIOD_US), STALL_BUDGET_US);
        ck_assert_uint_eq(left(2, now_us), STALL_BUDGET_US);
    }
}
END_TEST

START_TEST(what_is_given_back_is_there_again_and_never_more_than_all)
{
    ck_assert(take(1, 4 * SECOND_US, 0));
    give(1, SECOND_US, 0);
    ck_assert_uint_eq(left(1, 0), 2 * SECOND_US);
    give(1, UINT64_MAX, 0);
    ck_assert_uint_eq(left(1, 0), STALL_BUDGET_US);
    give(1, SECOND_US, 0);
    ck_assert_uint_eq(left(1, 0), STALL_BUDGET_US);
    give(2, SECOND_US, 0); /* never took any */
    ck_assert_uint_eq(left(2, 0), STALL_BUDGET_US);
}
END_TEST

START_TEST(nobody_has_more_than_all_of_it)
{
    ck_assert(!take(1, STALL_BUDGET_US + 1, 0));
    ck_assert(!take(1, UINT64_MAX, 0));
    ck_assert(take(1, STALL_BUDGET_US, 0));
}
END_TEST

START_TEST(a_clock_of_another_thread_that_is_behind_gives_nothing)
{
    ck_assert(take(1, STALL_BUDGET_US, SECOND_US));
    ck_assert(!take(1, SECOND_US, SECOND_US - 1));
}
END_TEST

START_TEST(those_with_least_left_keep_their_places)
{
    for (unsigned i = 0; i < STALL_BUDGETS_ROWS; i++) {
        ck_assert(take(i, STALL_BUDGET_US, 0));
    }
    for (unsigned i = STALL_BUDGETS_ROWS; i < CLIENTS; i++) {
        ck_assert(take(i, SECOND_US, 0));
    }
    unsigned n_kept = 0;
    for (unsigned i = 0; i < STALL_BUDGETS_ROWS; i++) {
        n_kept += left(i, 0) == 0;
    }
    ck_assert_uint_ge(n_kept, STALL_BUDGETS_ROWS * 9 / 10);
}
END_TEST

/* Takes a millisecond at a time of the same budget as the other threads. */
static void *take_all(void *context)
{
    unsigned *n_taken = context;
    while (take(1, 1000, 0)) {
        ++*n_taken;
    }
    return NULL;
}

START_TEST(threads_together_take_no_more_than_there_is)
{
    pthread_t threads[THREADS];
    unsigned n_taken[THREADS] = {0};
    unsigned n_all = 0;
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_all, &n_taken[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_all += n_taken[i];
    }
    ck_assert_uint_eq(n_all, STALL_BUDGET_US / 1000);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("proxy/stall_budgets");
    TCase *tests = tcase_create("stall_budgets");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_test(tests, who_is_not_known_has_all);
    tcase_add_test(tests, what_is_taken_is_gone_and_comes_back_evenly);
    tcase_add_test(tests, what_is_given_back_is_there_again_and_never_more_than_all);
    tcase_add_test(tests, nobody_has_more_than_all_of_it);
    tcase_add_test(tests, a_clock_of_another_thread_that_is_behind_gives_nothing);
    tcase_add_test(tests, those_with_least_left_keep_their_places);
    tcase_add_test(tests, threads_together_take_no_more_than_there_is);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
