#include "store/memory_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "memory_stage.h"
#include "support/judge.h"
#include "support/store_contract.h"

static const uint64_t S = 1000000;

static void open_default(void)
{
    size_t n_limits;
    (void)store_contract_limits(&n_limits);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
}

static void close_default(void)
{
    store_free(store);
}

static struct store *get_store(void)
{
    return store;
}

static void await_nothing(const bool *answered)
{
    (void)answered;
    ck_abort_msg("the embedded store answers at once");
}

static const struct store_contract CONTRACT = {
    .open = open_default,
    .close = close_default,
    .store = get_store,
    .await = await_nothing,
};

/* --- time --- */

START_TEST(quota_comes_back_exactly_when_the_verdict_said)
{
    const struct limit limit = bucket_of(3, 2, 10 * S);
    struct verdict verdict;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(is_admitted(&limit, 1, 2));
    ck_assert(!ask(&limit, 1, 1, &verdict).allowed);
    now_us += verdict.retry_after - 1;
    ck_assert(!is_admitted(&limit, 1, 1));
    now_us += 1;
    ck_assert(is_admitted(&limit, 1, 1));
    store_free(store);
}
END_TEST

START_TEST(what_it_would_deny_is_said_and_nothing_is_charged)
{
    const struct limit limit = bucket_of(1, 1, 10 * S);
    struct charge charge = {.limit = &limit, .key = SPAN("{1}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(!store_denies(store, &decision));
        ck_assert_int_eq(decision.aim, DECISION_ADMIT);
    }
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert(decision.allowed);
    ck_assert(store_denies(store, &decision));
    now_us += 10 * S;
    ck_assert(!store_denies(store, &decision));
    store_free(store);
}
END_TEST

START_TEST(without_a_clock_of_the_callers_windows_are_those_of_the_wall)
{
    const struct limit_spec spec = {.algorithm = &fixed_window_algorithm,
                                    .rate = 5,
                                    .burst = 0,
                                    .period_us = UINT64_C(86400) * S};
    const struct memory_store_options options = {.memory_bytes = MEMORY_STORE_BYTES_MIN};
    struct limit limit = {.name = SPAN("daily")};
    struct verdict verdict;
    ck_assert_ptr_null(limit_init(&limit, &spec));
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_OK);

    ck_assert(ask(&limit, 1, 1, &verdict).allowed);
    const uint64_t left_s = 86400 - clock_wall_us() / S % 86400;
    const uint64_t reported_s = verdict.reset_after / S;
    ck_assert(reported_s + 5 >= left_s && reported_s <= left_s + 5);
    store_free(store);
}
END_TEST

START_TEST(a_decision_that_tells_when_it_is_asked_is_judged_at_that_time)
{
    const struct memory_store_options options = {.memory_bytes = MEMORY_STORE_BYTES_MIN};
    const struct limit limit = bucket_of(1, 1, 3600 * S);
    struct charge charge = {.limit = &limit, .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_OK);

    decision.now_us = clock_monotonic_us();
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert(decision.allowed);
    const uint64_t charged_at_us = charge.charged_at_us;
    decision.now_us += 3600 * S - 1;
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert(!decision.allowed);
    ck_assert_uint_eq(charge.verdict.retry_after, 1);
    decision.now_us++;
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert(decision.allowed);
    ck_assert_uint_eq(charge.charged_at_us - charged_at_us, 3600 * S);
    store_free(store);
}
END_TEST

/* As two workers do that charge in another order than that of their clocks. */
START_TEST(a_charge_by_a_clock_that_is_behind_is_refunded_whole)
{
    static const struct algorithm *const COUNTING[] = {
        &token_bucket_algorithm, &leaky_bucket_algorithm,   &gcra_algorithm,
        &fixed_window_algorithm, &sliding_window_algorithm, &sliding_log_algorithm,
    };
    struct limit limit = limit_of(COUNTING[_i], 10, 3600 * S);
    limit.params.burst = 10;
    limit.params.settles = true;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    const uint64_t start_us = now_us + 3600 * S - now_us % (3600 * S);

    for (int i = 0; i < 2; i++) {
        now_us = start_us - (uint64_t)i;
        struct charge charge = {.limit = &limit, .key = SPAN("{a}"), .cost = 1};
        struct decision decision = {.charges = &charge, .n_charges = 1};
        ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
        ck_assert(decision.allowed);
        ck_assert_uint_eq(charge.charged_at_us, start_us);
    }
    now_us = start_us;
    const struct settlement refund = {
        .limit = &limit, .key = SPAN("{a}"), .delta = -1, .charged_at_us = start_us};
    store_settle(store, &refund, 1);
    struct charge charge = {.limit = &limit, .key = SPAN("{a}")};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_uint_eq(charge.verdict.remaining, 9);
    store_free(store);
}
END_TEST

