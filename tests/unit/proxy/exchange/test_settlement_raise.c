/* Costs that responses report beyond the estimate: charged at once, given back by how it ends. */

#include "settlement_stage.h"

static struct outcome outcome_of(uint16_t status)
{
    return (struct outcome){
        .status = status, .is_cost_reported = true, .reported_cost = 25, .reported_after_us = 1000};
}

static void raise_to(uint32_t units)
{
    const struct outcome whole = {.status = 200, .is_cost_reported = true, .reported_cost = units};
    settlement_raise(&admission, &whole, &store);
}

START_TEST(what_the_response_reports_beyond_the_estimate_is_charged_at_once)
{
    const struct outcome outcome = outcome_of(200);
    raise_to(25);
    ck_assert_uint_eq(n_calls, 1);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[0].kind, SETTLE_COST);
    ck_assert_int_eq(reported[0].delta, 15);
    ck_assert_uint_eq(reported[0].charged_at_us, 77);
    ck_assert_int_eq(reported[1].delta, 15);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_calls, 1);
}
END_TEST

START_TEST(what_it_reports_below_the_estimate_is_given_back_at_the_end)
{
    const struct outcome outcome = {.status = 200, .is_cost_reported = true, .reported_cost = 4};
    raise_to(4);
    ck_assert_uint_eq(n_calls, 0);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[0].delta, -6);
}
END_TEST

START_TEST(charges_that_the_response_does_not_decide_are_not_raised)
{
    admission.own_costs = 1;
    admission.charges[1].charged = false;
    raise_to(25);
    ck_assert_uint_eq(n_calls, 0);
    set_up();
    hold_slots();
    raise_to(25);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

START_TEST(what_was_raised_is_given_back_whole)
{
    const struct outcome outcome = outcome_of(404);
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    admission.charges[0].overflowed = true;
    raise_to(25);
    n_reported = 0;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[0].delta, -15);
    ck_assert_uint_eq(reported[0].charged_at_us, 1077); /* when it was taken */
    ck_assert_int_eq(reported[1].delta, -10);
    ck_assert_uint_eq(reported[1].charged_at_us, 77);
    for (size_t i = 0; i < n_reported; i++) {
        ck_assert_ptr_eq(reported[i].limit, &limits[0]);
        ck_assert(reported[i].overflowed);
    }
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 2);
}
END_TEST

/* With the link, after it could be sent. */
START_TEST(what_was_raised_and_may_have_been_lost_is_not_given_back)
{
    const struct outcome outcome = outcome_of(404);
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    raise_to(25);
    n_losses++;
    n_reported = 0;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, -10);
    ck_assert_uint_eq(reported[0].charged_at_us, 77);
}
END_TEST

START_TEST(what_will_be_given_back_is_not_raised)
{
    struct outcome outcome = outcome_of(404);
    rules[0].refund_on.is_said = true;
    answer_set_add(&rules[0].refund_on, 400, 499);
    settlement_raise(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_ptr_eq(reported[0].limit, admission.charges[1].limit);
    ck_assert_int_eq(reported[0].delta, 15);
    n_reported = 0;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, -10);
    ck_assert_uint_eq(reported[0].charged_at_us, 77);
}
END_TEST

START_TEST(what_would_have_been_given_back_is_charged_if_the_client_leaves)
{
    struct outcome outcome = outcome_of(404);
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    settlement_raise(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    n_reported = 0;
    outcome.end = ANSWER_CLIENT_LEFT;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, 15);
}
END_TEST

START_TEST(what_was_raised_stays_where_a_part_of_it_may_have_been_forgiven)
{
    struct outcome outcome = outcome_of(200);
    limits[0].algorithm = &sliding_window_algorithm;
    limits[0].params.buckets = 1;
    limits[0].owed = UINT64_MAX;
    rules[0].refund_on = (struct answer_set){.is_said = true, .client_left = true};
    raise_to(25);
    n_reported = 0;
    outcome.end = ANSWER_CLIENT_LEFT;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, -10);
    ck_assert_uint_eq(reported[0].charged_at_us, 77);
}
END_TEST

START_TEST(what_was_raised_may_prove_to_cost_more)
{
    struct outcome outcome = outcome_of(200);
    outcome.reported_cost = 60;
    raise_to(25);
    n_reported = 0;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[0].delta, 35);
}
END_TEST

START_TEST(what_cannot_be_sent_at_once_is_settled_at_the_end_alone)
{
    const struct outcome counted = outcome_of(200);
    const struct outcome refunded = outcome_of(500);
    rules[0].refund_on.is_said = true;
    answer_set_add(&rules[0].refund_on, 500, 500);
    source_that_is_down = DECISION_REDIS;
    raise_to(25);
    ck_assert_uint_eq(n_calls, 0);
    struct admission same = admission;
    same.decision.charges = same.charges;
    settlement_make(&same, &counted, &store);
    ck_assert_int_eq(reported[0].delta, 15);
    settlement_make(&admission, &refunded, &store);
    ck_assert_int_eq(reported[2].delta, -10);
    ck_assert_int_eq(reported[3].delta, 15);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/settlement_raise");
    TCase *raise = tcase_create("raise");
    tcase_add_checked_fixture(raise, set_up, NULL);
    tcase_add_test(raise, what_the_response_reports_beyond_the_estimate_is_charged_at_once);
    tcase_add_test(raise, what_it_reports_below_the_estimate_is_given_back_at_the_end);
    tcase_add_test(raise, charges_that_the_response_does_not_decide_are_not_raised);
    tcase_add_test(raise, what_was_raised_is_given_back_whole);
    tcase_add_test(raise, what_was_raised_and_may_have_been_lost_is_not_given_back);
    tcase_add_test(raise, what_will_be_given_back_is_not_raised);
    tcase_add_test(raise, what_would_have_been_given_back_is_charged_if_the_client_leaves);
    tcase_add_test(raise, what_was_raised_stays_where_a_part_of_it_may_have_been_forgiven);
    tcase_add_test(raise, what_was_raised_may_prove_to_cost_more);
    tcase_add_test(raise, what_cannot_be_sent_at_once_is_settled_at_the_end_alone);
    suite_add_tcase(suite, raise);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
