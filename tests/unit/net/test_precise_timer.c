#include "net/precise_timer.h"

#include <check.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/iterations.h"

enum { MS = 1000, N_TIMERS = 200 };

static struct loop *loop;
static struct precise_timers timers;

/* A timer that remembers when and as which it expired. */
struct witness {
    struct precise_timer timer;
    uint64_t expired_us;
    unsigned expired_as; /* from 1; 0: not yet */
};

static struct witness witnesses[N_TIMERS];
static unsigned n_expired;

static void on_expiry(struct precise_timer *timer)
{
    struct witness *witness = CONTAINER_OF(timer, struct witness, timer);
    witness->expired_us = clock_monotonic_us();
    witness->expired_as = ++n_expired;
}

static void set_up(void)
{
    loop = iterations_new_loop();
    ck_assert_int_eq(precise_timers_init(&timers, loop, N_TIMERS), STATUS_OK);
    n_expired = 0;
    for (size_t i = 0; i < N_TIMERS; i++) {
        witnesses[i] = (struct witness){.timer = {.on_expiry = on_expiry}};
    }
}

static void tear_down(void)
{
    precise_timers_close(&timers);
    loop_free(loop);
}

static void arm(size_t i, uint64_t deadline_us)
{
    ck_assert_int_eq(precise_timer_arm(&timers, &witnesses[i].timer, deadline_us), STATUS_OK);
}

START_TEST(timers_expire_in_the_order_of_their_deadlines_and_never_early)
{
    const uint64_t start_us = clock_monotonic_us();
    for (size_t i = 0; i < N_TIMERS; i++) {
        arm(i, start_us + i * 37 % N_TIMERS * 50);
    }
    iterations_until_count(loop, &n_expired, N_TIMERS);
    for (size_t i = 0; i < N_TIMERS; i++) {
        ck_assert_uint_ge(witnesses[i].expired_us, witnesses[i].timer.deadline_us);
        ck_assert_uint_eq(witnesses[i].expired_as, i * 37 % N_TIMERS + 1);
    }
}
END_TEST

START_TEST(those_of_one_deadline_expire_in_the_order_of_arming)
{
    const uint64_t deadline_us = clock_monotonic_us() + 2 * MS;
    for (size_t i = 0; i < N_TIMERS; i++) {
        arm(i, deadline_us);
    }
    iterations_until_count(loop, &n_expired, N_TIMERS);
    for (size_t i = 0; i < N_TIMERS; i++) {
        ck_assert_uint_eq(witnesses[i].expired_as, i + 1);
    }
}
END_TEST

START_TEST(a_disarmed_timer_never_expires_and_the_others_keep_their_order)
{
    const uint64_t start_us = clock_monotonic_us();
    for (size_t i = 0; i < N_TIMERS; i++) {
        arm(i, start_us + (N_TIMERS - i) * 20);
    }
    for (size_t i = 0; i < N_TIMERS; i += 3) {
        precise_timer_disarm(&timers, &witnesses[i].timer);
        precise_timer_disarm(&timers, &witnesses[i].timer);
    }
    iterations_until_count(loop, &n_expired, N_TIMERS - (N_TIMERS + 2) / 3);
    unsigned expected = n_expired;
    for (size_t i = 0; i < N_TIMERS; i++) {
        ck_assert_uint_eq(witnesses[i].expired_as, i % 3 == 0 ? 0 : expected--);
    }
}
END_TEST

START_TEST(one_armed_later_for_sooner_expires_first)
{
    const uint64_t start_us = clock_monotonic_us();
    arm(0, start_us + 8 * MS);
    arm(1, start_us + 1 * MS);
    iterations_until_count(loop, &n_expired, 1);
    ck_assert_uint_eq(witnesses[1].expired_as, 1);
    iterations_until_count(loop, &n_expired, 2);
}
END_TEST

START_TEST(one_more_than_there_is_room_for_is_refused)
{
    struct precise_timer one_more = {.on_expiry = on_expiry};
    for (size_t i = 0; i < N_TIMERS; i++) {
        arm(i, UINT64_MAX / 2);
    }
    ck_assert_int_eq(precise_timer_arm(&timers, &one_more, 1), STATUS_FULL);
    for (size_t i = 0; i < N_TIMERS; i++) {
        precise_timer_disarm(&timers, &witnesses[i].timer);
    }
}
END_TEST

static Suite *precise_timer_suite(void)
{
    Suite *suite = suite_create("net/precise_timer");
    TCase *expiry = tcase_create("expiry");
    tcase_add_checked_fixture(expiry, set_up, tear_down);
    tcase_add_test(expiry, timers_expire_in_the_order_of_their_deadlines_and_never_early);
    tcase_add_test(expiry, those_of_one_deadline_expire_in_the_order_of_arming);
    tcase_add_test(expiry, a_disarmed_timer_never_expires_and_the_others_keep_their_order);
    tcase_add_test(expiry, one_armed_later_for_sooner_expires_first);
    tcase_add_test(expiry, one_more_than_there_is_room_for_is_refused);
    suite_add_tcase(suite, expiry);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(precise_timer_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
