#include "proxy/upstream/server_health.h"

#include <check.h>
#include <stdlib.h>

enum { S = 1000 * 1000, PATIENCE = 30 * S };

static struct upstream_spec spec;
static struct server_health health;
static uint64_t now;

static void set_up(void)
{
    spec = (struct upstream_spec){
        .eject = {.failures = 3, .for_us = 5 * S, .max_us = 60 * S},
        .health = {.fall = 2, .rise = 2},
    };
    now = 100 * S;
    ck_assert_int_eq(server_health_init(&health), STATUS_OK);
}

static void tear_down(void)
{
    server_health_close(&health);
}

static enum server_change succeed(void)
{
    return server_health_note_success(&health, &spec, now, now);
}

static enum server_change falter(void)
{
    return server_health_note_failure(&health, &spec, now, SERVER_ANY_CLIENT, false, now);
}

static enum server_change falter_trial(void)
{
    return server_health_note_failure(&health, &spec, now, SERVER_ANY_CLIENT, true, now);
}

static enum server_change check(bool passed)
{
    return server_health_note_check(&health, &spec, passed, now);
}

static enum server_state state(void)
{
    return server_health_state(&health, now);
}

static void eject(void)
{
    while (state() == SERVER_UP) {
        (void)falter();
    }
}

/* Wait until it is due; how long that took, in seconds. */
static uint64_t wait_until_due(void)
{
    const uint64_t start = now;
    ck_assert_int_eq(state(), SERVER_DOWN);
    while (state() == SERVER_DOWN) {
        now += S;
    }
    ck_assert_int_eq(state(), SERVER_PROBE_DUE);
    return (now - start) / S;
}

/* --- ejection --- */

START_TEST(a_server_begins_in_and_without_a_mark)
{
    ck_assert_int_eq(state(), SERVER_UP);
    ck_assert_uint_eq(server_health_marks(&health), 0);
    ck_assert_uint_eq(server_health_weight(&health, &spec, now), SERVER_WHOLE_WEIGHT);
}
END_TEST

START_TEST(failures_in_a_row_eject_and_one_is_told)
{
    ck_assert_int_eq(falter(), SERVER_SAME);
    ck_assert_int_eq(falter(), SERVER_SAME);
    ck_assert_int_eq(state(), SERVER_UP);
    ck_assert_int_eq(falter(), SERVER_WENT_DOWN);
    ck_assert_int_eq(state(), SERVER_DOWN);
    ck_assert_int_eq(falter(), SERVER_SAME);
}
END_TEST

static enum server_change falter_for(uint32_t client)
{
    return server_health_note_failure(&health, &spec, now, client, false, now);
}

START_TEST(failures_of_one_client_alone_do_not_eject)
{
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(falter_for(1), SERVER_SAME);
    }
    now += SERVER_ONE_CLIENT_US - 1;
    ck_assert_int_eq(falter_for(1), SERVER_SAME);
    ck_assert_int_eq(falter_for(2), SERVER_WENT_DOWN);
}
END_TEST

START_TEST(failures_of_two_clients_eject_once_they_are_enough)
{
    ck_assert_int_eq(falter_for(1), SERVER_SAME);
    ck_assert_int_eq(falter_for(2), SERVER_SAME);
    ck_assert_int_eq(falter_for(1), SERVER_WENT_DOWN);
}
END_TEST

START_TEST(a_server_that_cannot_be_reached_is_down_for_any_client)
{
    ck_assert_int_eq(falter_for(1), SERVER_SAME);
    ck_assert_int_eq(falter_for(1), SERVER_SAME);
    ck_assert_int_eq(falter(), SERVER_WENT_DOWN);
}
END_TEST

START_TEST(failures_of_the_only_client_eject_after_a_while_without_a_success)
{
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(falter_for(1), SERVER_SAME);
    }
    (void)succeed();
    now += SERVER_ONE_CLIENT_US;
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(falter_for(1), SERVER_SAME);
    }
    now += SERVER_ONE_CLIENT_US;
    ck_assert_int_eq(falter_for(1), SERVER_WENT_DOWN);
}
END_TEST

