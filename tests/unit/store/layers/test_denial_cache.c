/* The denial cache over a store that is told when to answer, by a clock that is told the time. */

#include "store/layers.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "limit/algorithms.h"
#include "scripted_store.h"

enum { MS = 1000, S = 1000 * 1000 };

/* What the bucket, of 10 units, says to 4: one comes every 100 ms. */
static const struct verdict DENIED = {
    .limit = 10,
    .remaining = 1,
    .retry_after = 300 * MS,
    .next_after = 100 * MS,
    .reset_after = 900 * MS,
};
static const struct verdict ALLOWED = {
    .allowed = true,
    .limit = 10,
    .remaining = 7,
    .next_after = 50 * MS,
    .reset_after = 5 * S,
};

static struct scripted_store below;
static struct store *store;
static struct denial_cache_meters meters;
static uint64_t now_us;
static atomic_uint_fast64_t n_forgets;
static struct limit bucket;
static struct limit window;

static uint64_t read_time(void *context)
{
    (void)context;
    return now_us;
}

static struct limit make(const struct algorithm *algorithm)
{
    const struct limit_spec spec = {
        .algorithm = algorithm, .rate = 10, .burst = 10, .period_us = S, .lease_us = S};
    struct limit limit = {.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    return limit;
}

static void setup(void)
{
    const struct denial_cache_options options = {
        .meters = &meters, .now_us = read_time, .n_forgets = &n_forgets};
    bucket = make(&token_bucket_algorithm);
    window = make(&fixed_window_algorithm);
    now_us = 1000 * (uint64_t)S;
    scripted_store_init(&below);
    meters = (struct denial_cache_meters){0};
    ck_assert_int_eq(denial_cache_new(&below.store, &options, &store), STATUS_OK);
}

static void teardown(void)
{
    store_free(store);
    ck_assert(below.is_freed);
}

static void on_answer(struct decision *decision)
{
    (void)decision;
}

static struct charge charge_of(const struct limit *limit, const char *key, uint32_t cost)
{
    return (struct charge){.limit = limit, .key = span_of_text(key), .cost = cost};
}

static struct decision decision_of(struct charge *charges, size_t n)
{
    return (struct decision){.charges = charges, .n_charges = n};
}

/* Whether the cache denies it, as it says before; otherwise nobody waits for the answer. */
static bool is_denied_here(struct charge *charges, size_t n)
{
    struct decision decision = decision_of(charges, n);
    const uint64_t n_answers = counter_read(&meters.answers);
    const bool is_announced = store_denies(store, &decision);
    ck_assert_uint_eq(counter_read(&meters.answers), n_answers);
    const enum store_outcome outcome = store_decide(store, &decision, on_answer);
    ck_assert_int_eq(is_announced, outcome == STORE_ANSWERED);
    if (outcome == STORE_PENDING) {
        store_cancel(&decision);
        return false;
    }
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert_int_eq(decision.source, DECISION_CACHE);
    ck_assert_int_eq(decision.fault, REDIS_FAULT_NONE);
    ck_assert_int_eq(decision.failure, STATUS_OK);
    ck_assert_uint_eq(decision.n_frames, 0);
    ck_assert(!decision.allowed);
    return true;
}

static bool is_key_denied_here(const char *key, uint32_t cost)
{
    struct charge charge = charge_of(&bucket, key, cost);
    return is_denied_here(&charge, 1);
}

/* Let the store below say @verdicts to @charges after @took_us; deny unless all allow. */
static void let_answer(struct charge *charges, const struct verdict *verdicts, size_t n,
                       uint64_t took_us)
{
    struct decision decision = decision_of(charges, n);
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    now_us += took_us;
    decision.allowed = true;
    for (size_t i = 0; i < n; i++) {
        charges[i].verdict = verdicts[i];
        decision.allowed &= verdicts[i].allowed || charges[i].limit->shadow;
    }
    decision.status = STATUS_OK;
    store_answer(&decision);
    ck_assert_int_eq(decision.source, DECISION_REDIS);
}

static void deny(const char *key, uint32_t cost)
{
    struct charge charge = charge_of(&bucket, key, cost);
    let_answer(&charge, &DENIED, 1, 0);
}

START_TEST(a_denial_holds_until_its_retry_after_and_not_longer)
{
    deny("{a}", 4);
    now_us += 300 * MS - 1;
    ck_assert(is_key_denied_here("{a}", 4));
    now_us += 1;
    ck_assert(!is_key_denied_here("{a}", 4));
    ck_assert_uint_eq(counter_read(&meters.answers), 1);
}
END_TEST

START_TEST(it_is_counted_from_when_it_was_asked)
{
    struct charge charge = charge_of(&bucket, "{a}", 4);
    let_answer(&charge, &DENIED, 1, 20 * MS);
    now_us += 280 * MS - 1;
    ck_assert(is_key_denied_here("{a}", 4));
    now_us += 1;
    ck_assert(!is_key_denied_here("{a}", 4));
}
END_TEST

START_TEST(an_answer_that_came_after_its_time_is_not_remembered)
{
    struct charge charge = charge_of(&bucket, "{a}", 4);
    let_answer(&charge, &DENIED, 1, 300 * MS);
    ck_assert(!is_key_denied_here("{a}", 4));
}
END_TEST

START_TEST(it_holds_for_one_second_at_most)
{
    const uint64_t long_after[] = {60 * (uint64_t)S, RETRY_NEVER};
    for (size_t i = 0; i < ARRAY_LEN(long_after); i++) {
        struct charge charge = charge_of(&bucket, i == 0 ? "{a}" : "{b}", 4);
        struct verdict verdict = DENIED;
        verdict.retry_after = long_after[i];
        let_answer(&charge, &verdict, 1, 0);
        now_us += S - 1;
        ck_assert(is_denied_here(&charge, 1));
        ck_assert_uint_eq(charge.verdict.retry_after, i == 0 ? 59 * S + 1 : RETRY_NEVER);
        now_us += 1;
        ck_assert(!is_denied_here(&charge, 1));
    }
}
END_TEST

START_TEST(the_times_are_counted_down_to_the_tick)
{
    struct charge charge = charge_of(&bucket, "{a}", 4);
    let_answer(&charge, &DENIED, 1, 10 * MS);
    now_us += 99 * MS;
    ck_assert(is_denied_here(&charge, 1));
    ck_assert(!charge.verdict.allowed);
    ck_assert_uint_eq(charge.verdict.limit, 10);
    ck_assert_uint_eq(charge.verdict.remaining, 1);
    ck_assert_uint_eq(charge.verdict.retry_after, 201 * MS);
    ck_assert_uint_eq(charge.verdict.next_after, 1 * MS);
    ck_assert_uint_eq(charge.verdict.reset_after, 801 * MS);
    ck_assert_uint_eq(charge.verdict.wait, 0);
    now_us += 2 * MS;
    ck_assert(is_denied_here(&charge, 1));
    ck_assert_uint_eq(charge.verdict.next_after, 1); /* any moment */
}
END_TEST

START_TEST(a_coarse_tick_is_counted_down_in_whole_ones)
{
    bucket.tick_us = 1000;
    struct charge charge = charge_of(&bucket, "{a}", 4);
    const struct verdict verdict = {.limit = 10, .retry_after = 500, .next_after = 100};
    let_answer(&charge, &verdict, 1, 0);
    now_us += 1999;
    ck_assert(is_denied_here(&charge, 1));
    ck_assert_uint_eq(charge.verdict.retry_after, 499);
}
END_TEST

START_TEST(it_holds_for_as_much_or_more_and_not_for_less)
{
    struct charge charge = charge_of(&bucket, "{a}", 5);
    deny("{a}", 4);
    ck_assert(!is_key_denied_here("{a}", 3));
    ck_assert(is_key_denied_here("{a}", 4));
    ck_assert(is_denied_here(&charge, 1));
    ck_assert_uint_eq(charge.verdict.retry_after, 300 * MS);
    charge.cost = 11;
    ck_assert(is_denied_here(&charge, 1));
    ck_assert_uint_eq(charge.verdict.retry_after, RETRY_NEVER);
}
END_TEST

START_TEST(it_is_of_that_limit_and_key_alone)
{
    struct charge other = charge_of(&window, "{a}", 4);
    deny("{a}", 4);
    ck_assert(!is_key_denied_here("{b}", 4));
    ck_assert(!is_denied_here(&other, 1));
}
END_TEST

START_TEST(what_is_admitted_or_failed_is_not_remembered)
{
    struct charge charge = charge_of(&bucket, "{a}", 4);
    let_answer(&charge, &ALLOWED, 1, 0);
    ck_assert(!is_denied_here(&charge, 1));

    struct decision decision = decision_of(&charge, 1);
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    charge.verdict = DENIED;
    scripted_store_fail(&below, below.n_asked - 1, STATUS_TIMEOUT);
    ck_assert(!is_denied_here(&charge, 1));
}
END_TEST

START_TEST(the_whole_request_is_told_as_it_was)
{
    struct charge charges[] = {charge_of(&window, "{a}", 1), charge_of(&bucket, "{a}", 4)};
    const struct verdict verdicts[] = {ALLOWED, DENIED};
    let_answer(charges, verdicts, 2, 0);
    now_us += 20 * MS;
    charges[0].charged = true;
    ck_assert(is_denied_here(charges, 2));
    ck_assert(charges[0].verdict.allowed);
    ck_assert(!charges[0].unreported);
    ck_assert(!charges[0].charged);
    ck_assert_uint_eq(charges[0].verdict.remaining, 7);
    ck_assert_uint_eq(charges[0].verdict.retry_after, 0);
    ck_assert_uint_eq(charges[0].verdict.next_after, 30 * MS);
    ck_assert(!charges[1].verdict.allowed);
    ck_assert_uint_eq(charges[1].verdict.retry_after, 280 * MS);
}
END_TEST

START_TEST(a_limit_that_nothing_is_known_of_is_untold)
{
    struct charge charges[] = {charge_of(&window, "{b}", 1), charge_of(&bucket, "{a}", 4)};
    deny("{a}", 4);
    ck_assert(is_denied_here(charges, 2));
    ck_assert(charges[0].unreported);
    ck_assert(charges[0].verdict.allowed);
    ck_assert(!charges[1].unreported);
}
END_TEST

START_TEST(what_allowed_less_is_not_told_of_more)
{
    struct charge charges[] = {charge_of(&window, "{a}", 2), charge_of(&bucket, "{a}", 4)};
    const struct verdict verdicts[] = {ALLOWED, DENIED};
    let_answer(charges, verdicts, 2, 0);
    charges[0].cost = 3;
    ck_assert(is_denied_here(charges, 2));
    ck_assert(charges[0].unreported);
}
END_TEST

START_TEST(all_that_denied_are_named)
{
    struct charge charges[] = {charge_of(&window, "{a}", 1), charge_of(&bucket, "{a}", 4)};
    const struct verdict verdicts[] = {DENIED, DENIED};
    let_answer(charges, verdicts, 2, 0);
    ck_assert(is_denied_here(charges, 2));
    ck_assert(!charges[0].verdict.allowed);
    ck_assert(!charges[1].verdict.allowed);
}
END_TEST

START_TEST(a_shadow_denies_nobody_and_is_told)
{
    struct limit shadow = bucket;
    shadow.shadow = true;
    struct charge charges[] = {charge_of(&shadow, "{a}", 4), charge_of(&window, "{a}", 1)};
    const struct verdict denied_by_both[] = {DENIED, DENIED};
    const struct verdict denied_by_shadow[] = {DENIED, ALLOWED};
    let_answer(charges, denied_by_shadow, 2, 0);
    ck_assert(!is_denied_here(charges, 2));
    let_answer(charges, denied_by_both, 2, 0);
    ck_assert(!is_denied_here(charges, 1)); /* the shadow alone */
    ck_assert(is_denied_here(charges, 2));
    ck_assert(!charges[0].verdict.allowed);
}
END_TEST

START_TEST(slots_what_is_settled_later_and_redis_cells_deny_nobody_here)
{
    const struct limit slots = make(&concurrency_algorithm);
    struct limit settled = bucket;
    struct limit cell = bucket;
    settled.is_settled = true;
    cell.by_cell = true;
    const struct limit *const limits[] = {&slots, &settled, &cell};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct charge charges[] = {charge_of(limits[i], "{a}", 1), charge_of(&bucket, "{b}", 4)};
        const struct verdict denied_by_it[] = {DENIED, ALLOWED};
        const struct verdict denied_by_both[] = {DENIED, DENIED};
        const struct verdict denied_by_other[] = {ALLOWED, DENIED};
        let_answer(charges, denied_by_it, 2, 0);
        ck_assert(!is_denied_here(charges, 2));
        let_answer(charges, denied_by_both, 2, 0);
        ck_assert(is_denied_here(charges, 2));
        ck_assert(charges[0].unreported);
        ck_assert(charges[0].verdict.allowed);
        now_us += S;
        charges[0].unreported = false;
        let_answer(charges, denied_by_other, 2, 0);
        ck_assert(is_denied_here(charges, 2));
        ck_assert(!charges[0].unreported);
        ck_assert_uint_eq(charges[0].verdict.remaining, 7);
        now_us += S;
    }
}
END_TEST

