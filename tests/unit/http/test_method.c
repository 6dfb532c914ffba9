#include "http/method.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_registered_method_is_known_letter_for_letter)
{
    for (enum method_id id = METHOD_OTHER + 1; id < METHOD_COUNT; id++) {
        char folded[64];
        const struct span name = method_name(id);
        for (size_t i = 0; i < name.len; i++) {
            folded[i] = ascii_lower(name.data[i]);
        }
        const struct span lower = span_of(folded, name.len);
        ck_assert_int_eq(method_identify(name), id);
        ck_assert_int_eq(method_identify(lower), METHOD_OTHER);
        ck_assert_int_eq(method_find_ignoring_case(lower), id);
        folded[0] = name.data[0];
        ck_assert_int_eq(method_identify(lower), METHOD_OTHER);
        ck_assert_int_eq(method_find_ignoring_case(lower), id);
        ck_assert_ptr_nonnull(strstr(method_case_refusal(id), name.data));
    }
}
END_TEST

START_TEST(any_other_method_is_not_known)
{
    static const char *const others[] = {"",  "PURGE", "GE",        "GETS",
                                         "G", "*",     "PROPFINDS", "@other"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        ck_assert_int_eq(method_identify(span_of_text(others[i])), METHOD_OTHER);
        ck_assert_int_eq(method_find_ignoring_case(span_of_text(others[i])), METHOD_OTHER);
    }
    ck_assert(!method_is_idempotent(METHOD_OTHER));
}
END_TEST

START_TEST(six_methods_may_be_sent_again)
{
    for (enum method_id id = METHOD_OTHER; id < METHOD_COUNT; id++) {
        ck_assert_int_eq(method_is_idempotent(id), id == METHOD_GET || id == METHOD_HEAD ||
                                                       id == METHOD_PUT || id == METHOD_DELETE ||
                                                       id == METHOD_OPTIONS || id == METHOD_TRACE);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http/method");
    TCase *tcase = tcase_create("method");
    tcase_add_test(tcase, a_registered_method_is_known_letter_for_letter);
    tcase_add_test(tcase, any_other_method_is_not_known);
    tcase_add_test(tcase, six_methods_may_be_sent_again);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
