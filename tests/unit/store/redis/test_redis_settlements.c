/* Settlements in Redis: what they cost, what loses them, how many are in flight, and slots that
 * nobody waits for any more. */

#include "settlement_stage.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

START_TEST(all_of_a_request_is_one_call)
{
    struct question question;
    ck_assert(is_admitted(&question));
    ck_assert_uint_eq(question.charges[0].verdict.remaining, 990);
    settle(&question);
    ck_assert(is_admitted(&question));
    ck_assert_uint_eq(question.charges[0].verdict.remaining, 984);
    ck_assert_uint_eq(count().n_calls, 2);
    ck_assert_uint_eq(count().n_settlements, 1);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
}
END_TEST

START_TEST(flushed_scripts_are_sent_again_with_the_settlement)
{
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_command(&server, "SCRIPT FLUSH");
    settle(&question);
    ck_assert(is_admitted(&question)); /* it is sent again, too, after the settlement */
    ck_assert_uint_eq(question.charges[0].verdict.remaining, 984);
    ck_assert_uint_eq(count().n_settlements, 2);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
}
END_TEST

START_TEST(what_redis_refuses_or_cannot_hear_is_lost_and_stays_charged)
{
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_command(&server, "CONFIG SET min-replicas-to-write 1");
    settle(&question);
    struct question denied;
    ck_assert(!is_admitted(&denied)); /* and so nothing is written */
    ck_assert_uint_eq(denied.charges[0].verdict.remaining, 990);
    ck_assert_uint_eq(count().n_settlements_lost, 1);
    ck_assert_uint_eq(count_losses(), 1);

    redis_server_kill(&server);
    const struct settlement any = {.limit = &limits[SLOTS], .key = SPAN("{a}")};
    ck_assert(store_can_settle(client.store, &any));
    (void)redis_client_await_up(&client, false);
    ck_assert(!store_can_settle(client.store, &any));
    settle(&question);
    ck_assert_uint_eq(count().n_settlements_lost, 2);
}
END_TEST

START_TEST(of_many_settlements_at_once_few_are_before_a_decision)
{
    enum { MANY = 300 };
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_pause(&server);
    for (uint64_t i = 0; i < MANY; i++) {
        correct(&question, 1, i);
    }
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE);
    ck_assert(!store_is_settled(client.store));
    struct question other;
    ask(&other);
    redis_server_resume(&server);
    redis_client_await(&client, &other.answered);
    ck_assert_int_eq(other.decision.status, STATUS_OK);
    ck_assert_uint_eq(other.charges[0].verdict.remaining, 990 - REDIS_SETTLEMENTS_FREE);

    await_settled();
    ck_assert_uint_eq(count().n_settlements, MANY);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
    settle(&question);
    ck_assert(is_admitted(&other));
    ck_assert_uint_eq(other.charges[0].verdict.remaining, 990 - MANY + 4 - 10);
}
END_TEST

START_TEST(while_more_decisions_are_in_flight_so_are_more_settlements)
{
    struct question question;
    struct question others[5];
    fill_link(&question);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        ask(&others[i]);
    }
    for (uint64_t i = 0; i < 10; i++) {
        correct(&question, 1, 2000 + i);
    }
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + ARRAY_LEN(others));
    redis_server_resume(&server);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        redis_client_await(&client, &others[i].answered);
    }
    await_settled();
}
END_TEST

START_TEST(those_of_identical_requests_wait_as_one)
{
    struct question question;
    fill_link(&question);
    for (int i = 0; i < 20; i++) {
        correct(&question, 5, 0);
        correct(&question, -2, 0);
    }
    release(&question);
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + 2 + 1);
    ck_assert(is_admitted(&question));
    ck_assert_uint_eq(question.charges[0].verdict.remaining,
                      990 - REDIS_SETTLEMENTS_FREE - 20 * 5 + 20 * 2 - 10);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
}
END_TEST

