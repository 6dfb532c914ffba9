/* How long bans grow: never beyond the maximum, whatever the numbers. */

#include "limit/limit.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

START_TEST(each_ban_is_longer_up_to_the_maximum)
{
    const struct ban_terms terms = {.for_ms = 60000, .factor = 4, .max_ms = 86400000};
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 1), 60000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 2), 240000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 3), 960000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 6), 61440000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 7), 86400000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, UINT64_MAX), 86400000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 0), 60000);
}
END_TEST

START_TEST(a_factor_of_one_does_not_grow_and_does_not_count)
{
    const struct ban_terms terms = {.for_ms = 60000, .factor = 1, .max_ms = 86400000};
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 1), 60000);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, UINT64_MAX), 60000);
}
END_TEST

START_TEST(nothing_overflows)
{
    const struct ban_terms terms = {.for_ms = 1, .factor = UINT32_MAX, .max_ms = UINT64_MAX};
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 2), UINT32_MAX);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 3), (uint64_t)UINT32_MAX * UINT32_MAX);
    ck_assert_uint_eq(ban_terms_length_ms(&terms, 4), UINT64_MAX);
    const struct ban_terms longest = {.for_ms = UINT64_MAX, .factor = 2, .max_ms = UINT64_MAX};
    ck_assert_uint_eq(ban_terms_length_ms(&longest, 2), UINT64_MAX);
    const struct ban_terms cut = {.for_ms = 9, .factor = 2, .max_ms = 5};
    ck_assert_uint_eq(ban_terms_length_ms(&cut, 1), 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/ban_terms");
    TCase *tcase = tcase_create("length");
    tcase_add_test(tcase, each_ban_is_longer_up_to_the_maximum);
    tcase_add_test(tcase, a_factor_of_one_does_not_grow_and_does_not_count);
    tcase_add_test(tcase, nothing_overflows);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