START_TEST(requests_that_are_counted_though_denied_go_on)
{
    struct limit counting = window;
    counting.charge_denied = true;
    struct charge charges[] = {charge_of(&counting, "{a}", 1), charge_of(&bucket, "{a}", 4)};
    const struct verdict verdicts[] = {ALLOWED, DENIED};
    let_answer(charges, verdicts, 2, 0);
    ck_assert(!is_denied_here(charges, 2));
    deny("{a}", 4);
    ck_assert(!is_denied_here(charges, 2));
    ck_assert(is_key_denied_here("{a}", 4));
}
END_TEST

START_TEST(other_aims_go_on)
{
    struct charge charge = charge_of(&bucket, "{a}", 4);
    struct decision decision = decision_of(&charge, 1);
    decision.aim = DECISION_JUDGE;
    deny("{a}", 4);
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    store_cancel(&decision);
}
END_TEST

START_TEST(what_allowed_does_not_push_out_a_denial_of_the_same_key)
{
    struct charge charges[] = {charge_of(&bucket, "{a}", 1), charge_of(&window, "{a}", 1)};
    const struct verdict verdicts[] = {ALLOWED, DENIED};
    deny("{a}", 4);
    let_answer(charges, verdicts, 2, 0);
    ck_assert(is_key_denied_here("{a}", 4));
}
END_TEST