START_TEST(a_slot_is_given_back_before_the_corrections_that_wait)
{
    enum { MANY = 400 };
    struct question question;
    struct question next;
    fill_link(&question);
    for (uint64_t i = 0; i < MANY; i++) {
        correct(&question, 1, 10000 + i);
    }
    release(&question);
    redis_server_resume(&server);
    while (count().n_settlements == REDIS_SETTLEMENTS_FREE) {
        redis_client_iterate(&client);
    }
    ck_assert(is_admitted(&next));
    ck_assert_uint_gt(next.charges[0].verdict.remaining, 990 - MANY);
    await_settled();
}
END_TEST

START_TEST(a_slot_is_not_renewed_after_it_was_given_back)
{
    const struct address of = {0};
    struct question question;
    struct question other;
    struct question next;
    fill_link(&question);
    settle_slot(&question, SETTLE_RENEW, &of); /* waits */
    ask(&other);                               /* while it is in flight one more may be sent */
    release_of(&question, &of);
    redis_server_resume(&server);
    redis_client_await(&client, &other.answered);
    await_settled();
    ck_assert(is_admitted(&next));
}
END_TEST

START_TEST(no_sum_is_greater_than_a_cost_may_be)
{
    struct question question;
    fill_link(&question);
    correct(&question, -(int64_t)UINT32_MAX, 0);
    correct(&question, -1, 0);
    correct(&question, -2, 0); /* joins the second */
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + 2);
}
END_TEST

START_TEST(flushed_scripts_are_sent_again_also_with_those_that_wait)
{
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_command(&server, "SCRIPT FLUSH");
    redis_server_pause(&server);
    for (uint64_t i = 0; i < 40; i++) {
        correct(&question, 1, i);
    }
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements_lost, 0);
    settle(&question);
    ck_assert(is_admitted(&question));
    ck_assert_uint_eq(question.charges[0].verdict.remaining, 990 - 40 + 4 - 10);
}
END_TEST

START_TEST(those_that_wait_are_lost_with_the_link_one_for_each_request)
{
    struct question question;
    fill_link(&question);
    for (uint64_t i = 0; i < 10; i++) {
        correct(&question, 5, 0);
        correct(&question, 1, i + 1);
    }
    redis_server_kill(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE);
    ck_assert_uint_eq(count().n_settlements_lost, REDIS_SETTLEMENTS_FREE + 20);
    ck_assert_uint_gt(count_losses(), 0);
}
END_TEST

START_TEST(no_more_than_a_bound_wait)
{
    struct question question;
    fill_link(&question);
    for (uint64_t i = 0; i < REDIS_PENDING_MAX + 7; i++) {
        correct(&question, 1, 10000 + i);
    }
    ck_assert_uint_eq(count().n_settlements_lost, 7);
    ck_assert_uint_eq(count_losses(), 0); /* none of them could be settled */
    redis_server_resume(&server);
}
END_TEST

START_TEST(a_client_leaves_places_to_others)
{
    const struct address greedy[] = {address_at("2001:db8::1"), address_at("2001:db8:0:1::1")};
    const struct address other = address_at("192.0.2.1");
    struct question question;
    fill_link(&question);
    for (uint64_t i = 0; i < REDIS_PENDING_MAX; i++) {
        correct_of(&question, 1, 10000 + i, &greedy[i % 2]);
    }
    ck_assert_uint_eq(count().n_settlements_lost, REDIS_PENDING_MAX / 2);
    for (uint64_t i = 0; i < REDIS_PENDING_MAX / 4; i++) {
        correct_of(&question, 1, 100 * 1000 + i, &other);
    }
    ck_assert_uint_eq(count().n_settlements_lost, REDIS_PENDING_MAX / 2);
    redis_server_resume(&server);
    while (count().n_settlements < REDIS_SETTLEMENTS_FREE + REDIS_PENDING_MAX / 4) {
        redis_client_iterate(&client);
    }
    correct_of(&question, 1, 200 * 1000, &greedy[0]); /* places are free again */
    ck_assert_uint_eq(count().n_settlements_lost, REDIS_PENDING_MAX / 2);
}
END_TEST

