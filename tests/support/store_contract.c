#include "support/store_contract.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "support/store_contract_limits.h"

static const uint64_t DAY_US = UINT64_C(86400000000);

static uint64_t last_slot;
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

/* Whether @charges pass; the store must be able to tell. */
static bool passes(struct charge *charges, size_t n_charges)
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
    return passes(&charge, 1);
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
    ck_assert(passes(&charge, 1));
    ck_assert(charge.verdict.allowed);
    ck_assert_uint_eq(charge.verdict.limit, 10);
    ck_assert_uint_eq(charge.verdict.remaining, 3);
    ck_assert_uint_eq(charge.verdict.retry_after, 0);
    ck_assert(charge.verdict.next_after > 0);
    ck_assert(charge.verdict.reset_after > charge.verdict.next_after);

    ck_assert(!passes(&charge, 1));
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
    ck_assert(passes(charges, 3));
    ck_assert(passes(charges, 3));
    for (int i = 0; i < 5; i++) {
        ck_assert(!passes(charges, 3));
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
        ck_assert(passes(&charge, 1));
        ck_assert_uint_eq(charge.verdict.remaining, 2);
        ck_assert_uint_eq(charge.verdict.reset_after, 0);
    }
    ck_assert(one_passes(SMALL, "{a}", 2));
    ck_assert(passes(&charge, 1));
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
    ck_assert(!passes(&charge, 1));
    ck_assert(charge.verdict.retry_after == RETRY_NEVER);
    charge.cost = UINT32_MAX;
    ck_assert(!passes(&charge, 1));
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
    ck_assert(passes(&charge, 1));
    ck_assert(!passes(&charge, 1));
    charge.key.len -= 1;
    ck_assert(passes(&charge, 1));
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
    ck_assert(passes(charges, ARRAY_LEN(charges)));
    ck_assert(!passes(charges, ARRAY_LEN(charges)));
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
        ck_assert(passes(&charge, 1));
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
    ck_assert(!passes(charges, 2));
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
        ck_assert(!passes(charges, 2));
        ck_assert(!charges[0].charged);
        ck_assert_uint_eq(charges[0].verdict.remaining, left);
    }
    ck_assert(!passes(charges, 2));
    ck_assert_uint_eq(charges[0].verdict.remaining, 0);
    ck_assert(charges[0].verdict.reset_after <= 7 * DAY_US);
    ck_assert_uint_eq(charges[1].verdict.remaining, 2);
}
END_TEST

/* --- settlements, for one of each algorithm --- */

static int count_algorithms(void)
{
    size_t n;
    (void)algorithm_all(&n);
    return (int)n;
}

static struct charge charge_on(uint32_t limit, const char *key, uint32_t cost)
{
    return (struct charge){
        .limit = &contract_limits[limit],
        .key = span_of_text(key),
        .cost = cost,
        .slot = contract_limits[limit].algorithm->has_slots ? ++last_slot : 0,
    };
}

static bool taken(struct charge *charge)
{
    const bool admitted = passes(charge, 1);
    ck_assert(charge->charged == (admitted && charge->cost > 0));
    return admitted;
}

static void settle(const struct charge *charge, enum settlement_kind kind, int64_t delta)
{
    const struct settlement settlement = {
        .limit = charge->limit,
        .key = charge->key,
        .kind = kind,
        .delta = delta,
        .charged_at_us = charge->charged_at_us,
        .slot = charge->slot,
    };
    store_settle(contract->store(), &settlement, 1);
}

static uint64_t remaining_of(uint32_t limit, const char *key)
{
    struct charge charge = charge_on(limit, key, 0);
    ck_assert(taken(&charge));
    return charge.verdict.remaining;
}

START_TEST(each_algorithm_admits_its_capacity_and_takes_back_what_is_given_back)
{
    const uint32_t limit = FIRST_OF_EACH + (uint32_t)_i;
    const bool has_slots = contract_limits[limit].algorithm->has_slots;
    struct charge charge;
    for (uint64_t i = 0; i < EACH_UNITS; i++) {
        charge = charge_on(limit, "{a}", 1);
        ck_assert(taken(&charge));
        ck_assert_uint_eq(charge.verdict.remaining, EACH_UNITS - 1 - i);
    }
    struct charge denied = charge_on(limit, "{a}", 1);
    ck_assert(!taken(&denied));

    settle(&charge, has_slots ? SETTLE_RELEASE : SETTLE_COST, has_slots ? 0 : -1);
    ck_assert_uint_eq(remaining_of(limit, "{a}"), 1);
    ck_assert(taken(&charge));
    ck_assert(!taken(&denied));
}
END_TEST

