#include "http2/budget.h"

#include <check.h>
#include <stdlib.h>

enum { MS = 1000, S = 1000 * MS };

static struct budget budget;

static void setup(void)
{
    budget_init(&budget, false, 0);
}

static void spend(unsigned units)
{
    budget_spend(&budget, HTTP2_ABUSE_FIELD, units);
}

START_TEST(three_quarters_and_all_are_states)
{
    spend(149);
    ck_assert_int_eq(budget_state(&budget), BUDGET_FINE);
    spend(1);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    spend(49);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    spend(1);
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_FIELD], 200);
}
END_TEST

START_TEST(where_clients_share_it_requests_never_spend_all)
{
    budget_init(&budget, true, 0);
    budget_spend(&budget, HTTP2_ABUSE_RESET, 300);
    budget_spend(&budget, HTTP2_ABUSE_FIELD, 300);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    budget_spend(&budget, HTTP2_ABUSE_PING, 199);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    budget_on_end(&budget, true);
    budget_spend(&budget, HTTP2_ABUSE_EMPTY, 1);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    budget_spend(&budget, HTTP2_ABUSE_REFUSED, 1);
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
    budget_refill(&budget, 50 * MS);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
}
END_TEST

START_TEST(twenty_units_a_second_come_back)
{
    spend(200);
    budget_refill(&budget, 49 * MS);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    budget_refill(&budget, 2500 * MS);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    budget_refill(&budget, 2501 * MS);
    ck_assert_int_eq(budget_state(&budget), BUDGET_FINE);
    budget_refill(&budget, 1000 * S); /* never more than there were */
    spend(200);
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
}
END_TEST

START_TEST(a_clock_that_goes_back_gives_nothing_back)
{
    budget_refill(&budget, 10 * S);
    spend(200);
    budget_refill(&budget, 5 * S);
    budget_refill(&budget, 10 * S);
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
}
END_TEST

/* Units that @n resets of this age cost. */
static uint64_t resets(unsigned n, uint64_t age_us)
{
    const uint64_t before = budget.counts[HTTP2_ABUSE_RESET];
    for (unsigned i = 0; i < n; i++) {
        budget_on_early_reset(&budget, age_us);
    }
    return budget.counts[HTTP2_ABUSE_RESET] - before;
}

START_TEST(a_reset_within_100_ms_costs_one)
{
    ck_assert_uint_eq(resets(10, 0), 10);
    ck_assert_uint_eq(resets(10, 100 * MS), 10);
    ck_assert_uint_eq(resets(10, 100 * MS + 1), 0);
}
END_TEST

START_TEST(later_resets_cost_while_most_streams_end_so)
{
    ck_assert_uint_eq(resets(100, 1 * S), 0);
    ck_assert_uint_eq(resets(50, 1 * S), 50);
    for (unsigned i = 0; i < 99; i++) {
        budget_on_end(&budget, false);
    }
    ck_assert_uint_eq(resets(1, 1 * S), 1); /* 102 of the last 200 */
    for (unsigned i = 0; i < 2; i++) {
        budget_on_end(&budget, false);
    }
    ck_assert_uint_eq(resets(1, 1 * S), 0); /* 100 of them */
}
END_TEST

START_TEST(a_stream_that_ends_well_gives_one_back)
{
    spend(150);
    budget_on_end(&budget, false);
    ck_assert_int_eq(budget_state(&budget), BUDGET_LOW);
    budget_on_end(&budget, true);
    ck_assert_int_eq(budget_state(&budget), BUDGET_FINE);
    for (unsigned i = 0; i < 300; i++) {
        budget_on_end(&budget, true); /* but no more than all */
    }
    spend(200);
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
}
END_TEST

START_TEST(ten_settings_a_second_are_free)
{
    for (unsigned i = 0; i < 15; i++) {
        budget_on_settings(&budget);
    }
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_SETTINGS], 5);
    budget_refill(&budget, 200 * MS);
    for (unsigned i = 0; i < 3; i++) {
        budget_on_settings(&budget);
    }
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_SETTINGS], 6);
}
END_TEST

START_TEST(four_priorities_a_stream_are_free_and_then_ten_a_second)
{
    for (unsigned i = 0; i < 5; i++) {
        budget_on_stream(&budget);
    }
    for (unsigned i = 0; i < 4 * 5 + 10; i++) {
        budget_on_priority(&budget);
    }
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_SETTINGS], 0);
    budget_on_priority(&budget);
    budget_on_settings(&budget);
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_SETTINGS], 2);
}
END_TEST

/* Units that @n updates of @increment cost. */
static uint64_t updates(unsigned n, uint32_t increment)
{
    const uint64_t before = budget.counts[HTTP2_ABUSE_WINDOW];
    for (unsigned i = 0; i < n; i++) {
        budget_on_window_update(&budget, increment);
    }
    return budget.counts[HTTP2_ABUSE_WINDOW] - before;
}

