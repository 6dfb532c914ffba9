#include "support/store_contract_settlements.h"

#include <stdint.h>

#include "base/compiler.h"
#include "limit/algorithms.h"
#include "support/store_contract.h"
#include "support/store_contract_limits.h"

static uint64_t last_slot;

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
    const bool admitted = store_contract_passes(charge, 1);
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
    store_settle(store_contract_store(), &settlement, 1);
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
    ck_assert(store_contract_passes(charges, 3));
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
    store_settle(store_contract_store(), settlements, 3);
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
    settle(&third, SETTLE_RELEASE, 0);
    ck_assert(!taken(&third));
    settle(&second, SETTLE_RELEASE, 0);
    settle(&second, SETTLE_RELEASE, 0);
    ck_assert(taken(&third));
    ck_assert_uint_eq(remaining_of(SLOTS, "{a}"), 0);
}
END_TEST

/* As after a restart of Redis: what is under way counts again, also where the key is gone, and is
 * given back as ever. */
START_TEST(a_slot_that_the_store_has_lost_is_taken_again_by_its_renewal)
{
    struct charge lost[3];
    ck_assert_uint_eq(remaining_of(SLOTS, "{lost}"), 2); /* from now on it can be reached */
    for (size_t i = 0; i < 3; i++) {
        lost[i] = charge_on(SLOTS, "{lost}", 1);
        settle(&lost[i], SETTLE_RENEW, 0);
        (void)remaining_of(SLOTS, "{lost}"); /* meanwhile the store may learn that it is lost */
        ck_assert_uint_eq(remaining_of(SLOTS, "{lost}"), i == 0 ? 1 : 0);
    }
    struct charge other = charge_on(SLOTS, "{lost}", 1);
    ck_assert(!taken(&other));
    settle(&lost[0], SETTLE_RELEASE, 0);
    ck_assert(!taken(&other));
    settle(&lost[1], SETTLE_RELEASE, 0);
    ck_assert(taken(&other));
    settle(&other, SETTLE_RELEASE, 0);
    settle(&lost[2], SETTLE_RELEASE, 0);
    ck_assert_uint_eq(remaining_of(SLOTS, "{lost}"), 2);
}
END_TEST

void store_contract_add_settlements(TCase *tcase)
{
    tcase_add_loop_test(tcase, each_algorithm_admits_its_capacity_and_takes_back_what_is_given_back,
                        0, count_algorithms());
    tcase_add_loop_test(tcase, each_algorithm_takes_a_cost_that_is_learnt_later, 0,
                        count_algorithms());
    tcase_add_loop_test(tcase, each_algorithm_is_untouched_at_most_however_much_is_given_back, 0,
                        count_algorithms());
    tcase_add_test(tcase, settlements_of_one_request_are_made_together);
    tcase_add_test(tcase, slots_are_taken_renewed_and_given_back_by_their_number);
    tcase_add_test(tcase, a_slot_that_the_store_has_lost_is_taken_again_by_its_renewal);
}
