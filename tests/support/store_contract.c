#include "support/store_contract.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "support/store_contract_limits.h"
#include "support/store_contract_settlements.h"

static const uint64_t DAY_US = UINT64_C(86400000000);

static const struct store_contract *contract;

static void on_answer(struct decision *decision)
{
    *(bool *)decision->context = true;
}

void store_contract_decide(struct store *store, struct decision *decision)
{
    bool answered = false;
    decision->context = &answered;
    if (store_decide(store, decision, on_answer) == STORE_PENDING) {
        contract->await(&answered);
        ck_assert(answered);
    }
    ck_assert_uint_eq(decision->n_frames, 0);
}

struct store *store_contract_store(void)
{
    return contract->store();
}

bool store_contract_passes(struct charge *charges, size_t n_charges)
{
    struct decision decision = {.charges = charges, .n_charges = n_charges};
    store_contract_decide(contract->store(), &decision);
    ck_assert_int_eq(decision.status, STATUS_OK);
    return decision.allowed;
}

static bool one_passes(uint32_t limit, const char *key, uint32_t cost)
{
    struct charge charge = {
        .limit = &contract_limits[limit], .key = span_of_text(key), .cost = cost};
    return store_contract_passes(&charge, 1);
}

START_TEST(an_untouched_key_admits_its_capacity_and_no_more)
{
    for (uint32_t limit = BUCKET; limit <= WINDOW; limit++) {
        for (int i = 0; i < 10; i++) {
            ck_assert(one_passes(limit, "{a}", 1));
        }
        ck_assert(!one_passes(limit, "{a}", 1));
    }
}
END_TEST

START_TEST(a_verdict_tells_what_was_asked_and_how_things_stand_then)
{
    struct charge charge = {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 7};
    ck_assert(store_contract_passes(&charge, 1));
    ck_assert(charge.verdict.allowed);
    ck_assert_uint_eq(charge.verdict.limit, 10);
    ck_assert_uint_eq(charge.verdict.remaining, 3);
    ck_assert_uint_eq(charge.verdict.retry_after, 0);
    ck_assert(charge.verdict.next_after > 0);
    ck_assert(charge.verdict.reset_after > charge.verdict.next_after);

    ck_assert(!store_contract_passes(&charge, 1));
    ck_assert(!charge.verdict.allowed);
    ck_assert_uint_eq(charge.verdict.remaining, 3);
    ck_assert(charge.verdict.retry_after > charge.verdict.next_after);
}
END_TEST

START_TEST(what_one_limit_denies_is_charged_to_none)
{
    struct charge charges[] = {
        {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 1},
        {.limit = &contract_limits[SMALL], .key = SPAN("{a}"), .cost = 1},
        {.limit = &contract_limits[WINDOW], .key = SPAN("{a}"), .cost = 1},
    };
    ck_assert(store_contract_passes(charges, 3));
    ck_assert(store_contract_passes(charges, 3));
    for (int i = 0; i < 5; i++) {
        ck_assert(!store_contract_passes(charges, 3));
        ck_assert(charges[0].verdict.allowed);
        ck_assert(!charges[1].verdict.allowed);
        ck_assert(charges[2].verdict.allowed);
        ck_assert_uint_eq(charges[0].verdict.remaining, 8);
        ck_assert_uint_eq(charges[2].verdict.remaining, 8);
    }
    ck_assert(one_passes(BUCKET, "{a}", 8));
    ck_assert(one_passes(WINDOW, "{a}", 8));
}
END_TEST

START_TEST(a_cost_of_nothing_asks_and_takes_nothing)
{
    struct charge charge = {.limit = &contract_limits[SMALL], .key = SPAN("{a}"), .cost = 0};
    for (int i = 0; i < 5; i++) {
        ck_assert(store_contract_passes(&charge, 1));
        ck_assert_uint_eq(charge.verdict.remaining, 2);
        ck_assert_uint_eq(charge.verdict.reset_after, 0);
    }
    ck_assert(one_passes(SMALL, "{a}", 2));
    ck_assert(store_contract_passes(&charge, 1));
    ck_assert_uint_eq(charge.verdict.remaining, 0);
}
END_TEST

START_TEST(a_cost_is_taken_whole_or_not_at_all)
{
    ck_assert(one_passes(BUCKET, "{a}", 8));
    ck_assert(!one_passes(BUCKET, "{a}", 3));
    ck_assert(one_passes(BUCKET, "{a}", 2));
}
END_TEST

START_TEST(what_can_never_fit_is_never_and_takes_nothing)
{
    struct charge charge = {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 11};
    ck_assert(!store_contract_passes(&charge, 1));
    ck_assert(charge.verdict.retry_after == RETRY_NEVER);
    charge.cost = UINT32_MAX;
    ck_assert(!store_contract_passes(&charge, 1));
    ck_assert(charge.verdict.retry_after == RETRY_NEVER);
    ck_assert(one_passes(BUCKET, "{a}", 10));
}
END_TEST