START_TEST(window_updates_are_free_by_streams_and_by_what_was_sent)
{
    ck_assert_uint_eq(updates(10, 1), 0);
    ck_assert_uint_eq(updates(3, 255), 3);
    ck_assert_uint_eq(updates(1000, 256), 0);
    budget_on_stream(&budget);
    ck_assert_uint_eq(updates(11, 1), 1);
    budget_on_data_sent(&budget, 1);
    ck_assert_uint_eq(updates(3, 1), 1);
}
END_TEST

static uint64_t pings(unsigned n)
{
    const uint64_t before = budget.counts[HTTP2_ABUSE_PING];
    for (unsigned i = 0; i < n; i++) {
        budget_on_ping(&budget);
    }
    return budget.counts[HTTP2_ABUSE_PING] - before;
}

START_TEST(pings_are_free_by_bytes_that_moved)
{
    ck_assert_uint_eq(pings(12), 2);
    budget_on_data(&budget, 16 * 1024);
    budget_on_data_sent(&budget, 16 * 1024 - 1);
    ck_assert_uint_eq(pings(2), 1);
    budget_on_data(&budget, 1);
    ck_assert_uint_eq(pings(2), 1);
    budget_on_data(&budget, UINT64_C(1) << 30);
    ck_assert_uint_eq(pings(65536), 0);
    ck_assert_uint_eq(pings(1), 1);
}
END_TEST

/* Good clients never meet it. */
START_TEST(three_hundred_deadlines_that_expire_at_once_cost_nothing)
{
    for (unsigned i = 0; i < 300; i++) {
        budget_on_end(&budget, false); /* resets at grpc-timeout are not early */
    }
    ck_assert_uint_eq(budget.spent_us, 0);
}
END_TEST

static void repeat(uint64_t bytes, uint64_t path_bytes)
{
    budget_on_repeated(&budget, budget_repeated(bytes, path_bytes));
}

/* A client with long cookies is denied a hundred times in a row, and then ten times a second. */
START_TEST(repeated_heads_cost_by_their_bytes_beyond_what_clients_have)
{
    for (unsigned i = 0; i < 10000; i++) {
        repeat(4096, 512);
    }
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_REPEATED], 0);
    for (unsigned i = 0; i < 100; i++) {
        repeat(12 * 1024, 512);
    }
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_REPEATED], 100);
    ck_assert_int_eq(budget_state(&budget), BUDGET_FINE);
    for (unsigned i = 0; i < 1000; i++) {
        budget_refill(&budget, i * 100 * (uint64_t)MS);
        repeat(12 * 1024, 512);
        ck_assert_int_eq(budget_state(&budget), BUDGET_FINE);
    }
    for (unsigned i = 0; i < 200; i++) {
        repeat(12 * 1024, 512);
    }
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
    repeat(UINT32_MAX, UINT32_MAX);
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
}
END_TEST

START_TEST(repeated_paths_cost_more_than_other_fields)
{
    for (unsigned i = 0; i < 40; i++) {
        repeat(4000, 512 + 1024);
    }
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_REPEATED], 40);
    repeat(512 + 1024, 64 * 1024); /* the path was sent, but for these */
    ck_assert_uint_eq(budget.counts[HTTP2_ABUSE_REPEATED], 41);
    for (unsigned i = 0; i < 53; i++) {
        repeat(3584, 3584);
    }
    ck_assert_int_eq(budget_state(&budget), BUDGET_SPENT);
}
END_TEST

START_TEST(twenty_pages_left_in_ten_seconds_are_no_abuse)
{
    /* 12 pictures under way of a page with 60 parts. */
    for (unsigned page = 0; page < 20; page++) {
        budget_refill(&budget, (page + 1) * UINT64_C(500) * MS);
        for (unsigned i = 0; i < 48; i++) {
            budget_on_end(&budget, true);
        }
        ck_assert_uint_le(resets(12, 80 * MS), 12);
        ck_assert_int_eq(budget_state(&budget), BUDGET_FINE);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/budget");
    TCase *tcase = tcase_create("budget");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, three_quarters_and_all_are_states);
    tcase_add_test(tcase, where_clients_share_it_requests_never_spend_all);
    tcase_add_test(tcase, twenty_units_a_second_come_back);
    tcase_add_test(tcase, a_clock_that_goes_back_gives_nothing_back);
    tcase_add_test(tcase, a_reset_within_100_ms_costs_one);
    tcase_add_test(tcase, later_resets_cost_while_most_streams_end_so);
    tcase_add_test(tcase, a_stream_that_ends_well_gives_one_back);
    tcase_add_test(tcase, ten_settings_a_second_are_free);
    tcase_add_test(tcase, four_priorities_a_stream_are_free_and_then_ten_a_second);
    tcase_add_test(tcase, window_updates_are_free_by_streams_and_by_what_was_sent);
    tcase_add_test(tcase, pings_are_free_by_bytes_that_moved);
    tcase_add_test(tcase, three_hundred_deadlines_that_expire_at_once_cost_nothing);
    tcase_add_test(tcase, repeated_heads_cost_by_their_bytes_beyond_what_clients_have);
    tcase_add_test(tcase, repeated_paths_cost_more_than_other_fields);
    tcase_add_test(tcase, twenty_pages_left_in_ten_seconds_are_no_abuse);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