START_TEST(one_failure_ejects_where_the_policy_says_so)
{
    spec.eject.failures = 1;
    ck_assert_int_eq(falter_for(1), SERVER_WENT_DOWN);
}
END_TEST

START_TEST(timeouts_of_requests_that_began_together_count_once)
{
    ck_assert(server_health_counts_timeout(&health, now));
    ck_assert(!server_health_counts_timeout(&health, now));
    ck_assert(!server_health_counts_timeout(&health, now - SERVER_TIMEOUTS_APART_US + 1));
    ck_assert(!server_health_counts_timeout(&health, now + SERVER_TIMEOUTS_APART_US - 1));
    ck_assert(server_health_counts_timeout(&health, now + SERVER_TIMEOUTS_APART_US));
    ck_assert(!server_health_counts_timeout(&health, now + 2 * SERVER_TIMEOUTS_APART_US - 1));
    ck_assert(server_health_counts_timeout(&health, now + 2 * SERVER_TIMEOUTS_APART_US));
}
END_TEST

START_TEST(a_success_between_them_starts_the_count_afresh)
{
    for (unsigned i = 0; i < 10; i++) {
        (void)falter();
        (void)falter();
        ck_assert_int_eq(succeed(), SERVER_SAME);
    }
    ck_assert_int_eq(state(), SERVER_UP);
    ck_assert_uint_eq(server_health_marks(&health), 0);
}
END_TEST

START_TEST(one_request_tries_it_when_its_time_is_over)
{
    eject();
    ck_assert_uint_eq(wait_until_due(), 5);
    ck_assert(server_health_claim_trial(&health, now, PATIENCE));
    ck_assert_int_eq(state(), SERVER_DOWN);
    ck_assert(!server_health_claim_trial(&health, now, PATIENCE));
    ck_assert_int_eq(succeed(), SERVER_RECOVERED);
    ck_assert_int_eq(state(), SERVER_UP);
}
END_TEST

START_TEST(each_trial_that_fails_doubles_the_time_up_to_the_greatest)
{
    static const uint64_t SECONDS[] = {5, 10, 20, 40, 60, 60};
    eject();
    for (size_t i = 0; i < 6; i++) {
        ck_assert_uint_eq(wait_until_due(), SECONDS[i]);
        ck_assert(server_health_claim_trial(&health, now, PATIENCE));
        ck_assert_int_eq(falter_trial(), SERVER_SAME);
    }
}
END_TEST

START_TEST(a_trial_of_which_nothing_comes_is_given_to_the_next)
{
    eject();
    (void)wait_until_due();
    ck_assert(server_health_claim_trial(&health, now, PATIENCE));
    server_health_note_nothing(&health, now);
    ck_assert(server_health_claim_trial(&health, now, PATIENCE));
    now += PATIENCE; /* and one that is never told of is not waited for any longer */
    ck_assert(server_health_claim_trial(&health, now, PATIENCE));
}
END_TEST

START_TEST(what_began_before_it_went_out_says_nothing)
{
    const uint64_t before = now;
    now += S;
    eject();
    ck_assert_int_eq(server_health_note_success(&health, &spec, before, now), SERVER_SAME);
    ck_assert_int_eq(state(), SERVER_DOWN);
    (void)wait_until_due();
    ck_assert_int_eq(succeed(), SERVER_RECOVERED);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_int_eq(
            server_health_note_failure(&health, &spec, before, SERVER_ANY_CLIENT, false, now),
            SERVER_SAME);
    }
    ck_assert_int_eq(state(), SERVER_UP);
}
END_TEST

START_TEST(failures_while_it_is_out_do_not_lengthen_its_time)
{
    eject();
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(falter(), SERVER_SAME);
    }
    ck_assert_uint_eq(wait_until_due(), 5);
}
END_TEST