START_TEST(each_algorithm_takes_a_cost_that_is_learnt_later)
{
    const uint32_t limit = FIRST_OF_EACH + (uint32_t)_i;
    if (contract_limits[limit].algorithm->settle == NULL) {
        return;
    }
    struct charge charge = charge_on(limit, "{a}", 1);
    ck_assert(taken(&charge));
    settle(&charge, SETTLE_COST, 2);
    ck_assert_uint_eq(remaining_of(limit, "{a}"), EACH_UNITS - 3);
}
END_TEST

START_TEST(each_algorithm_is_untouched_at_most_however_much_is_given_back)
{
    const uint32_t limit = FIRST_OF_EACH + (uint32_t)_i;
    struct charge charge = charge_on(limit, "{a}", 1);
    ck_assert(taken(&charge));
    settle(&charge, SETTLE_RELEASE, 0);
    settle(&charge, SETTLE_COST, contract_limits[limit].algorithm->settle == NULL ? 0 : -100);
    settle(&charge, SETTLE_COST, contract_limits[limit].algorithm->settle == NULL ? 0 : INT64_MIN);
    ck_assert_uint_eq(remaining_of(limit, "{a}"), EACH_UNITS);
    ck_assert_uint_eq(remaining_of(limit, "{b}"), EACH_UNITS);
}
END_TEST

START_TEST(settlements_of_one_request_are_made_together)
{
    struct charge charges[] = {
        charge_on(BUCKET, "{a}", 5),
        charge_on(WINDOW, "{a}", 5),
        charge_on(SLOTS, "{a}", 1),
    };
    ck_assert(passes(charges, 3));
    struct settlement settlements[3];
    for (size_t i = 0; i < 3; i++) {
        settlements[i] = (struct settlement){
            .limit = charges[i].limit,
            .key = charges[i].key,
            .kind = i == 2 ? SETTLE_RELEASE : SETTLE_COST,
            .delta = i == 2 ? 0 : -4,
            .charged_at_us = charges[i].charged_at_us,
            .slot = charges[i].slot,
        };
    }
    store_settle(contract->store(), settlements, 3);
    ck_assert_uint_eq(remaining_of(BUCKET, "{a}"), 9);
    ck_assert_uint_eq(remaining_of(WINDOW, "{a}"), 9);
    ck_assert_uint_eq(remaining_of(SLOTS, "{a}"), 2);
}
END_TEST

START_TEST(slots_are_taken_renewed_and_given_back_by_their_number)
{
    struct charge first = charge_on(SLOTS, "{a}", 1);
    struct charge second = charge_on(SLOTS, "{a}", 1);
    struct charge third = charge_on(SLOTS, "{a}", 1);
    ck_assert(taken(&first));
    ck_assert(taken(&second));
    ck_assert(!taken(&third));
    ck_assert(third.verdict.retry_after == RETRY_UNKNOWN);
    settle(&first, SETTLE_RENEW, 0);
    settle(&third, SETTLE_RENEW, 0);
    settle(&third, SETTLE_RELEASE, 0);
    ck_assert(!taken(&third));
    settle(&second, SETTLE_RELEASE, 0);
    settle(&second, SETTLE_RELEASE, 0);
    settle(&second, SETTLE_RENEW, 0);
    ck_assert(taken(&third));
    ck_assert_uint_eq(remaining_of(SLOTS, "{a}"), 0);
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
    tcase_add_loop_test(tcase, each_algorithm_admits_its_capacity_and_takes_back_what_is_given_back,
                        0, count_algorithms());
    tcase_add_loop_test(tcase, each_algorithm_takes_a_cost_that_is_learnt_later, 0,
                        count_algorithms());
    tcase_add_loop_test(tcase, each_algorithm_is_untouched_at_most_however_much_is_given_back, 0,
                        count_algorithms());
    tcase_add_test(tcase, settlements_of_one_request_are_made_together);
    tcase_add_test(tcase, slots_are_taken_renewed_and_given_back_by_their_number);
    tcase_add_test(tcase, an_answer_may_ask_again);
    tcase_add_test(tcase, a_cancelled_decision_is_not_answered);
    return tcase;
}