START_TEST(keys_and_limits_are_counted_apart)
{
    ck_assert(one_passes(SMALL, "{a}", 2));
    ck_assert(!one_passes(SMALL, "{a}", 1));
    ck_assert(one_passes(SMALL, "{a}b", 2));
    ck_assert(one_passes(SMALL, "{b}", 2));
    ck_assert(one_passes(BUCKET, "{a}", 2));
}
END_TEST

START_TEST(a_key_may_hold_any_byte)
{
    static const char bytes[] = "{\r\n$1\r\n*\0\xff}\" \n";
    struct charge charge = {
        .limit = &contract_limits[SMALL],
        .key = span_of(bytes, sizeof(bytes) - 1),
        .cost = 2,
    };
    ck_assert(store_contract_passes(&charge, 1));
    ck_assert(!store_contract_passes(&charge, 1));
    charge =
        (struct charge){.limit = charge.limit, .key = span_of(bytes, sizeof(bytes) - 2), .cost = 2};
    ck_assert(store_contract_passes(&charge, 1));
}
END_TEST

START_TEST(as_many_limits_as_a_route_may_have_are_judged_together)
{
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    char keys[LIMITS_PER_ROUTE_MAX][16];
    for (size_t i = 0; i < ARRAY_LEN(charges); i++) {
        snprintf(keys[i], sizeof(keys[i]), "{a}%zu", i);
        charges[i] = (struct charge){
            .limit = &contract_limits[BUCKET], .key = span_of_text(keys[i]), .cost = 10};
    }
    ck_assert(store_contract_passes(charges, ARRAY_LEN(charges)));
    ck_assert(!store_contract_passes(charges, ARRAY_LEN(charges)));
    for (size_t i = 0; i < ARRAY_LEN(charges); i++) {
        ck_assert_uint_eq(charges[i].verdict.remaining, 0);
    }
}
END_TEST

/* --- shadows, and denied requests that count --- */

START_TEST(a_shadow_is_judged_and_charged_and_denies_nobody)
{
    struct charge charge = {.limit = &contract_limits[SHADOW], .key = SPAN("{a}"), .cost = 1};
    for (int i = 0; i < 5; i++) {
        ck_assert(store_contract_passes(&charge, 1));
        ck_assert(charge.verdict.allowed == (i < 2));
        ck_assert(charge.charged == (i < 2));
        ck_assert_uint_eq(charge.verdict.remaining, i < 2 ? (uint64_t)(1 - i) : 0);
    }
}
END_TEST

START_TEST(a_shadow_takes_nothing_for_a_request_that_is_denied)
{
    struct charge charges[] = {
        {.limit = &contract_limits[SHADOW], .key = SPAN("{a}"), .cost = 1},
        {.limit = &contract_limits[SMALL], .key = SPAN("{a}"), .cost = 3},
    };
    ck_assert(!store_contract_passes(charges, 2));
    ck_assert(!charges[0].charged);
    ck_assert_uint_eq(charges[0].verdict.remaining, 2);
}
END_TEST

START_TEST(denied_requests_count_where_the_limit_says_so_and_never_beyond_full)
{
    struct charge charges[] = {
        {.limit = &contract_limits[COUNTING], .key = SPAN("{a}"), .cost = 2},
        {.limit = &contract_limits[SMALL], .key = SPAN("{a}"), .cost = 3},
    };
    for (uint64_t left = 3; left > 0; left = left > 2 ? left - 2 : 0) {
        ck_assert(!store_contract_passes(charges, 2));
        ck_assert(!charges[0].charged);
        ck_assert_uint_eq(charges[0].verdict.remaining, left);
    }
    ck_assert(!store_contract_passes(charges, 2));
    ck_assert_uint_eq(charges[0].verdict.remaining, 0);
    ck_assert(charges[0].verdict.reset_after <= 7 * DAY_US);
    ck_assert_uint_eq(charges[1].verdict.remaining, 2);
}
END_TEST

/* --- other aims --- */

static bool with_aim(enum decision_aim aim, struct charge *charges, size_t n_charges)
{
    struct decision decision = {.charges = charges, .n_charges = n_charges, .aim = aim};
    store_contract_decide(contract->store(), &decision);
    ck_assert_int_eq(decision.status, STATUS_OK);
    for (size_t i = 0; i < n_charges; i++) {
        ck_assert(!charges[i].charged);
    }
    return decision.allowed;
}

START_TEST(a_judgement_tells_what_a_decision_would_and_changes_nothing)
{
    struct charge charges[] = {
        {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 6},
        {.limit = &contract_limits[COUNTING], .key = SPAN("{a}"), .cost = 1},
        {.limit = &contract_limits[SLOTS], .key = SPAN("{a}"), .cost = 1, .slot = 1},
    };
    for (int i = 0; i < 3; i++) {
        ck_assert(with_aim(DECISION_JUDGE, charges, 3));
        ck_assert_uint_eq(charges[0].verdict.remaining, 10);
        ck_assert_uint_eq(charges[1].verdict.remaining, 5);
        ck_assert_uint_eq(charges[2].verdict.remaining, 2);
    }
    ck_assert(store_contract_passes(charges, 3));
    for (int i = 0; i < 3; i++) {
        ck_assert(!with_aim(DECISION_JUDGE, charges, 3));
        ck_assert(!charges[0].verdict.allowed);
        ck_assert(charges[0].verdict.retry_after > 0);
        ck_assert_uint_eq(charges[0].verdict.remaining, 4);
        ck_assert(charges[1].verdict.allowed);
        ck_assert_uint_eq(charges[1].verdict.remaining, 4);
        ck_assert_uint_eq(charges[2].verdict.remaining, 1);
    }
}
END_TEST