START_TEST(a_request_that_an_ejected_server_serves_brings_it_in)
{
    eject(); /* when all are out, all are asked */
    now += S;
    ck_assert_int_eq(succeed(), SERVER_RECOVERED);
    ck_assert_int_eq(state(), SERVER_UP);
}
END_TEST

START_TEST(ejections_are_forgotten_after_as_long_in_as_it_was_out)
{
    eject();
    (void)wait_until_due();
    (void)falter_trial();
    (void)wait_until_due();
    ck_assert_int_eq(succeed(), SERVER_RECOVERED);
    now += 9 * S;
    (void)succeed();
    ck_assert_uint_eq(server_health_marks(&health), SERVER_REMEMBERED);
    now += S;
    (void)succeed();
    ck_assert_uint_eq(server_health_marks(&health), 0);
    eject();
    ck_assert_uint_eq(wait_until_due(), 5);
}
END_TEST

START_TEST(ejections_soon_after_one_another_grow)
{
    eject();
    (void)wait_until_due();
    ck_assert_int_eq(succeed(), SERVER_RECOVERED);
    eject();
    ck_assert_uint_eq(wait_until_due(), 10);
}
END_TEST

START_TEST(off_is_never)
{
    spec.eject.failures = 0;
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(falter(), SERVER_SAME);
    }
    ck_assert_uint_eq(server_health_marks(&health), 0);
}
END_TEST

START_TEST(the_greatest_numbers_do_not_overflow)
{
    spec.eject = (struct eject_spec){
        .failures = 1, .for_us = UINT64_C(86400) * S, .max_us = UINT64_C(86400) * S};
    eject();
    for (unsigned i = 0; i < 100; i++) {
        now += spec.eject.max_us;
        ck_assert_int_eq(state(), SERVER_PROBE_DUE);
        (void)falter_trial();
        ck_assert_int_eq(state(), SERVER_DOWN);
    }
}
END_TEST

/* --- checks --- */

START_TEST(checks_put_it_out_and_in)
{
    ck_assert_int_eq(check(false), SERVER_SAME);
    ck_assert_int_eq(check(true), SERVER_SAME);
    ck_assert_int_eq(check(false), SERVER_SAME);
    ck_assert_int_eq(check(false), SERVER_WENT_DOWN);
    ck_assert_int_eq(check(false), SERVER_SAME);
    now += 1000 * UINT64_C(1000000);
    ck_assert_int_eq(state(), SERVER_DOWN); /* however long */
    ck_assert_int_eq(check(true), SERVER_SAME);
    ck_assert_int_eq(check(false), SERVER_SAME);
    ck_assert_int_eq(check(true), SERVER_SAME);
    ck_assert_int_eq(check(true), SERVER_RECOVERED);
    ck_assert_int_eq(state(), SERVER_UP);
}
END_TEST

START_TEST(a_request_that_is_served_does_not_outweigh_checks)
{
    (void)check(false);
    (void)check(false);
    ck_assert_int_eq(succeed(), SERVER_SAME);
    ck_assert_int_eq(state(), SERVER_DOWN);
}
END_TEST

START_TEST(an_ejected_server_that_passes_checks_is_tried_soon)
{
    (void)check(true);
    (void)check(true);
    eject();
    ck_assert_int_eq(check(true), SERVER_SAME);
    ck_assert_int_eq(state(), SERVER_DOWN);
    ck_assert_int_eq(check(true), SERVER_SAME);
    ck_assert_int_eq(state(), SERVER_PROBE_DUE);
    (void)falter_trial();
    ck_assert_int_eq(state(), SERVER_DOWN);
}
END_TEST

START_TEST(a_server_that_is_out_for_both_is_told_out_once_and_in_once)
{
    ck_assert_int_eq(check(false), SERVER_SAME);
    eject();
    ck_assert_int_eq(check(false), SERVER_SAME);
    (void)check(true);
    ck_assert_int_eq(check(true), SERVER_RECOVERED);
    ck_assert_int_eq(state(), SERVER_UP);

    (void)check(false);
    ck_assert_int_eq(check(false), SERVER_WENT_DOWN);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(falter(), SERVER_SAME);
    }
    now += 10 * S;
    ck_assert_int_eq(state(), SERVER_DOWN);
    ck_assert_int_eq(succeed(), SERVER_SAME); /* the ejection's end; checks still fail */
    (void)check(true);
    ck_assert_int_eq(check(true), SERVER_RECOVERED);
}
END_TEST

