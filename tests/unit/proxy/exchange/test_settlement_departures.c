/* What a request is charged that ended before a server was sent any of it, with a place in the
 * queue of a limit with max_wait. */

#include "settlement_stage.h"

/* The limits are charged 401 alone; the second has a queue. */
static void set_up_queue(void)
{
    set_up();
    answer_set_add(&rules[0].charge_on, 401, 401);
    limits[1].params.max_wait = 1000;
    admission.charges[1].key = SPAN("{global:0=}");
}

#define OWN_KEY SPAN("{client.ip:1=a}")
#define SHARED_KEY SPAN("{global:0=}")

static const struct outcome UNSENT[] = {
    {.end = ANSWER_CLIENT_LEFT, .is_unsent = true},
    {.end = ANSWER_EVICTED, .is_unsent = true},
    {.status = 503, .end = ANSWER_SERVER_FAILED, .is_unsent = true}, /* the upstream is full */
};

START_TEST(a_limit_of_the_client_counts_a_place_in_the_queue)
{
    for (size_t i = 0; i < ARRAY_LEN(UNSENT); i++) {
        set_up_queue();
        admission.charges[0].key = OWN_KEY;
        ck_assert_uint_eq(settlement_returned(&admission, &UNSENT[i]), 0);
        settlement_make(&admission, &UNSENT[i], &store);
        ck_assert_uint_eq(n_calls, 0);
    }
}
END_TEST

START_TEST(a_limit_that_clients_share_does_not)
{
    for (size_t i = 0; i < ARRAY_LEN(UNSENT); i++) {
        set_up_queue();
        admission.charges[0].key = SHARED_KEY;
        ck_assert_uint_eq(settlement_returned(&admission, &UNSENT[i]), 1);
        settlement_make(&admission, &UNSENT[i], &store);
        ck_assert_uint_eq(n_reported, 1);
        ck_assert_ptr_eq(reported[0].limit, &limits[0]);
        ck_assert_int_eq(reported[0].delta, -10);
    }
}
END_TEST

START_TEST(without_a_queue_of_all_that_is_enforced_it_gives_back)
{
    for (unsigned without = 0; without < 3; without++) {
        for (size_t i = 0; i < ARRAY_LEN(UNSENT); i++) {
            set_up_queue();
            admission.charges[0].key = OWN_KEY;
            limits[1].params.max_wait = without == 0 ? 0 : 1000;
            limits[1].shadow = without == 1;
            admission.charges[1].key = without == 2 ? SPAN("{client.ip:1=a}") : SPAN("{global:0=}");
            settlement_make(&admission, &UNSENT[i], &store);
            ck_assert_uint_eq(n_reported, 1);
            ck_assert_int_eq(reported[0].delta, -10);
        }
    }
}
END_TEST

START_TEST(what_is_refunded_behind_the_departure_is_given_back_all_the_same)
{
    admission.charges[0].key = OWN_KEY;
    answer_set_add(&rules[0].refund_on, 503, 503);
    settlement_make(&admission, &UNSENT[2], &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, -10);
}
END_TEST

/* Each answer is refunded. */
static void refund_all(struct limit_rule *rule)
{
    answer_set_add(&rule->refund_on, 100, 599);
    rule->refund_on.client_left = true;
    rule->refund_on.server_failed = true;
}

static const struct outcome BEFORE_DEPARTURE[] = {
    {.status = 503, .end = ANSWER_SERVER_FAILED, .is_unsent = true, .is_before_departure = true},
    {.status = 400, .end = ANSWER_CLIENT_LEFT, .is_unsent = true, .is_before_departure = true},
    {.end = ANSWER_CLIENT_LEFT, .is_unsent = true, .is_before_departure = true},
    {.end = ANSWER_EVICTED, .is_unsent = true, .is_before_departure = true},
};

START_TEST(nothing_is_refunded_before_the_departure)
{
    admission.charges[0].key = OWN_KEY;
    refund_all(&rules[0]);
    ck_assert_uint_eq(settlement_returned(&admission, &BEFORE_DEPARTURE[_i]), 0);
    settlement_make(&admission, &BEFORE_DEPARTURE[_i], &store);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

START_TEST(of_a_limit_that_clients_share_it_is_refunded)
{
    admission.charges[0].key = SHARED_KEY;
    refund_all(&rules[0]);
    settlement_make(&admission, &BEFORE_DEPARTURE[_i], &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_ptr_eq(reported[0].limit, &limits[0]);
    ck_assert_int_eq(reported[0].delta, -10);
}
END_TEST

START_TEST(places_by_several_values_count_as_shared)
{
    admission.charges[0].key = OWN_KEY;
    refund_all(&rules[0]);
    admission.charges[1].key = SPAN("{cookie.sid:1=a}"); /* of another client, perhaps */
    admission.has_several = true;
    settlement_make(&admission, &BEFORE_DEPARTURE[1], &store);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/settlement_departures");
    TCase *departures = tcase_create("departures");
    tcase_add_checked_fixture(departures, set_up_queue, NULL);
    tcase_add_test(departures, a_limit_of_the_client_counts_a_place_in_the_queue);
    tcase_add_test(departures, a_limit_that_clients_share_does_not);
    tcase_add_test(departures, without_a_queue_of_all_that_is_enforced_it_gives_back);
    tcase_add_test(departures, what_is_refunded_behind_the_departure_is_given_back_all_the_same);
    tcase_add_loop_test(departures, nothing_is_refunded_before_the_departure, 0,
                        ARRAY_LEN(BEFORE_DEPARTURE));
    tcase_add_loop_test(departures, of_a_limit_that_clients_share_it_is_refunded, 0,
                        ARRAY_LEN(BEFORE_DEPARTURE));
    tcase_add_test(departures, places_by_several_values_count_as_shared);
    suite_add_tcase(suite, departures);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
