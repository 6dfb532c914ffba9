#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "memory_stage.h"
#include "store/operation.h"

static const uint64_t S = 1000000;

/* --- resets --- */

START_TEST(a_key_that_is_reset_is_as_never_seen_and_others_stay)
{
    const struct limit limit = bucket_of(1, 1, 3600 * S);
    const struct limit other = named("other", limit);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    ck_assert(is_admitted(&limit, 1, 1) && is_admitted(&limit, 2, 1) && is_admitted(&other, 1, 1));
    struct store_operation operation = {
        .kind = OPERATION_RESET, .limit = &limit, .key = SPAN("{1}")};
    for (int i = 0; i < 2; i++) { /* what is not there is forgotten, too */
        ck_assert_int_eq(store_run(store, &operation), STORE_ANSWERED);
        ck_assert_int_eq(operation.status, STATUS_OK);
        ck_assert(operation.was_local);
    }
    ck_assert(!is_admitted(&limit, 2, 1));
    ck_assert(!is_admitted(&other, 1, 1));
    ck_assert(is_admitted(&limit, 1, 1));
    ck_assert(!is_admitted(&limit, 1, 1));
    ck_assert_uint_eq(count().n_keys, 3);
    store_free(store);
}
END_TEST

/* --- limits share the memory --- */

enum { N_GUESSERS = 100 };

/* Charge 4 of 5 to N_GUESSERS keys of @guesses. */
static void use_most(const struct limit *guesses)
{
    for (uint64_t i = 0; i < N_GUESSERS; i++) {
        ck_assert(is_admitted(guesses, i, 4));
    }
}

static uint64_t count_forgotten(const struct limit *guesses)
{
    struct verdict verdict;
    uint64_t n = 0;
    for (uint64_t i = 0; i < N_GUESSERS; i++) {
        (void)ask(guesses, i, 0, &verdict);
        n += verdict.remaining != 1;
    }
    return n;
}

