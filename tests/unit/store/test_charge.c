#include "store/charge.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "memory_stage.h"
#include "store/store.h"

static const char FIRST[] = "{client.ip:9=192.0.2.1}";
static const char OTHER[] = "{client.ip:9=192.0.2.2}";

static struct charge charge_of(const char *key)
{
    return (struct charge){.key = span_of_text(key), .cost = 1};
}

static void assert_hash_of(struct hash128 hash, const char *key)
{
    const struct hash128 expected = hash_shared(span_of_text(key));
    ck_assert_mem_eq(&hash, &expected, sizeof(expected));
}

START_TEST(a_hash_is_the_same_kept_or_not)
{
    struct charge charge = charge_of(FIRST);
    assert_hash_of(charge_hash(&charge), FIRST);
    ck_assert(!charge.is_hashed);
    assert_hash_of(charges_keep_hash(&charge, 0), FIRST);
    ck_assert(charge.is_hashed);
    assert_hash_of(charge_hash(&charge), FIRST);
    assert_hash_of(charges_keep_hash(&charge, 0), FIRST);
    const struct charge copy = charge;
    assert_hash_of(charge_hash(&copy), FIRST);
}
END_TEST

/* The text is changed behind the charges' backs: who hashes it again has another hash. */
START_TEST(neighbours_that_are_charged_to_one_text_hash_it_once)
{
    char key[sizeof(FIRST)];
    memcpy(key, FIRST, sizeof(key));
    struct charge charges[] = {charge_of(key), charge_of(key), charge_of(key)};
    (void)charges_keep_hash(charges, 0);
    memcpy(key, OTHER, sizeof(key));
    assert_hash_of(charges_keep_hash(charges, 1), FIRST);
    assert_hash_of(charges_keep_hash(charges, 2), FIRST);
    assert_hash_of(charge_hash(&charges[2]), FIRST);
}
END_TEST

START_TEST(neighbours_of_other_texts_have_each_its_own_hash)
{
    struct charge charges[] = {
        charge_of(FIRST), charge_of(OTHER), charge_of(OTHER), {.key = span_of(OTHER, 3)}};
    assert_hash_of(charges_keep_hash(charges, 0), FIRST);
    assert_hash_of(charges_keep_hash(charges, 2), OTHER); /* the one before it has none yet */
    assert_hash_of(charges_keep_hash(charges, 1), OTHER);
    assert_hash_of(charges_keep_hash(charges, 3), "{cl");
}
END_TEST

static bool is_admitted_by(struct charge *charge)
{
    struct decision decision = {.charges = charge, .n_charges = 1};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_OK);
    return decision.allowed;
}

START_TEST(the_embedded_store_finds_one_state_by_a_hash_kept_or_not)
{
    const struct limit limit = bucket_of(2, 2, UINT64_C(10000000));
    struct charge kept = charge_of(FIRST);
    struct charge unkept = charge_of(FIRST);
    kept.limit = &limit;
    unkept.limit = &limit;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    (void)charges_keep_hash(&kept, 0);
    ck_assert(is_admitted_by(&kept));
    ck_assert(is_admitted_by(&unkept));
    ck_assert(!is_admitted_by(&kept));
    store_free(store);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/charge");
    TCase *tcase = tcase_create("hash");
    tcase_add_test(tcase, a_hash_is_the_same_kept_or_not);
    tcase_add_test(tcase, neighbours_that_are_charged_to_one_text_hash_it_once);
    tcase_add_test(tcase, neighbours_of_other_texts_have_each_its_own_hash);
    tcase_add_test(tcase, the_embedded_store_finds_one_state_by_a_hash_kept_or_not);
    suite_add_tcase(suite, tcase);

    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
