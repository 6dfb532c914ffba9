#include "base/histogram.h"

#include <check.h>
#include <stdlib.h>

static struct histogram histogram;

static void setup(void)
{
    histogram_init(&histogram);
}

START_TEST(without_numbers_all_is_zero)
{
    ck_assert_uint_eq(histogram_count(&histogram), 0);
    ck_assert_uint_eq(histogram_max(&histogram), 0);
    ck_assert_uint_eq(histogram_quantile(&histogram, 99, 100), 0);
}
END_TEST

START_TEST(small_numbers_are_exact)
{
    for (uint64_t number = 1; number <= 20; number++) {
        histogram_add(&histogram, number);
    }
    ck_assert_uint_eq(histogram_count(&histogram), 20);
    ck_assert_uint_eq(histogram_quantile(&histogram, 1, 2), 10);
    ck_assert_uint_eq(histogram_quantile(&histogram, 95, 100), 19);
    ck_assert_uint_eq(histogram_quantile(&histogram, 96, 100), 20);
    ck_assert_uint_eq(histogram_quantile(&histogram, 1, 1), 20);
    ck_assert_uint_eq(histogram_quantile(&histogram, 1, 1000), 1);
}
END_TEST

START_TEST(a_quantile_is_never_too_small_and_at_most_a_thirty_second_too_large)
{
    for (uint64_t number = 1; number < UINT64_C(1) << 36; number = number * 9 / 8 + 1) {
        histogram_init(&histogram);
        histogram_add(&histogram, number);
        histogram_add(&histogram, UINT64_MAX / 4);
        const uint64_t half = histogram_quantile(&histogram, 1, 2);
        ck_assert_uint_ge(half, number);
        ck_assert_uint_le(half, number + number / HISTOGRAM_STEPS);
    }
}
END_TEST

START_TEST(buckets_follow_each_other_without_gap)
{
    for (size_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        const uint64_t edge = histogram_bucket_max(i);
        histogram_init(&histogram);
        histogram_add(&histogram, edge);
        histogram_add(&histogram, edge + 1);
        ck_assert_uint_eq(histogram.counts[i], 1);
        ck_assert_uint_eq(histogram.counts[i + 1], 1);
    }
}
END_TEST

START_TEST(what_is_larger_than_all_is_in_the_last_and_the_maximum_exact)
{
    histogram_add(&histogram, UINT64_C(1) << 40);
    histogram_add(&histogram, UINT64_MAX / 2);
    ck_assert_uint_eq(histogram.counts[HISTOGRAM_BUCKETS - 1], 2);
    ck_assert_uint_eq(histogram_max(&histogram), UINT64_MAX / 2);
    ck_assert_uint_eq(histogram_quantile(&histogram, 1, 2), UINT64_MAX / 2);
}
END_TEST

START_TEST(merging_counts_both)
{
    static struct histogram other;
    histogram_init(&other);
    histogram_add(&histogram, 5);
    histogram_add(&other, 7);
    histogram_add(&other, 3000);
    histogram_merge(&histogram, &other);
    ck_assert_uint_eq(histogram_count(&histogram), 3);
    ck_assert_uint_eq(histogram_max(&histogram), 3000);
    ck_assert_uint_eq(histogram_quantile(&histogram, 2, 3), 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/histogram");
    TCase *tcase = tcase_create("histogram");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, without_numbers_all_is_zero);
    tcase_add_test(tcase, small_numbers_are_exact);
    tcase_add_test(tcase, a_quantile_is_never_too_small_and_at_most_a_thirty_second_too_large);
    tcase_add_test(tcase, buckets_follow_each_other_without_gap);
    tcase_add_test(tcase, what_is_larger_than_all_is_in_the_last_and_the_maximum_exact);
    tcase_add_test(tcase, merging_counts_both);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