/* Gives back the slot of @question, and lets Redis reply until a few of those that wait have been
 * sent; returns what is left then. */
static uint64_t left_after_a_few(const struct question *question)
{
    struct question next;
    release(question);
    redis_server_resume(&server);
    while (count().n_settlements < REDIS_SETTLEMENTS_FREE + 4) {
        redis_client_iterate(&client);
    }
    ck_assert(is_admitted(&next));
    return next.charges[0].verdict.remaining;
}

START_TEST(clients_take_turns)
{
    enum { MANY = 400, COST = 500 };
    const struct address greedy = address_at("192.0.2.2");
    const struct address other = address_at("192.0.2.1");
    struct question question;
    fill_link(&question);
    for (uint64_t i = 0; i < MANY; i++) {
        correct_of(&question, 1, 10000 + i, &greedy);
    }
    correct_of(&question, COST, 20000, &other);
    const uint64_t left = left_after_a_few(&question);
    ck_assert_uint_lt(left, 990 - COST);
    ck_assert_uint_gt(left, 990 - COST - MANY);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + MANY + 2);
}
END_TEST

START_TEST(what_a_client_owes_is_charged_before_what_it_gets_back)
{
    enum { MANY = 400, COST = 500 };
    const struct address client_address = address_at("192.0.2.2");
    struct question question;
    fill_link(&question);
    for (uint64_t i = 0; i < MANY; i++) {
        correct_of(&question, -1, 10000 + i, &client_address);
    }
    correct_of(&question, COST, 20000, &client_address);
    ck_assert_uint_lt(left_after_a_few(&question), 990 - COST + MANY);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + MANY + 2);
}
END_TEST

static bool can_settle(enum settlement_kind kind, const struct address *of)
{
    const struct settlement settlement = {
        .client = of, .limit = &limits[BUCKET], .key = SPAN("{a}"), .kind = kind};
    return store_can_settle(client.store, &settlement);
}

START_TEST(none_can_be_settled_of_a_client_of_which_too_many_wait)
{
    const struct address greedy = address_at("192.0.2.2");
    const struct address other = address_at("192.0.2.1");
    struct question question;
    fill_link(&question);
    uint64_t n = 0;
    while (can_settle(SETTLE_COST, &greedy)) {
        for (size_t i = 0; i < LIMITS_PER_ROUTE_MAX; i++) { /* all of a request, each a message */
            correct_of(&question, 1, 10000 + n++, &greedy);
        }
        ck_assert_uint_eq(count().n_settlements_lost, 0);
    }
    ck_assert_uint_ge(n, REDIS_PENDING_MAX / 2 - LIMITS_PER_ROUTE_MAX);
    ck_assert(can_settle(SETTLE_RENEW, &greedy));
    ck_assert(can_settle(SETTLE_COST, &other));
    ck_assert(can_settle(SETTLE_COST, NULL));
    redis_server_resume(&server);
    await_settled();
    ck_assert(can_settle(SETTLE_COST, &greedy));
}
END_TEST

START_TEST(a_client_leaves_places_to_the_slots_of_others)
{
    const struct address greedy = address_at("192.0.2.2");
    const struct address other = address_at("192.0.2.1");
    struct question question;
    fill_link(&question);
    for (uint64_t i = 0; i < REDIS_PENDING_MAX; i++) {
        release_of(&question, &greedy);
    }
    ck_assert_uint_eq(count().n_settlements_lost, REDIS_PENDING_MAX / 2);
    release_of(&question, &other);
    ck_assert_uint_eq(count().n_settlements_lost, REDIS_PENDING_MAX / 2);
    redis_server_resume(&server);
}
END_TEST

