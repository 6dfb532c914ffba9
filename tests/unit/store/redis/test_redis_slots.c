/* Slots in Redis whose settlements wait: what is given back, and what is renewed. */

#include "settlement_stage.h"

#include <signal.h>

#include "base/hash.h"

enum { MANY = 400, OTHERS = 2 * MANY };

static struct span key_of(size_t i)
{
    static char texts[MANY][16];
    snprintf(texts[i], sizeof(texts[i]), "{other}%zu", i);
    return span_of_text(texts[i]);
}

static struct settlement settlement_of(enum settlement_kind kind, struct span key, uint64_t slot)
{
    return (struct settlement){
        .limit = &limits[SLOTS],
        .key = key,
        .kind = kind,
        .slot = slot,
        .source = DECISION_REDIS,
    };
}

/* OTHERS commands: Redis does not know these slots, and each is then taken anew. */
static void renew_others(void)
{
    for (size_t i = 0; i < MANY; i++) {
        const struct settlement renewal = settlement_of(SETTLE_RENEW, key_of(i), 1000 + i);
        store_settle(client.store, &renewal, 1);
    }
}

/* The slots of @key that are free, as @of sees it: of another link than that under test. */
static uint64_t free_slots(struct redis_client *of, struct span key)
{
    struct question question = {
        .charges = {{.limit = &limits[SLOTS], .key = key, .slot = 1}},
        .decision = {.charges = question.charges, .n_charges = 1, .context = &question.answered},
    };
    ck_assert_int_eq(store_decide(of->store, &question.decision, on_answer), STORE_PENDING);
    redis_client_await(of, &question.answered);
    ck_assert_int_eq(question.decision.status, STATUS_OK);
    return question.charges[0].verdict.remaining;
}

START_TEST(a_slot_that_is_given_back_is_renewed_no_more)
{
    struct question question;
    fill_link(&question);
    settle_slot(&question, SETTLE_RENEW, NULL);
    release(&question);
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + 1);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
    ck_assert(is_admitted(&question));
}
END_TEST

START_TEST(slots_are_given_back_before_others_are_renewed)
{
    struct redis_client other;
    struct question question;
    open_client(&other);
    fill_link(&question);
    renew_others();
    release(&question);
    redis_server_resume(&server);
    while (count().n_settlements < 2 * REDIS_SETTLEMENTS_FREE + 4) { /* replies to the first 20 */
        redis_client_iterate(&client);
    }
    ck_assert_uint_eq(free_slots(&other, SPAN("{a}")), 1);
    ck_assert_uint_lt(count().n_settlements, REDIS_SETTLEMENTS_FREE + MANY / 2);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + OTHERS + 1);
    redis_client_close(&other);
}
END_TEST

START_TEST(renewals_alone_leave_room_for_what_is_given_back)
{
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_pause(&server);
    renew_others();
    const uint64_t n = count().n_settlements;
    ck_assert_uint_eq(n, REDIS_SETTLEMENTS_FREE - REDIS_SETTLEMENTS_RESERVED);
    release(&question);
    ck_assert_uint_eq(count().n_settlements, n + 1);
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, OTHERS + 1);
}
END_TEST

START_TEST(renewals_have_their_turn_though_more_is_given_back)
{
    struct question question;
    struct redis_client other;
    open_client(&other);
    fill_link(&question);
    for (size_t i = 0; i < MANY; i++) {
        const struct settlement back = settlement_of(SETTLE_RELEASE, key_of(i), 1000 + i);
        store_settle(client.store, &back, 1);
        correct(&question, 1, 10000 + i);
    }
    const struct settlement renewal = settlement_of(SETTLE_RENEW, SPAN("{last}"), 1);
    store_settle(client.store, &renewal, 1);
    redis_server_resume(&server);
    while (count().n_settlements < 3 * REDIS_SETTLEMENTS_FREE + 8) {
        redis_client_iterate(&client);
    }
    ck_assert_uint_eq(free_slots(&other, SPAN("{last}")), 0);
    ck_assert_uint_lt(count().n_settlements, REDIS_SETTLEMENTS_FREE + MANY);
    await_settled();
    redis_client_close(&other);
}
END_TEST

/* A client that has read its answer, and asks again before there is room. */
START_TEST(a_slot_is_given_back_before_its_client_asks_for_the_next)
{
    struct question question;
    struct question next;
    fill_link(&question);
    for (uint64_t i = 0; i < MANY; i++) {
        correct(&question, 1, 10000 + i);
    }
    renew_others();
    release(&question);
    ask(&next);
    redis_server_resume(&server);
    redis_client_await(&client, &next.answered);
    ck_assert(next.decision.allowed);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + MANY + OTHERS + 1);
}
END_TEST

START_TEST(a_renewal_is_not_sent_again_for_a_slot_that_is_given_back)
{
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_command(&server, "SCRIPT FLUSH");
    redis_server_pause(&server);
    settle_slot(&question, SETTLE_RENEW, NULL);
    release(&question);
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, 3); /* and once more what gives it back */
    ck_assert_uint_eq(count().n_settlements_lost, 0);
    ck_assert(is_admitted(&question));
}
END_TEST