/* --- slow start --- */

START_TEST(the_weight_of_one_that_came_back_grows)
{
    spec.slow_start_us = 10 * S;
    eject();
    (void)wait_until_due();
    (void)succeed();
    ck_assert_uint_eq(server_health_weight(&health, &spec, now), SERVER_WHOLE_WEIGHT / 100);
    ck_assert_uint_eq(server_health_weight(&health, &spec, now + 5 * S), SERVER_WHOLE_WEIGHT / 2);
    ck_assert_uint_eq(server_health_weight(&health, &spec, now - S), SERVER_WHOLE_WEIGHT / 100);
    ck_assert_uint_eq(server_health_weight(&health, &spec, now + 10 * S), SERVER_WHOLE_WEIGHT);
    ck_assert_uint_eq(server_health_marks(&health) & SERVER_WARMING, 0);
}
END_TEST

START_TEST(without_slow_start_it_is_whole_at_once)
{
    (void)check(false);
    (void)check(false);
    (void)check(true);
    (void)check(true);
    ck_assert_uint_eq(server_health_weight(&health, &spec, now), SERVER_WHOLE_WEIGHT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/server_health");
    TCase *ejection = tcase_create("ejection");
    TCase *checks = tcase_create("checks");

    tcase_add_checked_fixture(ejection, set_up, tear_down);
    tcase_add_test(ejection, a_server_begins_in_and_without_a_mark);
    tcase_add_test(ejection, failures_in_a_row_eject_and_one_is_told);
    tcase_add_test(ejection, failures_of_one_client_alone_do_not_eject);
    tcase_add_test(ejection, failures_of_two_clients_eject_once_they_are_enough);
    tcase_add_test(ejection, a_server_that_cannot_be_reached_is_down_for_any_client);
    tcase_add_test(ejection, failures_of_the_only_client_eject_after_a_while_without_a_success);
    tcase_add_test(ejection, one_failure_ejects_where_the_policy_says_so);
    tcase_add_test(ejection, timeouts_of_requests_that_began_together_count_once);
    tcase_add_test(ejection, a_success_between_them_starts_the_count_afresh);
    tcase_add_test(ejection, one_request_tries_it_when_its_time_is_over);
    tcase_add_test(ejection, each_trial_that_fails_doubles_the_time_up_to_the_greatest);
    tcase_add_test(ejection, a_trial_of_which_nothing_comes_is_given_to_the_next);
    tcase_add_test(ejection, what_began_before_it_went_out_says_nothing);
    tcase_add_test(ejection, failures_while_it_is_out_do_not_lengthen_its_time);
    tcase_add_test(ejection, a_request_that_an_ejected_server_serves_brings_it_in);
    tcase_add_test(ejection, ejections_are_forgotten_after_as_long_in_as_it_was_out);
    tcase_add_test(ejection, ejections_soon_after_one_another_grow);
    tcase_add_test(ejection, off_is_never);
    tcase_add_test(ejection, the_greatest_numbers_do_not_overflow);
    suite_add_tcase(suite, ejection);
    tcase_add_checked_fixture(checks, set_up, tear_down);
    tcase_add_test(checks, checks_put_it_out_and_in);
    tcase_add_test(checks, a_request_that_is_served_does_not_outweigh_checks);
    tcase_add_test(checks, an_ejected_server_that_passes_checks_is_tried_soon);
    tcase_add_test(checks, a_server_that_is_out_for_both_is_told_out_once_and_in_once);
    tcase_add_test(checks, the_weight_of_one_that_came_back_grows);
    tcase_add_test(checks, without_slow_start_it_is_whole_at_once);
    suite_add_tcase(suite, checks);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