START_TEST(what_others_deny_is_charged_to_those_that_count_denied_requests)
{
    struct charge charges[] = {
        {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 1},
        {.limit = &contract_limits[COUNTING], .key = SPAN("{a}"), .cost = 3},
        {.limit = &contract_limits[SLOTS], .key = SPAN("{a}"), .cost = 1, .slot = 1},
    };
    ck_assert(!with_aim(DECISION_DENY, charges, 3));
    ck_assert(charges[0].verdict.allowed);
    ck_assert_uint_eq(charges[0].verdict.remaining, 10);
    ck_assert_uint_eq(charges[1].verdict.remaining, 2);
    ck_assert_uint_eq(charges[2].verdict.remaining, 2);
    ck_assert(!with_aim(DECISION_DENY, charges, 3));
    ck_assert_uint_eq(charges[1].verdict.remaining, 0);
}
END_TEST

/* Asks once more from within the answer. */
struct chain {
    struct decision decision;
    int n_asked;
    bool finished;
};

static void go_on(struct chain *chain);

static void on_link(struct decision *decision)
{
    struct chain *chain = decision->context;
    ck_assert_int_eq(decision->status, STATUS_OK);
    go_on(chain);
}

static void go_on(struct chain *chain)
{
    while (chain->n_asked < 10) {
        chain->n_asked++;
        if (store_decide(contract->store(), &chain->decision, on_link) == STORE_PENDING) {
            return;
        }
    }
    chain->finished = true;
}

START_TEST(an_answer_may_ask_again)
{
    struct charge charge = {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 1};
    struct chain chain = {.decision = {.charges = &charge, .n_charges = 1}};
    chain.decision.context = &chain;
    go_on(&chain);
    if (!chain.finished) {
        contract->await(&chain.finished);
    }
    ck_assert(chain.decision.allowed);
    ck_assert_uint_eq(charge.verdict.remaining, 0);
}
END_TEST

static void on_unwanted(struct decision *decision)
{
    (void)decision;
    ck_abort_msg("a cancelled decision was answered");
}

START_TEST(a_cancelled_decision_is_not_answered)
{
    struct charge charge = {.limit = &contract_limits[BUCKET], .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    if (store_decide(contract->store(), &decision, on_unwanted) == STORE_PENDING) {
        store_cancel(&decision);
    }
    ck_assert_uint_eq(decision.n_frames, 0);
    memset(&decision, 0xee, sizeof(decision));
    memset(&charge, 0xee, sizeof(charge));

    ck_assert(one_passes(WINDOW, "{a}", 1));
}
END_TEST

static void open_store(void)
{
    contract->open();
}

static void close_store(void)
{
    contract->close();
}

TCase *store_contract_tcase(const struct store_contract *of)
{
    TCase *tcase = tcase_create("contract");
    contract = of;
    tcase_add_checked_fixture(tcase, open_store, close_store);
    tcase_add_test(tcase, an_untouched_key_admits_its_capacity_and_no_more);
    tcase_add_test(tcase, a_verdict_tells_what_was_asked_and_how_things_stand_then);
    tcase_add_test(tcase, what_one_limit_denies_is_charged_to_none);
    tcase_add_test(tcase, a_cost_of_nothing_asks_and_takes_nothing);
    tcase_add_test(tcase, a_cost_is_taken_whole_or_not_at_all);
    tcase_add_test(tcase, what_can_never_fit_is_never_and_takes_nothing);
    tcase_add_test(tcase, keys_and_limits_are_counted_apart);
    tcase_add_test(tcase, a_key_may_hold_any_byte);
    tcase_add_test(tcase, as_many_limits_as_a_route_may_have_are_judged_together);
    tcase_add_test(tcase, a_shadow_is_judged_and_charged_and_denies_nobody);
    tcase_add_test(tcase, a_shadow_takes_nothing_for_a_request_that_is_denied);
    tcase_add_test(tcase, denied_requests_count_where_the_limit_says_so_and_never_beyond_full);
    tcase_add_test(tcase, a_judgement_tells_what_a_decision_would_and_changes_nothing);
    tcase_add_test(tcase, what_others_deny_is_charged_to_those_that_count_denied_requests);
    store_contract_add_settlements(tcase);
    tcase_add_test(tcase, an_answer_may_ask_again);
    tcase_add_test(tcase, a_cancelled_decision_is_not_answered);
    return tcase;
}
