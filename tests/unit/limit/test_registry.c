#include "limit/algorithms.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/death.h"

START_TEST(every_row_is_found_by_its_name_and_has_its_number)
{
    size_t n;
    const struct algorithm *const *all = algorithm_all(&n);
    ck_assert_uint_ge(n, 2);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(algorithm_find(span_of_text(all[i]->name)), all[i]);
        ck_assert_uint_eq(algorithm_number(all[i]), i + 1);
    }
}
END_TEST

START_TEST(every_row_names_a_script_of_its_own_name_and_both_buckets_that_of_the_meter)
{
    size_t n;
    const struct algorithm *const *all = algorithm_all(&n);
    for (size_t i = 0; i < n; i++) {
        const bool is_bucket = strstr(all[i]->name, "_bucket") != NULL;
        ck_assert_str_eq(all[i]->script->name, is_bucket ? "meter" : all[i]->name);
        ck_assert_uint_eq(strlen(all[i]->script->text), all[i]->script->len);
    }
}
END_TEST

START_TEST(what_is_not_there_is_not_found)
{
    ck_assert_ptr_null(algorithm_find(SPAN("")));
    ck_assert_ptr_null(algorithm_find(SPAN("token_bucke")));
    ck_assert_ptr_null(algorithm_find(SPAN("token_buckets")));
}
END_TEST

static void number_a_copy(void)
{
    struct algorithm copy;
    memcpy(&copy, &token_bucket_algorithm, sizeof(copy));
    (void)algorithm_number(&copy);
}

START_TEST(an_algorithm_without_a_row_ends_the_process)
{
    death_expect(number_a_copy, "sluice: panic: an algorithm is not registered\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/registry");
    TCase *registry = tcase_create("registry");
    tcase_add_test(registry, every_row_is_found_by_its_name_and_has_its_number);
    tcase_add_test(registry,
                   every_row_names_a_script_of_its_own_name_and_both_buckets_that_of_the_meter);
    tcase_add_test(registry, what_is_not_there_is_not_found);
    tcase_add_test(registry, an_algorithm_without_a_row_ends_the_process);
    suite_add_tcase(suite, registry);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
