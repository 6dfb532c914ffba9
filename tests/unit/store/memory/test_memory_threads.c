/* The embedded store under many threads: what it admits is what one thread would. */

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/memory_store.h"

enum {
    N_THREADS = 8,
    N_ASKED = 4000, /* by each thread */
    UNITS = 5000,
};

static struct store *store;
static struct limit hot;
static struct limit wide;
static atomic_uint n_admitted;

static uint64_t stand_still(void *context)
{
    (void)context;
    return UINT64_C(1763667890123456);
}

static void setup(void)
{
    const struct limit_spec hot_spec = {.algorithm = &token_bucket_algorithm,
                                        .rate = UNITS,
                                        .burst = UNITS,
                                        .period_us = 3600000000};
    const struct limit_spec wide_spec = {
        .algorithm = &token_bucket_algorithm, .rate = 100, .burst = 100, .period_us = 3600000000};
    const struct memory_store_options options = {
        .memory_bytes = MEMORY_STORE_BYTES_MIN,
        .full = MEMORY_FULL_OVERFLOW,
        .now_us = stand_still,
    };
    hot = (struct limit){.name = SPAN("hot")};
    wide = (struct limit){.name = SPAN("wide")};
    ck_assert_ptr_null(limit_init(&hot, &hot_spec));
    ck_assert_ptr_null(limit_init(&wide, &wide_spec));
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_OK);
    n_admitted = 0;
}

static void teardown(void)
{
    store_free(store);
}

static void run_threads(void *(*run)(void *))
{
    pthread_t threads[N_THREADS];
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void *hammer_one_key(void *unused)
{
    (void)unused;
    for (int i = 0; i < N_ASKED; i++) {
        struct charge charge = {.limit = &hot, .key = SPAN("{hot}"), .cost = 1};
        struct decision decision = {.charges = &charge, .n_charges = 1};
        if (store_decide(store, &decision, NULL) == STORE_ANSWERED && decision.allowed) {
            n_admitted++;
        }
    }
    return NULL;
}

START_TEST(threads_on_one_key_admit_exactly_its_limit)
{
    run_threads(hammer_one_key);
    ck_assert_uint_eq(n_admitted, UNITS);
}
END_TEST

/* The keys of a decision come in another order in each thread, and lie in several shards. */
static void *hammer_several_keys(void *number)
{
    enum { N_CHARGES = 6 };
    for (uintptr_t i = 0; i < N_ASKED; i++) {
        struct charge charges[N_CHARGES];
        char keys[N_CHARGES][16];
        for (uintptr_t j = 0; j < N_CHARGES; j++) {
            const uintptr_t key = (j + (uintptr_t)number + i) % N_CHARGES;
            snprintf(keys[j], sizeof(keys[j]), "{%u}", (unsigned)key);
            charges[j] = (struct charge){.limit = &hot, .key = span_of_text(keys[j]), .cost = 1};
        }
        struct decision decision = {.charges = charges, .n_charges = N_CHARGES};
        if (store_decide(store, &decision, NULL) == STORE_ANSWERED && decision.allowed) {
            n_admitted++;
        }
    }
    return NULL;
}

START_TEST(threads_on_several_keys_at_once_neither_block_nor_admit_more)
{
    run_threads(hammer_several_keys);
    ck_assert_uint_eq(n_admitted, UNITS);
}
END_TEST

static void *hammer_new_keys(void *number)
{
    struct memory_store_counters counters;
    for (uintptr_t i = 0; i < N_ASKED * 4; i++) {
        char key[32];
        snprintf(key, sizeof(key), "{%u.%u}", (unsigned)(uintptr_t)number, (unsigned)i);
        struct charge charge = {.limit = &wide, .key = span_of_text(key), .cost = 1};
        struct decision decision = {.charges = &charge, .n_charges = 1};
        if (store_decide(store, &decision, NULL) == STORE_ANSWERED && decision.allowed) {
            n_admitted++;
        }
    }
    memory_store_count(store, &counters);
    return NULL;
}

START_TEST(threads_that_overfill_the_table_keep_it_whole)
{
    struct memory_store_counters counters;
    run_threads(hammer_new_keys);
    memory_store_count(store, &counters);
    ck_assert_uint_eq(n_admitted, N_THREADS * N_ASKED * 4);
    ck_assert_uint_le(counters.n_keys, counters.n_keys_max);
    ck_assert_uint_eq(counters.n_keys + counters.n_evictions, N_THREADS * N_ASKED * 4);
}
END_TEST

static struct limit slots;
static atomic_uint n_held;

static void give_back(const struct charge *charge, enum settlement_kind kind, int64_t delta)
{
    const struct settlement settlement = {
        .limit = charge->limit,
        .key = charge->key,
        .kind = kind,
        .delta = delta,
        .charged_at_us = charge->charged_at_us,
        .slot = charge->slot,
    };
    store_settle(store, &settlement, 1);
}

/* Take a slot and a unit of the log, keep them for a moment, give both back. */
static void *hold_slots(void *number)
{
    enum { SLOTS = 3 };
    for (uintptr_t i = 1; i <= N_ASKED; i++) {
        struct charge charges[] = {
            {.limit = &slots, .key = SPAN("{a}"), .cost = 1, .slot = (uintptr_t)number << 32 | i},
            {.limit = &hot, .key = SPAN("{a}"), .cost = 1},
        };
        struct decision decision = {.charges = charges, .n_charges = 2};
        if (store_decide(store, &decision, NULL) != STORE_ANSWERED || !decision.allowed) {
            continue;
        }
        n_admitted += n_held++ >= SLOTS; /* one too many */
        give_back(&charges[0], SETTLE_RENEW, 0);
        n_held--;
        give_back(&charges[1], SETTLE_COST, -1);
        give_back(&charges[0], SETTLE_RELEASE, 0);
    }
    return NULL;
}

START_TEST(threads_never_hold_more_slots_than_there_are_and_give_all_back)
{
    const struct limit_spec spec = {
        .algorithm = &concurrency_algorithm, .rate = 3, .lease_us = 3600000000};
    const struct limit_spec log = {
        .algorithm = &sliding_log_algorithm, .rate = UNITS, .period_us = 3600000000};
    slots = (struct limit){.name = SPAN("slots")};
    hot = (struct limit){.name = SPAN("hot")};
    ck_assert_ptr_null(limit_init(&slots, &spec));
    ck_assert_ptr_null(limit_init(&hot, &log));
    n_held = 0;
    run_threads(hold_slots);
    ck_assert_uint_eq(n_admitted, 0);
    struct charge charges[] = {
        {.limit = &slots, .key = SPAN("{a}")},
        {.limit = &hot, .key = SPAN("{a}")},
    };
    struct decision decision = {.charges = charges, .n_charges = 2};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_uint_eq(charges[0].verdict.remaining, 3);
    ck_assert_uint_eq(charges[1].verdict.remaining, UNITS);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/memory_threads");
    TCase *threads = tcase_create("threads");
    tcase_set_timeout(threads, 60);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_test(threads, threads_on_one_key_admit_exactly_its_limit);
    tcase_add_test(threads, threads_on_several_keys_at_once_neither_block_nor_admit_more);
    tcase_add_test(threads, threads_that_overfill_the_table_keep_it_whole);
    tcase_add_test(threads, threads_never_hold_more_slots_than_there_are_and_give_all_back);
    suite_add_tcase(suite, threads);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
