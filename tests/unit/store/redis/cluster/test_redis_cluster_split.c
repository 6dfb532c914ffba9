/* Which charges of a decision are asked together, and in which order. */

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "store/redis/cluster/redis_cluster.h"

enum { AMPLE, SHAPING, STRICT, SHADOW };

/* Of slots in this order. */
static const char LOW[] = "{b}";
static const char HIGH[] = "{a}";

static struct limit limits[] = {
    [AMPLE] = {.name = {"ample", 5}},
    [SHAPING] = {.name = {"shaping", 7}, .params = {.max_wait = 1}},
    [STRICT] = {.name = {"strict", 6}},
    [SHADOW] = {.name = {"shadow", 6}, .params = {.max_wait = 1}, .shadow = true},
};

static struct redis_cluster cluster;
static struct charge charges[LIMITS_PER_ROUTE_MAX];
static struct decision decision;
static struct redis_cluster_ticket ticket;

static void setup(void)
{
    cluster = (struct redis_cluster){.prefix = SPAN("test")};
    pool_init(&cluster.spreads, sizeof(struct redis_cluster_spread), 1);
    decision = (struct decision){.charges = charges};
    ticket = (struct redis_cluster_ticket){.cluster = &cluster, .decision = &decision};
}

static void teardown(void)
{
    pool_give(&cluster.spreads, ticket.spread);
    pool_close(&cluster.spreads);
}

static void charge(size_t limit, const char *key)
{
    charges[decision.n_charges++] =
        (struct charge){.limit = &limits[limit], .key = span_of_text(key), .cost = 1};
}

static void assert_asks(size_t part, size_t i, size_t limit)
{
    ck_assert_uint_lt(part, ticket.n_parts);
    ck_assert_uint_lt(i, ticket.parts[part].decision.n_charges);
    ck_assert_ptr_eq(ticket.parts[part].decision.charges[i].limit, &limits[limit]);
}

START_TEST(charges_of_one_slot_are_one_part_which_is_the_decision)
{
    charge(SHAPING, HIGH);
    charge(STRICT, HIGH);
    ck_assert_int_eq(redis_cluster_split(&ticket), STATUS_OK);
    ck_assert_uint_eq(ticket.n_parts, 1);
    ck_assert_ptr_eq(ticket.parts[0].decision.charges, charges);
    ck_assert_uint_eq(ticket.parts[0].decision.n_charges, 2);
}
END_TEST

START_TEST(parts_are_in_the_order_of_their_slots)
{
    charge(AMPLE, HIGH);
    charge(STRICT, LOW);
    charge(STRICT, HIGH);
    ck_assert_int_eq(redis_cluster_split(&ticket), STATUS_OK);
    ck_assert_uint_eq(ticket.n_parts, 2);
    ck_assert_uint_lt(ticket.parts[0].slot, ticket.parts[1].slot);
    assert_asks(0, 0, STRICT);
    assert_asks(1, 0, AMPLE);
    assert_asks(1, 1, STRICT);
    ck_assert_uint_eq(ticket.spread->of[0], 1);
}
END_TEST

START_TEST(a_hash_that_was_kept_goes_with_its_charge)
{
    charge(AMPLE, HIGH);
    charge(STRICT, LOW);
    const struct hash128 high = charges_keep_hash(charges, 0);
    const struct hash128 low = charges_keep_hash(charges, 1);
    ck_assert_int_eq(redis_cluster_split(&ticket), STATUS_OK);
    ck_assert_uint_eq(ticket.n_parts, 2);
    const struct charge *first = &ticket.parts[0].decision.charges[0];
    const struct charge *second = &ticket.parts[1].decision.charges[0];
    ck_assert(first->is_hashed);
    ck_assert_mem_eq(&first->hash, &low, sizeof(low));
    ck_assert(second->is_hashed);
    ck_assert_mem_eq(&second->hash, &high, sizeof(high));
}
END_TEST

START_TEST(the_slot_of_what_shapes_is_the_last)
{
    charge(SHAPING, LOW);
    charge(STRICT, LOW);
    charge(AMPLE, HIGH);
    ck_assert_int_eq(redis_cluster_split(&ticket), STATUS_OK);
    ck_assert_uint_eq(ticket.n_parts, 2);
    assert_asks(0, 0, AMPLE);
    ck_assert_uint_eq(ticket.parts[1].decision.n_charges, 2);
}
END_TEST

START_TEST(a_shadow_that_shapes_holds_nobody_and_is_asked_like_any_other)
{
    charge(SHAPING, LOW);
    charge(SHADOW, HIGH);
    ck_assert_int_eq(redis_cluster_split(&ticket), STATUS_OK);
    assert_asks(0, 0, SHADOW);
    assert_asks(1, 0, SHAPING);
}
END_TEST

START_TEST(key_by_key_what_shapes_is_the_last_of_its_slot_too)
{
    charge(SHAPING, LOW);
    charge(STRICT, LOW);
    charge(AMPLE, HIGH);
    ck_assert_int_eq(redis_cluster_split_by_key(&ticket), STATUS_OK);
    ck_assert_uint_eq(ticket.n_parts, 3);
    assert_asks(0, 0, AMPLE);
    assert_asks(1, 0, STRICT);
    assert_asks(2, 0, SHAPING);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_cluster_split");
    TCase *tcase = tcase_create("split");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, charges_of_one_slot_are_one_part_which_is_the_decision);
    tcase_add_test(tcase, parts_are_in_the_order_of_their_slots);
    tcase_add_test(tcase, a_hash_that_was_kept_goes_with_its_charge);
    tcase_add_test(tcase, the_slot_of_what_shapes_is_the_last);
    tcase_add_test(tcase, a_shadow_that_shapes_holds_nobody_and_is_asked_like_any_other);
    tcase_add_test(tcase, key_by_key_what_shapes_is_the_last_of_its_slot_too);
    suite_add_tcase(suite, tcase);

    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int n_failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