START_TEST(a_clock_that_is_set_back_is_followed)
{
    const struct limit limit = bucket_of(1, 1, 10 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(is_admitted(&limit, 1, 1));
    now_us -= 3600 * S;
    ck_assert(!is_admitted(&limit, 1, 1));
    now_us += 10 * S;
    ck_assert(is_admitted(&limit, 1, 1));
    store_free(store);
}
END_TEST

/* --- exactness --- */

static bool verdicts_are_equal(const struct verdict *a, const struct verdict *b)
{
    return a->allowed == b->allowed && a->limit == b->limit && a->remaining == b->remaining &&
           a->retry_after == b->retry_after && a->next_after == b->next_after &&
           a->reset_after == b->reset_after && a->wait == b->wait;
}

enum { N_STORY_KEYS = 40, ALGORITHMS_MAX = 16 };

/* Limits of every algorithm, some of them shadows or counting what is denied. */
static size_t fill_story_limits(struct limit *limits)
{
    size_t n;
    const struct algorithm *const *algorithms = algorithm_all(&n);
    ck_assert_uint_le(n, ALGORITHMS_MAX);
    for (size_t i = 0; i < n; i++) {
        limits[i] = limit_of(algorithms[i], 5 + (uint32_t)i, 3 * S);
        limits[i].shadow = i % 3 == 2;
        limits[i].charge_denied = i % 4 == 3;
    }
    return n;
}

START_TEST(a_random_story_of_all_algorithms_is_judged_as_the_rules_say)
{
    enum { N_DECISIONS = 20000, N_CHARGES_MAX = 3 };
    static struct judge_state states[ALGORITHMS_MAX][N_STORY_KEYS];
    struct limit limits[ALGORITHMS_MAX];
    const size_t n_limits = fill_story_limits(limits);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    srand(1);

    for (int i = 0; i < N_DECISIONS; i++) {
        struct charge charges[N_CHARGES_MAX];
        struct judge_charge expected[N_CHARGES_MAX];
        char keys[N_CHARGES_MAX][16];
        const size_t n = 1 + (size_t)rand() % N_CHARGES_MAX;
        const size_t first = (size_t)rand() % n_limits;
        for (size_t j = 0; j < n; j++) {
            const size_t at = (first + j) % n_limits;
            const int key = rand() % N_STORY_KEYS;
            const uint32_t cost = (uint32_t)rand() % 4;
            const uint64_t slot = (uint64_t)i * N_CHARGES_MAX + j;
            snprintf(keys[j], sizeof(keys[j]), "{%d}", key);
            charges[j] = (struct charge){
                .limit = &limits[at], .key = span_of_text(keys[j]), .cost = cost, .slot = slot};
            expected[j] = (struct judge_charge){
                .limit = &limits[at], .state = &states[at][key], .cost = cost, .slot = slot};
        }
        now_us += (uint64_t)rand() % 100000;
        struct decision decision = {.charges = charges, .n_charges = n};
        const enum store_outcome outcome = store_decide(store, &decision, NULL);
        bool same = outcome == STORE_ANSWERED && decision.status == STATUS_OK &&
                    decision.allowed == judge_decide(expected, n, now_us);
        for (size_t j = 0; j < n; j++) {
            same = same && verdicts_are_equal(&charges[j].verdict, &expected[j].verdict) &&
                   charges[j].charged == expected[j].charged;
        }
        ck_assert_msg(same, "decision %d", i);
    }
    ck_assert_uint_eq(count().n_evictions, 0);
    store_free(store);
}
END_TEST

/* --- room --- */

START_TEST(less_than_the_least_memory_is_refused)
{
    const struct memory_store_options options = {.memory_bytes = MEMORY_STORE_BYTES_MIN - 1};
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_INVALID);
}
END_TEST