START_TEST(clearing_forgets_all_and_what_is_being_asked)
{
    struct charge charge = charge_of(&bucket, "{b}", 4);
    struct decision decision = decision_of(&charge, 1);
    deny("{a}", 4);
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    denial_cache_clear(store);
    charge.verdict = DENIED;
    decision.allowed = false;
    store_answer(&decision);
    ck_assert(!is_key_denied_here("{a}", 4));
    ck_assert(!is_key_denied_here("{b}", 4));
    now_us += 1;
    deny("{a}", 4);
    ck_assert(is_key_denied_here("{a}", 4));
}
END_TEST

START_TEST(another_thread_may_have_all_forgotten_and_what_is_being_asked)
{
    struct charge charge = charge_of(&bucket, "{b}", 4);
    struct decision decision = decision_of(&charge, 1);
    deny("{a}", 4);
    ck_assert(is_key_denied_here("{a}", 4));
    atomic_fetch_add(&n_forgets, 1);
    ck_assert(!is_key_denied_here("{a}", 4));
    now_us += 1;
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    atomic_fetch_add(&n_forgets, 1);
    charge.verdict = DENIED;
    decision.allowed = false;
    store_answer(&decision);
    ck_assert(!is_key_denied_here("{b}", 4));
}
END_TEST

START_TEST(an_answer_at_once_is_remembered_too)
{
    struct charge charge = charge_of(&bucket, "{a}", 4);
    struct decision decision = decision_of(&charge, 1);
    below.answers_at_once = true;
    charge.verdict = DENIED;
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_ANSWERED);
    ck_assert_int_eq(decision.source, DECISION_REDIS);
    ck_assert(is_key_denied_here("{a}", 4));
}
END_TEST

