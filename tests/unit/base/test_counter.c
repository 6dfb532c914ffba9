#include "base/counter.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

enum { N_BLOCKS = 10000, N_ROUNDS = 200 };

static struct counter_table table;

static void setup(void)
{
    counter_table_init(&table, sizeof(struct counter));
}

static void teardown(void)
{
    counter_table_close(&table);
}

START_TEST(what_was_counted_stays_where_it_is_when_the_table_grows)
{
    ck_assert_int_eq(counter_table_grow(&table, 1), STATUS_OK);
    struct counter *first = counter_table_at(&table, 0);
    counter_add(first, 7);
    ck_assert_int_eq(counter_table_grow(&table, N_BLOCKS), STATUS_OK);
    ck_assert_ptr_eq(counter_table_at(&table, 0), first);
    ck_assert_uint_eq(counter_read(first), 7);
    for (size_t i = 1; i < N_BLOCKS; i++) {
        ck_assert_uint_eq(counter_read(counter_table_at(&table, i)), 0);
    }
}
END_TEST

START_TEST(who_reads_sees_that_a_block_is_not_there)
{
    ck_assert_ptr_null(counter_table_peek(&table, 0));
    ck_assert_int_eq(counter_table_grow(&table, COUNTER_TABLE_CHUNK), STATUS_OK);
    ck_assert_ptr_eq(counter_table_peek(&table, 3), counter_table_at(&table, 3));
    ck_assert_ptr_null(counter_table_peek(&table, COUNTER_TABLE_CHUNK));
    ck_assert_ptr_null(counter_table_peek(&table, SIZE_MAX));
}
END_TEST

static void *count(void *context)
{
    (void)context;
    for (size_t round = 0; round < N_ROUNDS; round++) {
        for (size_t i = 0; i < COUNTER_TABLE_CHUNK; i++) {
            counter_up(counter_table_at(&table, i));
        }
    }
    return NULL;
}

START_TEST(one_counts_while_it_grows_and_is_read)
{
    pthread_t counting;
    ck_assert_int_eq(counter_table_grow(&table, COUNTER_TABLE_CHUNK), STATUS_OK);
    ck_assert_int_eq(pthread_create(&counting, NULL, count, NULL), 0);
    for (size_t n = COUNTER_TABLE_CHUNK; n < N_BLOCKS; n += COUNTER_TABLE_CHUNK) {
        ck_assert_int_eq(counter_table_grow(&table, n), STATUS_OK);
        ck_assert_uint_le(counter_read(counter_table_peek(&table, 0)), N_ROUNDS);
        ck_assert_ptr_nonnull(counter_table_peek(&table, n - 1));
    }
    pthread_join(counting, NULL);
    for (size_t i = 0; i < COUNTER_TABLE_CHUNK; i++) {
        ck_assert_uint_eq(counter_read(counter_table_at(&table, i)), N_ROUNDS);
    }
}
END_TEST

/* --- latency --- */

START_TEST(each_edge_is_the_largest_time_of_its_bucket)
{
    for (size_t i = 0; i < LATENCY_EDGES; i++) {
        ck_assert_uint_eq(latency_bucket(latency_edge_us(i)), i);
        ck_assert_uint_eq(latency_bucket(latency_edge_us(i) + 1), i + 1);
    }
}
END_TEST

START_TEST(every_power_of_two_and_its_neighbours_are_in_the_first_bucket_that_holds_them)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        for (uint64_t us = (UINT64_C(1) << bit) - 1; us <= (UINT64_C(1) << bit) + 1; us++) {
            size_t wanted = 0;
            while (wanted < LATENCY_EDGES && latency_edge_us(wanted) < us) {
                wanted++;
            }
            ck_assert_uint_eq(latency_bucket(us), wanted);
        }
    }
    ck_assert_uint_eq(latency_bucket(UINT64_MAX), LATENCY_EDGES);
}
END_TEST

START_TEST(times_are_counted_and_summed)
{
    struct latency latency = {0};
    latency_add(&latency, 0);
    latency_add(&latency, 10);
    latency_add(&latency, 11);
    latency_add(&latency, 60 * 1000 * 1000);
    ck_assert_uint_eq(counter_read(&latency.counts[0]), 2);
    ck_assert_uint_eq(counter_read(&latency.counts[1]), 1);
    ck_assert_uint_eq(counter_read(&latency.counts[LATENCY_EDGES]), 1);
    ck_assert_uint_eq(counter_read(&latency.sum_us), 60 * 1000 * 1000 + 21);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/counter");
    TCase *tests = tcase_create("counter_table");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_counted_stays_where_it_is_when_the_table_grows);
    tcase_add_test(tests, who_reads_sees_that_a_block_is_not_there);
    tcase_add_test(tests, one_counts_while_it_grows_and_is_read);
    suite_add_tcase(suite, tests);
    TCase *latency_tests = tcase_create("latency");
    tcase_add_test(latency_tests, each_edge_is_the_largest_time_of_its_bucket);
    tcase_add_test(latency_tests,
                   every_power_of_two_and_its_neighbours_are_in_the_first_bucket_that_holds_them);
    tcase_add_test(latency_tests, times_are_counted_and_summed);
    suite_add_tcase(suite, latency_tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
