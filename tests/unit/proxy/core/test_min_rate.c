#include "proxy/core/min_rate.h"

#include <check.h>
#include <stdlib.h>

enum { SECOND = 1000000 };

static const struct min_rate_rule RULE = {
    .bytes_per_s = 1000, .first_us = 10 * SECOND, .most_us = 60 * SECOND};
static const uint64_t START_US = 5;

static struct min_rate min_rate;
static uint64_t n_bytes;
static uint64_t now_us;

static void begin(void)
{
    min_rate = (struct min_rate){0};
    n_bytes = 0;
    now_us = START_US;
    min_rate_begin_wait(&min_rate, now_us);
}

/* Waits for @seconds of which each brings @bytes_a_second; tells after how many
 * it was too slow, or -1. */
static int wait_for(int seconds, uint64_t bytes_a_second)
{
    for (int i = 1; i <= seconds; i++) {
        now_us += SECOND;
        n_bytes += bytes_a_second;
        if (min_rate_is_too_slow(&min_rate, &RULE, n_bytes, now_us)) {
            return i;
        }
    }
    return -1;
}

START_TEST(who_moves_nothing_has_the_time_that_is_given_in_advance)
{
    ck_assert_int_eq(wait_for(100, 0), 11);
}
END_TEST

START_TEST(who_keeps_the_rate_is_never_too_slow)
{
    ck_assert_int_eq(wait_for(100000, 1000), -1);
}
END_TEST

START_TEST(who_trickles_gains_what_his_bytes_earn)
{
    /* Half the rate: two seconds cost one. */
    ck_assert_int_eq(wait_for(100, 500), 21);
}
END_TEST

START_TEST(a_burst_buys_no_more_time_than_the_most)
{
    ck_assert_int_eq(wait_for(5, UINT64_C(1) << 40), -1);
    ck_assert_int_eq(wait_for(100, 0), 61);
}
END_TEST

START_TEST(a_burst_pays_for_all_waits_until_the_next_look_and_then_for_no_more_than_the_most)
{
    ck_assert(!min_rate_is_too_slow(&min_rate, &RULE, 0, now_us));
    n_bytes = UINT64_C(1) << 30;
    for (int i = 0; i < 1000; i++) { /* far more than the most, stop and go */
        min_rate_end_wait(&min_rate, now_us);
        min_rate_begin_wait(&min_rate, now_us);
        now_us += SECOND - 1;
    }
    ck_assert(!min_rate_is_too_slow(&min_rate, &RULE, n_bytes, now_us));
    ck_assert_int_eq(wait_for(100, 0), 61);
}
END_TEST

START_TEST(who_keeps_the_rate_is_not_too_slow_however_late_the_look_is)
{
    for (int i = 0; i < 3; i++) {
        now_us += 1000 * (uint64_t)SECOND; /* far more than the most */
        n_bytes += 1000 * 1000;
        ck_assert(!min_rate_is_too_slow(&min_rate, &RULE, n_bytes, now_us));
    }
    now_us += 1000 * (uint64_t)SECOND;
    n_bytes += 900 * 1000; /* and what was given in advance */
    ck_assert(min_rate_is_too_slow(&min_rate, &RULE, n_bytes, now_us));
}
END_TEST

START_TEST(a_look_is_due_when_there_was_none_or_the_last_is_so_long_ago)
{
    ck_assert(min_rate_is_due(&min_rate, SECOND, now_us));
    ck_assert(!min_rate_is_too_slow(&min_rate, &RULE, 0, now_us));
    ck_assert(!min_rate_is_due(&min_rate, SECOND, now_us));
    min_rate_end_wait(&min_rate, now_us + 1); /* waits do not move it */
    min_rate_begin_wait(&min_rate, now_us + 2);
    ck_assert(!min_rate_is_due(&min_rate, SECOND, now_us + SECOND - 1));
    ck_assert(min_rate_is_due(&min_rate, SECOND, now_us + SECOND));
}
END_TEST

