#include "proxy/upstream/upstream_liveness.h"

#include <check.h>
#include <stdlib.h>

enum { BEGUN_US = 1000 * 1000 * 1000, LATER_US = UPSTREAM_UNREAD_US };

static struct upstream_liveness liveness;

static void begin(void)
{
    upstream_liveness_init(&liveness);
}

static enum upstream_liveness_state state_after(uint64_t time_us)
{
    return upstream_liveness_state(&liveness, BEGUN_US + time_us);
}

START_TEST(a_server_that_was_sent_nothing_has_nothing_to_read)
{
    ck_assert_int_eq(state_after(100 * LATER_US), LIVENESS_GOOD);
}
END_TEST

START_TEST(a_server_that_has_answered_is_not_asked)
{
    upstream_liveness_on_sent(&liveness, BEGUN_US);
    upstream_liveness_on_answer(&liveness, BEGUN_US);
    ck_assert_int_eq(state_after(100 * LATER_US), LIVENESS_GOOD);
}
END_TEST

START_TEST(a_server_that_is_not_seen_to_read_is_asked_once_and_then_avoided)
{
    upstream_liveness_on_sent(&liveness, BEGUN_US);
    ck_assert_int_eq(state_after(LATER_US - 1), LIVENESS_GOOD);
    ck_assert_int_eq(state_after(LATER_US), LIVENESS_TO_ASK);
    upstream_liveness_on_ping(&liveness, false, BEGUN_US + 5 * LATER_US);
    ck_assert_int_eq(state_after(6 * LATER_US - 1), LIVENESS_GOOD);
    ck_assert_int_eq(state_after(6 * LATER_US), LIVENESS_POOR);
    upstream_liveness_on_pong(&liveness);
    ck_assert_int_eq(state_after(6 * LATER_US), LIVENESS_GOOD);
}
END_TEST

/* A server that has stopped to read answers what it had read before. */
START_TEST(answers_to_what_was_sent_before_say_nothing)
{
    upstream_liveness_on_sent(&liveness, BEGUN_US);
    upstream_liveness_on_answer(&liveness, BEGUN_US);
    upstream_liveness_on_sent(&liveness, BEGUN_US + 1);
    upstream_liveness_on_answer(&liveness, BEGUN_US);
    upstream_liveness_on_answer(&liveness, 0);
    ck_assert_int_eq(state_after(LATER_US + 1), LIVENESS_TO_ASK);
}
END_TEST

START_TEST(an_answer_says_that_all_before_was_read)
{
    upstream_liveness_on_sent(&liveness, BEGUN_US); /* it takes long */
    upstream_liveness_on_sent(&liveness, BEGUN_US + 2 * LATER_US);
    upstream_liveness_on_answer(&liveness, BEGUN_US + 2 * LATER_US);
    ck_assert_int_eq(state_after(100 * LATER_US), LIVENESS_GOOD);
}
END_TEST

START_TEST(a_reply_says_nothing_of_what_came_behind_the_ping)
{
    upstream_liveness_on_sent(&liveness, BEGUN_US);
    upstream_liveness_on_ping(&liveness, false, BEGUN_US + LATER_US);
    upstream_liveness_on_sent(&liveness, BEGUN_US + LATER_US + 1);
    upstream_liveness_on_pong(&liveness);
    ck_assert_int_eq(state_after(2 * LATER_US - 1), LIVENESS_GOOD);
    ck_assert_int_ne(state_after(4 * LATER_US), LIVENESS_GOOD);
}
END_TEST

START_TEST(where_a_ping_is_not_welcome_time_says_it)
{
    upstream_liveness_on_ping(&liveness, false, BEGUN_US);
    upstream_liveness_on_pong(&liveness);
    ck_assert(!upstream_liveness_may_ping(&liveness, false, BEGUN_US + 300 * LATER_US));
    ck_assert(upstream_liveness_may_ping(&liveness, false, BEGUN_US + 330 * LATER_US));
    upstream_liveness_on_sent(&liveness, BEGUN_US);
    ck_assert_int_eq(state_after(2 * LATER_US - 1), LIVENESS_GOOD);
    ck_assert_int_eq(state_after(2 * LATER_US), LIVENESS_POOR);
    upstream_liveness_on_answer(&liveness, 0); /* of another request */
    ck_assert_int_eq(state_after(2 * LATER_US), LIVENESS_TO_ASK);
}
END_TEST

/* Else a server that hangs later would never be found. */
START_TEST(a_connection_from_which_nothing_comes_has_a_ping_of_its_own)
{
    upstream_liveness_on_ping(&liveness, false, BEGUN_US);
    ck_assert(!upstream_liveness_may_ping(&liveness, true, BEGUN_US + LATER_US));
    upstream_liveness_on_pong(&liveness);
    ck_assert(!upstream_liveness_may_ping(&liveness, false, BEGUN_US + LATER_US));
    ck_assert(upstream_liveness_may_ping(&liveness, true, BEGUN_US + LATER_US));
    upstream_liveness_on_ping(&liveness, true, BEGUN_US + LATER_US);
    upstream_liveness_on_pong(&liveness);
    ck_assert(!upstream_liveness_may_ping(&liveness, true, BEGUN_US + 2 * LATER_US));
    upstream_liveness_on_answer(&liveness, 0);
    ck_assert(upstream_liveness_may_ping(&liveness, true, BEGUN_US + 2 * LATER_US));
}
END_TEST

/* A PING may be unanswered from a time when nothing else was. */
START_TEST(an_old_ping_gives_new_requests_their_time)
{
    upstream_liveness_on_ping(&liveness, false, BEGUN_US);
    upstream_liveness_on_sent(&liveness, BEGUN_US + 10 * LATER_US);
    ck_assert_int_eq(state_after(12 * LATER_US - 1), LIVENESS_GOOD);
    ck_assert_int_eq(state_after(12 * LATER_US), LIVENESS_POOR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upstream_liveness");
    TCase *tests = tcase_create("upstream_liveness");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_test(tests, a_server_that_was_sent_nothing_has_nothing_to_read);
    tcase_add_test(tests, a_server_that_has_answered_is_not_asked);
    tcase_add_test(tests, a_server_that_is_not_seen_to_read_is_asked_once_and_then_avoided);
    tcase_add_test(tests, answers_to_what_was_sent_before_say_nothing);
    tcase_add_test(tests, an_answer_says_that_all_before_was_read);
    tcase_add_test(tests, a_reply_says_nothing_of_what_came_behind_the_ping);
    tcase_add_test(tests, where_a_ping_is_not_welcome_time_says_it);
    tcase_add_test(tests, a_connection_from_which_nothing_comes_has_a_ping_of_its_own);
    tcase_add_test(tests, an_old_ping_gives_new_requests_their_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