START_TEST(a_slot_taken_by_a_cancelled_decision_is_given_back)
{
    struct question question;
    ask(&question);
    store_cancel(&question.decision);
    memset(&question, 0xee, sizeof(question));

    ck_assert(!is_admitted(&question)); /* the reply to the cancelled one came just before */
    ck_assert(is_admitted(&question));
    ck_assert_uint_eq(question.charges[0].verdict.remaining, 980);
    ck_assert_uint_eq(count().n_settlements, 1);
}
END_TEST

START_TEST(charges_that_the_caller_names_are_given_back_by_a_cancelled_decision)
{
    struct question question;
    ask(&question);
    question.decision.returned = 1u << 0;
    store_cancel(&question.decision);
    ck_assert(!store_is_settled(client.store));
    memset(&question, 0xee, sizeof(question));
    while (!store_is_settled(client.store)) {
        redis_client_iterate(&client);
    }
    ck_assert(is_admitted(&question));
    ck_assert_uint_eq(question.charges[0].verdict.remaining, 990); /* as if it had not been */
    ck_assert_uint_eq(count().n_settlements, 2);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
}
END_TEST

START_TEST(a_denied_decision_that_is_cancelled_gives_no_charge_back)
{
    struct question holder;
    struct question question;
    ck_assert(is_admitted(&holder));
    ask(&question);
    question.decision.returned = 1u << 0;
    store_cancel(&question.decision);
    while (!store_is_settled(client.store)) {
        redis_client_iterate(&client);
    }
    ck_assert_uint_eq(count().n_settlements, 0);
}
END_TEST

START_TEST(what_is_to_be_given_back_is_forgotten_with_its_limits)
{
    struct question question;
    redis_server_pause(&server);
    ask(&question);
    question.decision.returned = 1u << 0;
    store_cancel(&question.decision);
    store_remove_limits(client.store, limits);
    redis_server_resume(&server);
    while (!store_is_settled(client.store)) {
        redis_client_iterate(&client);
    }
    ck_assert_uint_eq(count().n_settlements, 1); /* the slot */
    ck_assert_int_eq(store_add_limits(client.store, limits, N_LIMITS), STATUS_OK);
}
END_TEST

START_TEST(a_slot_taken_too_late_is_given_back)
{
    struct question question;
    redis_server_pause(&server);
    ask(&question);
    redis_client_await(&client, &question.answered);
    ck_assert_int_eq(question.decision.status, STATUS_TIMEOUT);
    memset(&question, 0xee, sizeof(question));
    redis_server_resume(&server);

    while (!is_admitted(&question)) {
    }
    ck_assert_uint_eq(count().n_late_replies, 1);
    ck_assert_uint_eq(count().n_settlements, 1);
}
END_TEST

START_TEST(a_store_is_settled_when_the_last_slot_that_nobody_waits_for_is_given_back)
{
    struct question holder;
    struct question question;
    ck_assert(is_admitted(&holder));
    ck_assert(store_is_settled(client.store));
    redis_server_pause(&server);
    settle(&holder);
    ask(&question);
    store_cancel(&question.decision);
    ck_assert(!store_is_settled(client.store));
    redis_server_resume(&server);
    while (count().n_settlements < 2) {
        ck_assert(!store_is_settled(client.store));
        redis_client_iterate(&client);
    }
    while (!store_is_settled(client.store)) {
        redis_client_iterate(&client);
    }
    ck_assert(is_admitted(&question));
}
END_TEST

START_TEST(a_store_is_settled_when_the_link_takes_the_last_question_with_it)
{
    struct question question;
    redis_server_pause(&server);
    ask(&question);
    store_cancel(&question.decision);
    ck_assert(!store_is_settled(client.store));
    redis_server_kill(&server);
    while (!store_is_settled(client.store)) {
        redis_client_iterate(&client);
    }
    ck_assert_uint_eq(count().n_settlements, 0);
}
END_TEST