START_TEST(many_keys_of_a_long_window_do_not_push_out_those_of_another_limit)
{
    const struct limit guesses = limit_of(&fixed_window_algorithm, 5, 600 * S);
    const struct limit pages = limit_of(&fixed_window_algorithm, 1000, 86400 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    use_most(&guesses);
    ck_assert(all_are_admitted(&pages, 0, 100000));
    ck_assert_uint_eq(count_forgotten(&guesses), 0);
    ck_assert_uint_ge(count().n_evictions, 50000);
    store_free(store);
}
END_TEST

/* A hundred small limits and a large one, of identities that are equal in all bits but a few. */
START_TEST(limits_of_like_identities_do_not_push_out_states_of_each_other)
{
    const struct limit guesses = limit_of(&fixed_window_algorithm, 5, 600 * S);
    struct limit pages = limit_of(&fixed_window_algorithm, 1000, 86400 * S);
    pages.id = guesses.id;
    pages.id.low ^= UINT64_C(1) << 40;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    use_most(&guesses);
    for (uint64_t i = 1; i < 100; i++) {
        struct limit small = guesses;
        small.id.low ^= i << 16;
        ck_assert(is_admitted(&small, 1, 4));
    }
    ck_assert(all_are_admitted(&pages, 0, 100000));
    ck_assert_uint_eq(count_forgotten(&guesses), 0);
    for (uint64_t i = 1; i < 100; i++) {
        struct limit small = guesses;
        small.id.low ^= i << 16;
        ck_assert(!is_admitted(&small, 1, 2));
    }
    store_free(store);
}
END_TEST

START_TEST(many_keys_that_are_used_up_do_not_push_out_those_of_another_limit)
{
    const struct limit guesses = limit_of(&fixed_window_algorithm, 5, 600 * S);
    const struct limit pages = limit_of(&fixed_window_algorithm, 1, 86400 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    use_most(&guesses);
    (void)fill_with_denials(&pages);
    ck_assert_uint_eq(count_forgotten(&guesses), 0);
    ck_assert_uint_ge(count().n_overflows, 1000);
    store_free(store);
}
END_TEST

START_TEST(large_states_do_not_push_out_small_ones_of_another_limit)
{
    const struct limit guesses = limit_of(&fixed_window_algorithm, 5, 600 * S);
    const struct limit pages = limit_of(&sliding_window_algorithm, 1000, 86400 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    use_most(&guesses);
    ck_assert(all_are_admitted(&pages, 0, 100000));
    ck_assert_uint_eq(count_forgotten(&guesses), 0);
    store_free(store);
}
END_TEST

/* --- large states --- */

/* How many of @n requests on the key are admitted, a microsecond apart. */
static uint64_t count_admitted(const struct limit *limit, uint64_t number, uint64_t n)
{
    uint64_t n_admitted = 0;
    for (uint64_t i = 0; i < n; i++) {
        now_us++;
        n_admitted += is_admitted(limit, number, 1);
    }
    return n_admitted;
}

START_TEST(the_longest_log_fits_in_the_default_memory_and_is_exact)
{
    const uint64_t n = SLIDING_LOG_ENTRIES_MAX;
    const struct limit limit = limit_of(&sliding_log_algorithm, (uint32_t)n, 3600 * S);
    open_with((size_t)64 << 20, MEMORY_FULL_DENY);

    ck_assert_uint_eq(count_admitted(&limit, 1, n + 100), n);
    now_us += 3600 * S - n - 100;
    ck_assert_uint_eq(count_admitted(&limit, 1, n), n);
    ck_assert(!is_admitted(&limit, 1, 1));
    ck_assert_uint_eq(count().n_overflows, 0);
    store_free(store);
}
END_TEST

START_TEST(logs_grow_in_a_table_full_of_others_and_those_that_deny_stay)
{
    /* Which logs meet in one shard is chance: a shard has room for more of them than ever do. */
    enum { N_JUNK = 80000, N_DENIED = 300, N_LOGS = 20, N_ENTRIES = 500 };
    const struct limit junk = bucket_of(1, 3, 60 * S);
    const struct limit denied = bucket_of(1, 1, 3600 * S);
    const struct limit log = limit_of(&sliding_log_algorithm, N_ENTRIES, 3600 * S);
    open_with(4 * MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(all_are_admitted(&denied, 0, N_DENIED));
    ck_assert(all_are_admitted(&junk, 0, N_JUNK));
    for (uint64_t i = 0; i < N_LOGS; i++) {
        ck_assert_uint_eq(count_admitted(&log, i, N_ENTRIES + 10), N_ENTRIES);
        ck_assert(all_are_admitted(&junk, (i + 1) * N_JUNK, 1000));
    }
    for (uint64_t i = 0; i < N_LOGS; i++) {
        ck_assert(!is_admitted(&log, i, 1));
    }
    for (uint64_t i = 0; i < N_DENIED; i++) {
        ck_assert(!is_admitted(&denied, i, 1));
    }
    ck_assert_uint_eq(count().n_overflows, 0);
    store_free(store);
}
END_TEST

START_TEST(large_states_share_the_cap_with_small_ones_and_go_when_they_are_untouched)
{
    enum { N_KEYS = 20000 };
    const struct limit window = limit_of(&sliding_window_algorithm, 5, 10 * S);
    const struct limit bucket = bucket_of(1, 3, 60 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(all_are_admitted(&window, 0, N_KEYS));
    const uint64_t n_windows = count().n_keys;
    ck_assert_uint_ge(n_windows * 145, MEMORY_STORE_BYTES_MIN);
    ck_assert_uint_le(n_windows * 128, MEMORY_STORE_BYTES_MIN);
    now_us += 20 * S;
    const uint64_t n_evictions = count().n_evictions;
    /* Shards fill unevenly, by chance: three quarters of what fits leave each of them room. */
    ck_assert(all_are_admitted(&bucket, 0, n_windows * 3 / 2));
    ck_assert_uint_eq(count().n_evictions, n_evictions);
    store_free(store);
}
END_TEST

/* Fill the table with states that deny, and ask for more of one key than then fits. */
static uint64_t admitted_by_a_log_that_cannot_grow(enum memory_full full)
{
    const struct limit log = limit_of(&sliding_log_algorithm, 100, 3600 * S);
    const struct limit denied = bucket_of(1, 1, 3600 * S);
    open_with(MEMORY_STORE_BYTES_MIN, full);
    ck_assert(is_admitted(&log, 1, 1));
    ck_assert(!is_admitted(&log, 1, 100)); /* denying, so that it stays */
    (void)fill_with_denials(&denied);
    uint64_t n_admitted = 0;
    for (int i = 0; i < 300; i++) {
        n_admitted += is_admitted(&log, 1, 1);
    }
    ck_assert_uint_ge(count().n_overflows, 1);
    ck_assert(!is_admitted(&denied, 0, 1));
    store_free(store);
    return n_admitted;
}

START_TEST(a_log_that_cannot_grow_is_refused_shared_or_let_through_as_the_policy_says)
{
    ck_assert_uint_lt(admitted_by_a_log_that_cannot_grow(MEMORY_FULL_DENY), 100);
    ck_assert_uint_eq(admitted_by_a_log_that_cannot_grow(MEMORY_FULL_ALLOW), 300);
    const uint64_t n_shared = admitted_by_a_log_that_cannot_grow(MEMORY_FULL_OVERFLOW);
    ck_assert_uint_le(n_shared, 200);
}
END_TEST

/* --- slots and calendars --- */

static bool overflowed; /* the slot that was asked for last */

static struct decision ask_slot(const struct limit *limit, uint64_t slot)
{
    struct charge charge = {.limit = limit, .key = SPAN("{a}"), .cost = 1, .slot = slot};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_OK);
    overflowed = charge.overflowed;
    return decision;
}

static void settle_slot(const struct limit *limit, enum settlement_kind kind, uint64_t slot)
{
    const struct settlement settlement = {
        .limit = limit, .key = SPAN("{a}"), .kind = kind, .slot = slot, .overflowed = overflowed};
    store_settle(store, &settlement, 1);
}

START_TEST(a_slot_comes_back_when_its_lease_ends_unless_it_was_renewed)
{
    const struct limit limit = limit_of(&concurrency_algorithm, 2, 60 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(ask_slot(&limit, 1).allowed);
    ck_assert(ask_slot(&limit, 2).allowed);
    now_us += 30 * S;
    ck_assert(!ask_slot(&limit, 3).allowed);
    settle_slot(&limit, SETTLE_RENEW, 2);
    now_us += 30 * S;
    ck_assert(ask_slot(&limit, 3).allowed);
    ck_assert(!ask_slot(&limit, 4).allowed);
    now_us += 30 * S;
    ck_assert(ask_slot(&limit, 4).allowed);
    settle_slot(&limit, SETTLE_RENEW, 2);
    ck_assert(!ask_slot(&limit, 5).allowed);
    store_free(store);
}
END_TEST

START_TEST(a_slot_that_was_forgotten_with_its_key_is_taken_again)
{
    const struct limit limit = limit_of(&concurrency_algorithm, 2, 60 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(ask_slot(&limit, 1).allowed);
    ck_assert(ask_slot(&limit, 2).allowed);
    struct store_operation operation = {
        .kind = OPERATION_RESET, .limit = &limit, .key = SPAN("{a}")};
    ck_assert_int_eq(store_run(store, &operation), STORE_ANSWERED);
    ck_assert(ask_slot(&limit, 3).allowed);
    settle_slot(&limit, SETTLE_RENEW, 1);
    settle_slot(&limit, SETTLE_RENEW, 2);
    ck_assert(!ask_slot(&limit, 4).allowed);
    now_us += 61 * S; /* the machine was suspended */
    for (uint64_t slot = 1; slot < 4; slot++) {
        settle_slot(&limit, SETTLE_RENEW, slot);
    }
    settle_slot(&limit, SETTLE_RELEASE, 3);
    ck_assert(!ask_slot(&limit, 4).allowed);
    settle_slot(&limit, SETTLE_RELEASE, 1);
    ck_assert(ask_slot(&limit, 4).allowed);
    store_free(store);
}
END_TEST

/* --- costs that are learnt later --- */

static void take_more(const struct limit *limit, int64_t units, uint64_t charged_at_us)
{
    const struct settlement settlement = {
        .limit = limit, .key = SPAN("{1}"), .delta = units, .charged_at_us = charged_at_us};
    store_settle(store, &settlement, 1);
}

static uint64_t remaining_of(const struct limit *limit)
{
    struct verdict verdict;
    (void)ask(limit, 1, 0, &verdict);
    return verdict.remaining;
}

static const struct algorithm *const COUNTING[] = {
    &token_bucket_algorithm, &leaky_bucket_algorithm,   &gcra_algorithm,
    &fixed_window_algorithm, &sliding_window_algorithm, &sliding_log_algorithm,
};

START_TEST(a_cost_that_is_learnt_later_counts_though_its_key_was_forgotten)
{
    const struct limit limit = limit_of(COUNTING[_i], 10, 60 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    const uint64_t charged_at_us = now_us;
    ck_assert(is_admitted(&limit, 1, 1));
    struct store_operation operation = {
        .kind = OPERATION_RESET, .limit = &limit, .key = SPAN("{1}")};
    ck_assert_int_eq(store_run(store, &operation), STORE_ANSWERED);
    now_us += 300 * S;
    take_more(&limit, 4, charged_at_us);
    ck_assert_uint_eq(remaining_of(&limit), 6);
    take_more(&limit, -4, charged_at_us);
    ck_assert_uint_eq(remaining_of(&limit), 6);
    store_free(store);
}
END_TEST

START_TEST(a_log_that_cannot_grow_takes_what_is_learnt_later_all_the_same)
{
    enum { N_LATER = 300 };
    const struct limit log = limit_of(&sliding_log_algorithm, 1000, 3600 * S);
    const struct limit denied = bucket_of(1, 1, 3600 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    ck_assert(is_admitted(&log, 1, 1));
    ck_assert(!is_admitted(&log, 1, 1000)); /* denying, so that it stays */
    const uint64_t charged_at_us = now_us;
    (void)fill_with_denials(&denied);
    for (int i = 0; i < N_LATER; i++) {
        now_us++;
        take_more(&log, 1, charged_at_us);
    }
    ck_assert_uint_eq(remaining_of(&log), 1000 - 1 - N_LATER);
    store_free(store);
}
END_TEST

START_TEST(the_slots_of_a_key_without_room_are_given_back_too)
{
    const struct limit limit = limit_of(&concurrency_algorithm, 1, 3600 * S);
    const struct limit denied = bucket_of(1, 1, 3600 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_OVERFLOW);

    (void)fill_with_denials(&denied);
    for (uint64_t slot = 1; slot < 10; slot++) {
        ck_assert(ask_slot(&limit, slot).allowed);
        ck_assert(!ask_slot(&limit, 100 + slot).allowed);
        settle_slot(&limit, SETTLE_RELEASE, slot);
    }
    store_free(store);
}
END_TEST

/* The first charge stays, so that what is shared is never untouched. */
START_TEST(what_a_key_without_room_was_charged_is_refunded)
{
    const struct limit limit = named("another", bucket_of(5, 5, 3600 * S));
    const struct limit denied = bucket_of(1, 1, 3600 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_OVERFLOW);

    (void)fill_with_denials(&denied);
    for (int i = 0; i < 5; i++) {
        struct charge charge = {.limit = &limit, .key = SPAN("{a}"), .cost = 1};
        struct decision decision = {.charges = &charge, .n_charges = 1};
        ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
        ck_assert(decision.allowed && charge.overflowed);
        ck_assert_uint_eq(charge.verdict.remaining, i == 0 ? 4 : 3);
        const struct settlement refund = {.limit = &limit,
                                          .key = charge.key,
                                          .delta = i == 0 ? 0 : -1,
                                          .charged_at_us = charge.charged_at_us,
                                          .overflowed = charge.overflowed};
        store_settle(store, &refund, 1);
    }
    store_free(store);
}
END_TEST

START_TEST(a_time_outside_the_calendar_decides_nothing)
{
    const struct limit_spec spec = {.algorithm = &fixed_window_algorithm,
                                    .rate = 5,
                                    .period_us = UINT64_C(86400) * S,
                                    .is_calendar = true};
    struct limit limit = {.name = SPAN("daily")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    const uint64_t day_us = spec.period_us;
    const uint64_t edges[LIMIT_EDGES] = {now_us - day_us, now_us - 1, now_us + day_us,
                                         now_us + 2 * day_us};
    struct charge charge = {.limit = &limit, .key = SPAN("{a}"), .cost = 1, .edges = edges};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert(charge.charged);
    ck_assert_uint_eq(charge.verdict.remaining, 4);

    now_us += 3 * day_us;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
        ck_assert_int_eq(decision.status, STATUS_INVALID);
    }
    now_us -= 3 * day_us;
    charge.edges = NULL; /* nor does the proxy know the window of its clock */
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_INVALID);
    charge.edges = edges;
    const struct settlement settlement = {
        .limit = &limit, .key = SPAN("{a}"), .delta = -1, .charged_at_us = charge.charged_at_us};
    store_settle(store, &settlement, 1);
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_uint_eq(charge.verdict.remaining, 4);
    store_free(store);
}
END_TEST

static Suite *memory_states_suite(void)
{
    Suite *suite = suite_create("store/memory_states");

    TCase *large = tcase_create("large states");
    tcase_set_timeout(large, 60);
    tcase_add_test(large, a_key_that_is_reset_is_as_never_seen_and_others_stay);
    tcase_add_test(large, many_keys_of_a_long_window_do_not_push_out_those_of_another_limit);
    tcase_add_test(large, limits_of_like_identities_do_not_push_out_states_of_each_other);
    tcase_add_test(large, many_keys_that_are_used_up_do_not_push_out_those_of_another_limit);
    tcase_add_test(large, large_states_do_not_push_out_small_ones_of_another_limit);
    tcase_add_test(large, the_longest_log_fits_in_the_default_memory_and_is_exact);
    tcase_add_test(large, logs_grow_in_a_table_full_of_others_and_those_that_deny_stay);
    tcase_add_test(large,
                   large_states_share_the_cap_with_small_ones_and_go_when_they_are_untouched);
    tcase_add_test(large,
                   a_log_that_cannot_grow_is_refused_shared_or_let_through_as_the_policy_says);
    tcase_add_test(large, a_slot_comes_back_when_its_lease_ends_unless_it_was_renewed);
    tcase_add_test(large, a_slot_that_was_forgotten_with_its_key_is_taken_again);
    tcase_add_loop_test(large, a_cost_that_is_learnt_later_counts_though_its_key_was_forgotten, 0,
                        ARRAY_LEN(COUNTING));
    tcase_add_test(large, a_log_that_cannot_grow_takes_what_is_learnt_later_all_the_same);
    tcase_add_test(large, the_slots_of_a_key_without_room_are_given_back_too);
    tcase_add_test(large, what_a_key_without_room_was_charged_is_refunded);
    tcase_add_test(large, a_time_outside_the_calendar_decides_nothing);
    suite_add_tcase(suite, large);

    return suite;
}

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(memory_states_suite());
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
