#include "policy/answer_set.h"

#include <check.h>
#include <stdlib.h>

START_TEST(a_set_has_what_was_added_and_nothing_else)
{
    struct answer_set set = {.is_said = false};
    answer_set_add(&set, 401, 401);
    answer_set_add(&set, 500, 599);
    for (unsigned status = 0; status < 1200; status++) {
        const bool is_added = status == 401 || (status >= 500 && status <= 599);
        ck_assert_msg(answer_set_has(&set, status) == is_added, "%u", status);
    }
    ck_assert(set.is_said);
    ck_assert(!set.client_left && !set.server_failed);
}
END_TEST

START_TEST(an_empty_set_has_no_answer)
{
    const struct answer_set set = {.is_said = false};
    for (unsigned status = 0; status < 1200; status++) {
        ck_assert(!answer_set_has(&set, status));
    }
}
END_TEST

START_TEST(the_bounds_belong_to_the_statuses)
{
    struct answer_set set = {.is_said = false};
    answer_set_add(&set, ANSWER_STATUS_MIN, ANSWER_STATUS_MAX);
    ck_assert(!answer_set_has(&set, 99));
    ck_assert(answer_set_has(&set, 100));
    ck_assert(answer_set_has(&set, 599));
    ck_assert(!answer_set_has(&set, 600));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/answer_set");
    TCase *tcase = tcase_create("sets");
    tcase_add_test(tcase, a_set_has_what_was_added_and_nothing_else);
    tcase_add_test(tcase, an_empty_set_has_no_answer);
    tcase_add_test(tcase, the_bounds_belong_to_the_statuses);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