START_TEST(only_the_time_in_which_he_is_waited_for_counts)
{
    ck_assert_int_eq(wait_for(9, 0), -1);
    min_rate_end_wait(&min_rate, now_us);
    min_rate_end_wait(&min_rate, now_us + SECOND);
    ck_assert_int_eq(wait_for(1000, 0), -1);
    min_rate_begin_wait(&min_rate, now_us);
    min_rate_begin_wait(&min_rate, now_us + SECOND);
    ck_assert_int_eq(wait_for(10, 0), 2);
}
END_TEST

START_TEST(waits_that_ended_between_two_looks_are_added_up)
{
    min_rate = (struct min_rate){0};
    for (uint64_t i = 0; i < 11; i++) {
        min_rate_begin_wait(&min_rate, START_US + 2 * i * SECOND);
        min_rate_end_wait(&min_rate, START_US + (2 * i + 1) * SECOND);
    }
    ck_assert(min_rate_is_too_slow(&min_rate, &RULE, 0, START_US + 30 * SECOND));
}
END_TEST

START_TEST(without_a_rate_nobody_is_too_slow)
{
    const struct min_rate_rule none = {.bytes_per_s = 0, .first_us = 1, .most_us = 1};
    ck_assert(!min_rate_is_too_slow(&min_rate, &none, 0, UINT64_MAX));
}
END_TEST

START_TEST(numbers_at_their_ends_do_not_overflow)
{
    const struct min_rate_rule fast = {
        .bytes_per_s = UINT64_C(1) << 40, .first_us = SECOND, .most_us = UINT64_C(1) << 60};
    const struct min_rate_rule slow = {
        .bytes_per_s = 1, .first_us = SECOND, .most_us = UINT64_C(1) << 60};
    ck_assert(!min_rate_is_too_slow(&min_rate, &fast, 0, START_US));
    ck_assert(!min_rate_is_too_slow(&min_rate, &fast, UINT64_MAX, START_US + SECOND));
    begin();
    ck_assert(!min_rate_is_too_slow(&min_rate, &slow, 0, START_US));
    ck_assert(!min_rate_is_too_slow(&min_rate, &slow, UINT64_MAX, START_US + 2 * SECOND));
    ck_assert(!min_rate_is_too_slow(&min_rate, &slow, 0,
                                    START_US + 2 * SECOND)); /* a count that went back */
}
END_TEST

START_TEST(all_waits_are_added_up_whatever_the_looks)
{
    ck_assert_uint_eq(min_rate_total_us(&min_rate, START_US + 2 * SECOND), 2 * SECOND);
    ck_assert(!min_rate_is_too_slow(&min_rate, &RULE, 0, START_US + 2 * SECOND));
    min_rate_end_wait(&min_rate, START_US + 3 * SECOND);
    ck_assert_uint_eq(min_rate_total_us(&min_rate, START_US + 9 * SECOND), 3 * SECOND);
    min_rate_begin_wait(&min_rate, START_US + 9 * SECOND);
    ck_assert_uint_eq(min_rate_total_us(&min_rate, START_US + 10 * SECOND), 4 * SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/pace");
    TCase *all = tcase_create("pace");

    tcase_add_checked_fixture(all, begin, NULL);
    tcase_add_test(all, who_moves_nothing_has_the_time_that_is_given_in_advance);
    tcase_add_test(all, who_keeps_the_rate_is_never_too_slow);
    tcase_add_test(all, who_trickles_gains_what_his_bytes_earn);
    tcase_add_test(all, a_burst_buys_no_more_time_than_the_most);
    tcase_add_test(
        all, a_burst_pays_for_all_waits_until_the_next_look_and_then_for_no_more_than_the_most);
    tcase_add_test(all, who_keeps_the_rate_is_not_too_slow_however_late_the_look_is);
    tcase_add_test(all, a_look_is_due_when_there_was_none_or_the_last_is_so_long_ago);
    tcase_add_test(all, only_the_time_in_which_he_is_waited_for_counts);
    tcase_add_test(all, waits_that_ended_between_two_looks_are_added_up);
    tcase_add_test(all, without_a_rate_nobody_is_too_slow);
    tcase_add_test(all, all_waits_are_added_up_whatever_the_looks);
    tcase_add_test(all, numbers_at_their_ends_do_not_overflow);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
