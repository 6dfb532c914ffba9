/* When memory is returned to the system. */

#include "app/serve/memory_return.h"

#include <check.h>
#include <stdlib.h>

#define MIB(n) ((uint64_t)(n) << 20)

static bool is_worth(uint64_t kept, uint64_t resident, uint64_t taken, uint64_t free)
{
    const struct memory_return state = {.kept = kept};
    const struct memory_use use = {.resident = resident, .taken = taken, .free = free};
    return memory_return_is_worth(&state, &use);
}

START_TEST(much_that_is_free_is_returned)
{
    ck_assert(is_worth(MIB(12), MIB(400), MIB(20), MIB(380)));
    ck_assert(is_worth(MIB(12), MIB(76), MIB(2), MIB(64)));
}
END_TEST

START_TEST(little_is_kept)
{
    ck_assert(!is_worth(MIB(12), MIB(75), MIB(2), MIB(64)));
    ck_assert(!is_worth(MIB(12), MIB(400), MIB(2), MIB(63)));
}
END_TEST

START_TEST(what_is_in_use_for_the_most_part_is_kept)
{
    ck_assert(!is_worth(MIB(12), MIB(400), MIB(200), MIB(200)));
    ck_assert(is_worth(MIB(12), MIB(400), MIB(199), MIB(200)));
}
END_TEST

START_TEST(what_was_returned_is_free_still_and_not_returned_again)
{
    ck_assert(!is_worth(MIB(53), MIB(53), MIB(20), MIB(380)));
    ck_assert(!is_worth(MIB(53), MIB(116), MIB(20), MIB(380)));
    ck_assert(is_worth(MIB(53), MIB(117), MIB(20), MIB(380)));
}
END_TEST

START_TEST(a_check_is_due_every_ten_seconds)
{
    struct memory_return state = {0};
    const uint64_t now_us = 5 * MEMORY_RETURN_PERIOD_US;
    ck_assert_uint_eq(memory_return_patience_us(&state, now_us), 0);
    memory_return_check(&state, now_us);
    ck_assert_uint_gt(state.kept, 0);
    ck_assert_uint_eq(memory_return_patience_us(&state, now_us + 1), MEMORY_RETURN_PERIOD_US - 1);
    state.kept = 1;
    memory_return_check(&state, now_us + MEMORY_RETURN_PERIOD_US - 1);
    ck_assert_uint_eq(memory_return_patience_us(&state, now_us + MEMORY_RETURN_PERIOD_US), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory return");
    TCase *tcase = tcase_create("when");
    tcase_add_test(tcase, much_that_is_free_is_returned);
    tcase_add_test(tcase, little_is_kept);
    tcase_add_test(tcase, what_is_in_use_for_the_most_part_is_kept);
    tcase_add_test(tcase, what_was_returned_is_free_still_and_not_returned_again);
    tcase_add_test(tcase, a_check_is_due_every_ten_seconds);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