START_TEST(a_key_longer_than_any_is_not_remembered)
{
    static char key[KEY_TEXT_BYTES_MAX + 2];
    memset(key, 'k', KEY_TEXT_BYTES_MAX + 1);
    deny(key, 4);
    ck_assert(!is_key_denied_here(key, 4));
    key[KEY_TEXT_BYTES_MAX] = '\0';
    deny(key, 4);
    ck_assert(is_key_denied_here(key, 4));
}
END_TEST

START_TEST(settlements_pass_through)
{
    const struct settlement settlement = {.limit = &bucket, .key = SPAN("{a}"), .delta = -1};
    store_settle(store, &settlement, 1);
    ck_assert_uint_eq(below.n_settled, 1);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/denial_cache");
    TCase *tcase = tcase_create("denial_cache");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_denial_holds_until_its_retry_after_and_not_longer);
    tcase_add_test(tcase, it_is_counted_from_when_it_was_asked);
    tcase_add_test(tcase, an_answer_that_came_after_its_time_is_not_remembered);
    tcase_add_test(tcase, it_holds_for_one_second_at_most);
    tcase_add_test(tcase, the_times_are_counted_down_to_the_tick);
    tcase_add_test(tcase, a_coarse_tick_is_counted_down_in_whole_ones);
    tcase_add_test(tcase, it_holds_for_as_much_or_more_and_not_for_less);
    tcase_add_test(tcase, it_is_of_that_limit_and_key_alone);
    tcase_add_test(tcase, what_is_admitted_or_failed_is_not_remembered);
    tcase_add_test(tcase, the_whole_request_is_told_as_it_was);
    tcase_add_test(tcase, a_limit_that_nothing_is_known_of_is_untold);
    tcase_add_test(tcase, what_allowed_less_is_not_told_of_more);
    tcase_add_test(tcase, all_that_denied_are_named);
    tcase_add_test(tcase, a_shadow_denies_nobody_and_is_told);
    tcase_add_test(tcase, slots_what_is_settled_later_and_redis_cells_deny_nobody_here);
    tcase_add_test(tcase, requests_that_are_counted_though_denied_go_on);
    tcase_add_test(tcase, other_aims_go_on);
    tcase_add_test(tcase, what_allowed_does_not_push_out_a_denial_of_the_same_key);
    tcase_add_test(tcase, clearing_forgets_all_and_what_is_being_asked);
    tcase_add_test(tcase, another_thread_may_have_all_forgotten_and_what_is_being_asked);
    tcase_add_test(tcase, an_answer_at_once_is_remembered_too);
    tcase_add_test(tcase, a_key_longer_than_any_is_not_remembered);
    tcase_add_test(tcase, settlements_pass_through);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