START_TEST(only_what_was_charged_takes_room)
{
    const struct limit limit = bucket_of(5, 5, S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(is_admitted(&limit, 1, 0));
    ck_assert(!is_admitted(&limit, 2, 6));
    ck_assert_uint_eq(count().n_keys, 0);
    ck_assert(is_admitted(&limit, 3, 1));
    ck_assert_uint_eq(count().n_keys, 1);
    store_free(store);
}
END_TEST

START_TEST(memory_is_taken_from_the_kernel_only_as_it_is_used)
{
    struct rusage before;
    struct rusage after;
    const struct limit limit = bucket_of(5, 5, S);
    getrusage(RUSAGE_SELF, &before);
    open_with((size_t)1 << 30, MEMORY_FULL_DENY);
    ck_assert(is_admitted(&limit, 1, 1));
    getrusage(RUSAGE_SELF, &after);
    ck_assert_int_le(after.ru_maxrss - before.ru_maxrss, 8 * 1024);
    store_free(store);
}
END_TEST

START_TEST(the_cap_holds_however_many_keys_come_and_no_denied_one_is_dropped)
{
    enum { N_JUNK = 100000 };
    const struct limit limit = bucket_of(1, 3, 60 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(is_admitted(&limit, i, 3)); /* now empty */
    }
    ck_assert(is_admitted(&limit, 100, 1));
    ck_assert(!is_admitted(&limit, 100, 3)); /* two are left, but somebody was denied */
    ck_assert(all_are_admitted(&limit, 1000, N_JUNK));
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(!is_admitted(&limit, i, 1));
    }
    ck_assert(!is_admitted(&limit, 100, 3));

    const struct memory_store_counters counters = count();
    ck_assert_uint_le(counters.n_keys, counters.n_keys_max);
    ck_assert_uint_le(counters.n_keys_max * 64, MEMORY_STORE_BYTES_MIN);
    ck_assert_uint_ge(counters.n_keys_max * 80, MEMORY_STORE_BYTES_MIN);
    ck_assert_uint_ge(counters.n_evictions + counters.n_keys, N_JUNK + 101);
    ck_assert_uint_eq(counters.n_overflows, 0);
    store_free(store);
}
END_TEST

START_TEST(who_was_denied_is_not_dropped_though_a_smaller_request_passed_since)
{
    const struct limit limit = bucket_of(1, 3, 60 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(is_admitted(&limit, i, 1));
        ck_assert(!is_admitted(&limit, i, 3));
        ck_assert(is_admitted(&limit, i, 1));
    }
    ck_assert(all_are_admitted(&limit, 1000, 100000));
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(!is_admitted(&limit, i, 3));
    }
    store_free(store);
}
END_TEST

START_TEST(what_is_untouched_again_goes_first)
{
    const struct limit fast = bucket_of(1000, 3, S);
    const struct limit slow = bucket_of(1, 3, 3600 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    ck_assert(all_are_admitted(&slow, 0, 5000));
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(all_are_admitted(&fast, 10000 + i * 1000, 1000)); /* untouched again after 1 ms */
        now_us += 1000;
    }
    struct verdict verdict;
    uint64_t n_kept = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        (void)ask(&slow, i, 0, &verdict);
        n_kept += verdict.remaining == 2;
    }
    ck_assert_uint_eq(n_kept, 5000);
    ck_assert_uint_eq(count().n_evictions, 0);
    store_free(store);
}
END_TEST

START_TEST(full_of_denials_new_keys_share_one_state_per_limit_and_shard)
{
    const struct limit limit = bucket_of(1, 1, 3600 * S);
    uint64_t n_admitted = 0;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_OVERFLOW);

    const uint64_t first = fill_with_denials(&limit);
    for (uint64_t i = first; i < first + 10000; i++) {
        const struct decision decision = ask(&limit, i, 1, NULL);
        n_admitted += decision.status != STATUS_OK || decision.allowed;
    }
    ck_assert_uint_eq(n_admitted, 0); /* the shared states were spent while filling */
    ck_assert_uint_ge(count().n_overflows, 10000);
    ck_assert(!is_admitted(&limit, 0, 1));

    now_us += 3600 * S;
    ck_assert(is_admitted(&limit, first, 1));
    store_free(store);
}
END_TEST

