#include "base/latency.h"

#include <check.h>
#include <stdlib.h>

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
    Suite *suite = suite_create("base/latency");
    TCase *tests = tcase_create("latency");
    tcase_add_test(tests, each_edge_is_the_largest_time_of_its_bucket);
    tcase_add_test(tests,
                   every_power_of_two_and_its_neighbours_are_in_the_first_bucket_that_holds_them);
    tcase_add_test(tests, times_are_counted_and_summed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