START_TEST(a_slot_that_redis_has_lost_is_taken_anew_if_it_is_held)
{
    struct question question;
    ck_assert(is_admitted(&question));
    redis_server_command(&server, "FLUSHALL");
    settle_slot(&question, SETTLE_RENEW, NULL);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, 2);
    ck_assert_uint_eq(free_slots(&client, SPAN("{a}")), 0);

    redis_server_command(&server, "FLUSHALL");
    settle_slot(&question, SETTLE_RENEW, NULL);
    release(&question);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, 4);
    ck_assert_uint_eq(free_slots(&client, SPAN("{a}")), 1);
}
END_TEST

START_TEST(those_of_several_slots_that_redis_has_lost_are_taken_anew)
{
    const struct settlement renewals[] = {
        settlement_of(SETTLE_RENEW, SPAN("{a}"), 1),
        settlement_of(SETTLE_RENEW, SPAN("{a}b"), 2),
        settlement_of(SETTLE_RENEW, SPAN("{a}c"), 3),
    };
    store_settle(client.store, &renewals[1], 1);
    await_settled();
    redis_server_command(&server, "SCRIPT FLUSH");
    store_settle(client.store, renewals, 3);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, 2 + 3);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
    for (size_t i = 0; i < ARRAY_LEN(renewals); i++) {
        ck_assert_uint_eq(free_slots(&client, renewals[i].key), 0);
    }
}
END_TEST

START_TEST(of_two_slots_to_renew_one_is_given_back)
{
    struct question question;
    fill_link(&question);
    const struct settlement renewals[] = {
        settlement_of(SETTLE_RENEW, SPAN("{a}"), question.charges[1].slot),
        settlement_of(SETTLE_RENEW, SPAN("{a}b"), 77),
    };
    store_settle(client.store, renewals, 2);
    release(&question);
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + 3);
    ck_assert_uint_eq(free_slots(&client, SPAN("{a}")), 1);
    ck_assert_uint_eq(free_slots(&client, SPAN("{a}b")), 0);
}
END_TEST

START_TEST(a_renewal_that_waits_stands_for_the_next_one)
{
    struct question question;
    fill_link(&question);
    settle_slot(&question, SETTLE_RENEW, NULL);
    settle_slot(&question, SETTLE_RENEW, NULL);
    redis_server_resume(&server);
    await_settled();
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE + 1);
    ck_assert_uint_eq(count().n_settlements_lost, 0);
}
END_TEST

START_TEST(what_a_client_owes_is_charged_first_also_with_its_slot)
{
    enum { COST = 500 };
    struct question question;
    struct redis_client other;
    open_client(&other);
    fill_link(&question);
    for (size_t i = 0; i < MANY; i++) {
        const struct settlement back = settlement_of(SETTLE_RELEASE, key_of(i), 1000 + i);
        store_settle(client.store, &back, 1);
    }
    const struct settlement owed[] = {
        {.limit = &limits[BUCKET],
         .key = SPAN("{a}"),
         .kind = SETTLE_COST,
         .delta = COST,
         .charged_at_us = question.charges[0].charged_at_us,
         .source = DECISION_REDIS},
        settlement_of(SETTLE_RELEASE, SPAN("{a}"), question.charges[1].slot),
    };
    store_settle(client.store, owed, 2);
    redis_server_resume(&server);
    while (count().n_settlements < 2 * REDIS_SETTLEMENTS_FREE + 4) {
        redis_client_iterate(&client);
    }
    ck_assert_uint_eq(free_slots(&other, SPAN("{a}")), 1);
    ck_assert_uint_lt(count().n_settlements, REDIS_SETTLEMENTS_FREE + MANY / 2);
    await_settled();
    redis_client_close(&other);
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
    Suite *suite = suite_create("store/redis_slots");
    TCase *tcase = tcase_create("slots");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, a_slot_that_is_given_back_is_renewed_no_more);
    tcase_add_test(tcase, slots_are_given_back_before_others_are_renewed);
    tcase_add_test(tcase, renewals_alone_leave_room_for_what_is_given_back);
    tcase_add_test(tcase, renewals_have_their_turn_though_more_is_given_back);
    tcase_add_test(tcase, a_slot_is_given_back_before_its_client_asks_for_the_next);
    tcase_add_test(tcase, a_renewal_is_not_sent_again_for_a_slot_that_is_given_back);
    tcase_add_test(tcase, a_slot_that_redis_has_lost_is_taken_anew_if_it_is_held);
    tcase_add_test(tcase, those_of_several_slots_that_redis_has_lost_are_taken_anew);
    tcase_add_test(tcase, of_two_slots_to_renew_one_is_given_back);
    tcase_add_test(tcase, a_renewal_that_waits_stands_for_the_next_one);
    tcase_add_test(tcase, what_a_client_owes_is_charged_first_also_with_its_slot);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