START_TEST(full_of_denials_new_keys_are_refused_if_the_policy_says_deny)
{
    const struct limit limit = bucket_of(1, 1, 3600 * S);
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);

    const uint64_t first = fill_with_denials(&limit);
    ck_assert_int_eq(ask(&limit, first, 1, NULL).status, STATUS_FULL);
    ck_assert_int_eq(ask(&limit, first, 0, NULL).status, STATUS_OK);
    ck_assert_int_eq(ask(&limit, 0, 1, NULL).status, STATUS_OK);
    store_free(store);
}
END_TEST

START_TEST(full_of_denials_new_keys_pass_uncounted_if_the_policy_says_allow)
{
    const struct limit limit = bucket_of(1, 1, 3600 * S);
    struct verdict verdict;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_ALLOW);

    const uint64_t first = fill_with_denials(&limit);
    for (int i = 0; i < 3; i++) {
        ck_assert(ask(&limit, first, 1, &verdict).allowed);
        ck_assert_uint_eq(verdict.remaining, 1);
    }
    ck_assert(!is_admitted(&limit, 0, 1));
    store_free(store);
}
END_TEST

START_TEST(a_decision_that_finds_no_room_for_one_charge_takes_nothing_for_another)
{
    const struct limit denying = bucket_of(1, 1, 3600 * S);
    const struct limit other = named("other", bucket_of(1, 5, 3600 * S));
    struct verdict verdict;
    open_with(MEMORY_STORE_BYTES_MIN, MEMORY_FULL_DENY);
    ck_assert(is_admitted(&other, 7, 1));
    ck_assert(!is_admitted(&other, 7, 5)); /* denying, so that it stays */

    const uint64_t first = fill_with_denials(&denying);
    struct charge charges[] = {
        {.limit = &other, .key = SPAN("{7}"), .cost = 1},
        {.limit = &denying, .key = SPAN("{new}"), .cost = 1},
    };
    struct decision decision = {.charges = charges, .n_charges = 2};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_FULL);
    ck_assert_int_eq(ask(&other, 7, 0, &verdict).status, STATUS_OK);
    ck_assert_uint_eq(verdict.remaining, 4);
    ck_assert_uint_gt(first, 0);
    store_free(store);
}
END_TEST

static Suite *memory_store_suite(void)
{
    Suite *suite = suite_create("store/memory_store");
    suite_add_tcase(suite, store_contract_tcase(&CONTRACT));

    TCase *time = tcase_create("time");
    tcase_add_test(time, quota_comes_back_exactly_when_the_verdict_said);
    tcase_add_test(time, what_it_would_deny_is_said_and_nothing_is_charged);
    tcase_add_test(time, without_a_clock_of_the_callers_windows_are_those_of_the_wall);
    tcase_add_test(time, a_decision_that_tells_when_it_is_asked_is_judged_at_that_time);
    tcase_add_loop_test(time, a_charge_by_a_clock_that_is_behind_is_refunded_whole, 0, 6);
    tcase_add_test(time, a_clock_that_is_set_back_is_followed);
    suite_add_tcase(suite, time);

    TCase *exactness = tcase_create("exactness");
    tcase_add_test(exactness, a_random_story_of_all_algorithms_is_judged_as_the_rules_say);
    suite_add_tcase(suite, exactness);

    TCase *room = tcase_create("room");
    tcase_set_timeout(room, 60);
    tcase_add_test(room, less_than_the_least_memory_is_refused);
    tcase_add_test(room, only_what_was_charged_takes_room);
    tcase_add_test(room, memory_is_taken_from_the_kernel_only_as_it_is_used);
    tcase_add_test(room, the_cap_holds_however_many_keys_come_and_no_denied_one_is_dropped);
    tcase_add_test(room, who_was_denied_is_not_dropped_though_a_smaller_request_passed_since);
    tcase_add_test(room, what_is_untouched_again_goes_first);
    tcase_add_test(room, full_of_denials_new_keys_share_one_state_per_limit_and_shard);
    tcase_add_test(room, full_of_denials_new_keys_are_refused_if_the_policy_says_deny);
    tcase_add_test(room, full_of_denials_new_keys_pass_uncounted_if_the_policy_says_allow);
    tcase_add_test(room, a_decision_that_finds_no_room_for_one_charge_takes_nothing_for_another);
    suite_add_tcase(suite, room);

    return suite;
}

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(memory_store_suite());
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