START_TEST(a_slot_taken_too_late_is_given_back_though_the_breaker_has_opened)
{
    struct question questions[5];
    redis_server_pause(&server);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        ask(&questions[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_await(&client, &questions[i].answered);
    }
    ck_assert_uint_eq(count().n_openings, 1);
    redis_server_resume(&server);

    struct question question;
    do {
        (void)redis_client_await_up(&client, true);
        ask(&question);
        redis_client_await(&client, &question.answered);
    } while (question.decision.status != STATUS_OK || !question.decision.allowed);
    ck_assert_uint_eq(count().n_settlements, 1);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
}
END_TEST

START_TEST(a_cancelled_decision_that_is_denied_gives_nothing_back)
{
    struct question holder;
    struct question question;
    ck_assert(is_admitted(&holder));
    ask(&question);
    store_cancel(&question.decision);
    memset(&question, 0xee, sizeof(question));
    ck_assert(!is_admitted(&question));
    ck_assert_uint_eq(count().n_late_replies, 1);
    ck_assert_uint_eq(count().n_settlements, 0);
}
END_TEST

START_TEST(a_store_can_be_freed_with_settlements_and_slots_under_way)
{
    struct question question;
    ck_assert(is_admitted(&question));
    settle(&question);
    for (uint64_t i = 0; i < 100; i++) {
        correct(&question, 1, i);
    }
    ask(&question);
    store_cancel(&question.decision);
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the program does: hiredis writes to peers that have gone */
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_settlements");
    TCase *tcase = tcase_create("settlements");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, all_of_a_request_is_one_call);
    tcase_add_test(tcase, flushed_scripts_are_sent_again_with_the_settlement);
    tcase_add_test(tcase, what_redis_refuses_or_cannot_hear_is_lost_and_stays_charged);
    tcase_add_test(tcase, of_many_settlements_at_once_few_are_before_a_decision);
    tcase_add_test(tcase, while_more_decisions_are_in_flight_so_are_more_settlements);
    tcase_add_test(tcase, those_of_identical_requests_wait_as_one);
    tcase_add_test(tcase, a_slot_is_given_back_before_the_corrections_that_wait);
    tcase_add_test(tcase, a_slot_is_not_renewed_after_it_was_given_back);
    tcase_add_test(tcase, no_sum_is_greater_than_a_cost_may_be);
    tcase_add_test(tcase, flushed_scripts_are_sent_again_also_with_those_that_wait);
    tcase_add_test(tcase, those_that_wait_are_lost_with_the_link_one_for_each_request);
    tcase_add_test(tcase, no_more_than_a_bound_wait);
    tcase_add_test(tcase, a_client_leaves_places_to_others);
    tcase_add_test(tcase, clients_take_turns);
    tcase_add_test(tcase, what_a_client_owes_is_charged_before_what_it_gets_back);
    tcase_add_test(tcase, none_can_be_settled_of_a_client_of_which_too_many_wait);
    tcase_add_test(tcase, a_client_leaves_places_to_the_slots_of_others);
    tcase_add_test(tcase, a_slot_taken_by_a_cancelled_decision_is_given_back);
    tcase_add_test(tcase, charges_that_the_caller_names_are_given_back_by_a_cancelled_decision);
    tcase_add_test(tcase, a_denied_decision_that_is_cancelled_gives_no_charge_back);
    tcase_add_test(tcase, what_is_to_be_given_back_is_forgotten_with_its_limits);
    tcase_add_test(tcase, a_slot_taken_too_late_is_given_back);
    tcase_add_test(tcase,
                   a_store_is_settled_when_the_last_slot_that_nobody_waits_for_is_given_back);
    tcase_add_test(tcase, a_store_is_settled_when_the_link_takes_the_last_question_with_it);
    tcase_add_test(tcase, a_slot_taken_too_late_is_given_back_though_the_breaker_has_opened);
    tcase_add_test(tcase, a_cancelled_decision_that_is_denied_gives_nothing_back);
    tcase_add_test(tcase, a_store_can_be_freed_with_settlements_and_slots_under_way);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
