#include "proxy/client/client_env.h"

#include <check.h>
#include <stdlib.h>

enum { NOW_US = 1000 };

static struct lingering linger;

static void set_up(void)
{
    linger_begin(&linger, NOW_US);
}

START_TEST(bytes_are_taken_up_to_the_maximum)
{
    ck_assert(linger_takes(&linger, 1, NOW_US));
    ck_assert(linger_takes(&linger, LINGER_BYTES_MAX - 2, NOW_US));
    ck_assert(!linger_takes(&linger, 1, NOW_US));
    ck_assert(!linger_takes(&linger, 1, NOW_US));
}
END_TEST

START_TEST(time_is_given_up_to_the_maximum)
{
    ck_assert(linger_takes(&linger, 1, NOW_US + LINGER_US_MAX - 1));
    ck_assert(!linger_takes(&linger, 1, NOW_US + LINGER_US_MAX));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/linger");
    TCase *bounds = tcase_create("bounds");
    tcase_add_checked_fixture(bounds, set_up, NULL);
    tcase_add_test(bounds, bytes_are_taken_up_to_the_maximum);
    tcase_add_test(bounds, time_is_given_up_to_the_maximum);
    suite_add_tcase(suite, bounds);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
