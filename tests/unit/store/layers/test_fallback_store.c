#include "store/layers.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/memory_store.h"
#include "support/death.h"

/* --- a shared store that answers as it is told --- */

struct fake_store {
    struct store store;
    enum store_outcome outcome;
    enum status status;
    unsigned n_cancelled;
    unsigned n_settled;
    bool freed;
};

static struct fake_store shared;

static enum store_outcome fake_decide(struct store *store, struct decision *decision)
{
    (void)store;
    decision->status = shared.status;
    decision->allowed = false;
    decision->source = DECISION_REDIS;
    return shared.outcome;
}

static void fake_cancel(struct store *store, struct decision *decision)
{
    (void)store;
    (void)decision;
    shared.n_cancelled++;
}

static void fake_settle(struct store *store, const struct settlement *settlements, size_t n)
{
    (void)store;
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(settlements[i].source, DECISION_REDIS);
        ck_assert_ptr_null(strstr(settlements[i].key.data, "skipped"));
    }
    shared.n_settled += (unsigned)n;
}

static bool fake_can_settle(struct store *store, const struct settlement *settlement)
{
    (void)store;
    return settlement->source == DECISION_REDIS && shared.status == STATUS_OK;
}

static uint64_t fake_count_losses(const struct store *store, enum decision_source source)
{
    (void)store;
    (void)source;
    return 7;
}

static void fake_free(struct store *store)
{
    (void)store;
    shared.freed = true;
}

static const struct store_ops FAKE_OPS = {
    .name = "fake",
    .decide = fake_decide,
    .cancel = fake_cancel,
    .settle = fake_settle,
    .can_settle = fake_can_settle,
    .count_losses = fake_count_losses,
    .free = fake_free,
};

/* --- the stores under test --- */

static struct store *embedded;
static struct store *store;
enum { LOCAL, ALLOW, DENY, LIMITS };
static struct limit limits[LIMITS];
static uint32_t n_instances;
static uint64_t now_us;

static uint32_t count_instances(void *context)
{
    (void)context;
    return n_instances;
}

static uint64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static void setup(void)
{
    const struct memory_store_options options = {.memory_bytes = MEMORY_STORE_BYTES_MIN};
    const struct limit_spec spec = {.algorithm = &token_bucket_algorithm,
                                    .rate = 10,
                                    .burst = 10,
                                    .period_us = UINT64_C(3600000000)};
    limits[LOCAL] = (struct limit){.name = SPAN("local"), .on_failure = ON_FAILURE_LOCAL};
    ck_assert_ptr_null(limit_init(&limits[LOCAL], &spec));
    limits[ALLOW] = limits[LOCAL];
    limits[ALLOW].index = 1;
    limits[ALLOW].on_failure = ON_FAILURE_ALLOW;
    limits[DENY] = limits[LOCAL];
    limits[DENY].index = 2;
    limits[DENY].on_failure = ON_FAILURE_DENY;
    n_instances = 5;

    shared = (struct fake_store){.store = {.ops = &FAKE_OPS}, .status = STATUS_UNREACHABLE};
    ck_assert_int_eq(memory_store_new(&options, &embedded), STATUS_OK);
    const struct fallback_store_options fallback = {
        .shared = &shared.store,
        .embedded = embedded,
        .limits = limits,
        .n_limits = ARRAY_LEN(limits),
        .count_instances = count_instances,
        .now_us = read_now,
    };
    now_us = 1;
    ck_assert_int_eq(fallback_store_new(&fallback, &store), STATUS_OK);
}

static void teardown(void)
{
    store_free(store);
    ck_assert(shared.freed);
    store_free(embedded);
}

static unsigned n_answers;

static void on_answer(struct decision *decision)
{
    (void)decision;
    n_answers++;
}

static void ask(struct charge *charges, size_t n_charges, struct decision *decision)
{
    *decision = (struct decision){.charges = charges, .n_charges = n_charges};
    ck_assert_int_eq(store_decide(store, decision, on_answer), STORE_ANSWERED);
    ck_assert_uint_eq(decision->n_frames, 0);
}

START_TEST(a_share_is_found_by_a_hash_that_the_charge_has_or_has_not_kept)
{
    struct charge kept = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 1};
    struct charge unkept = kept;
    struct decision decision;
    (void)charges_keep_hash(&kept, 0);
    ask(&kept, 1, &decision); /* a fifth of 10 */
    ck_assert(decision.allowed);
    ask(&unkept, 1, &decision);
    ck_assert(decision.allowed);
    ask(&kept, 1, &decision);
    ck_assert(!decision.allowed);
}
END_TEST

START_TEST(what_the_shared_store_answers_passes_through)
{
    struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 1};
    struct decision decision;
    shared.status = STATUS_OK;
    ask(&charge, 1, &decision);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert(!decision.allowed);
    ck_assert_int_eq(decision.source, DECISION_REDIS);
    ck_assert_int_eq(decision.failure, STATUS_OK);
}
END_TEST

START_TEST(local_is_judged_here_at_its_share)
{
    struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 1};
    struct decision decision;
    for (int i = 0; i < 3; i++) {
        ask(&charge, 1, &decision);
        ck_assert_int_eq(decision.status, STATUS_OK);
        ck_assert_int_eq(decision.source, DECISION_LOCAL);
        ck_assert_int_eq(decision.failure, STATUS_UNREACHABLE);
        ck_assert(decision.allowed == (i < 2)); /* 10 units among 5 proxies */
        ck_assert(charge.verdict.allowed == (i < 2));
        ck_assert_uint_eq(charge.verdict.limit, 2);
        ck_assert_ptr_eq(charge.limit, &limits[LOCAL]);
    }
}
END_TEST

START_TEST(allow_is_skipped_and_shows_an_untouched_quota)
{
    struct charge charge = {.limit = &limits[ALLOW], .key = SPAN("{a}"), .cost = 11};
    struct decision decision;
    ask(&charge, 1, &decision);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert_int_eq(decision.source, DECISION_SKIPPED);
    ck_assert_int_eq(decision.failure, STATUS_UNREACHABLE);
    ck_assert(decision.allowed);
    ck_assert(charge.verdict.allowed);
    ck_assert_uint_eq(charge.verdict.remaining, 10);
    ck_assert_uint_eq(charge.verdict.next_after, 0);
}
END_TEST

static struct address address_of_text(const char *text)
{
    struct address address;
    ck_assert(address_parse(span_of(text, strlen(text)), &address));
    return address;
}

/* Asks by @charge for the client at @from; the shared store gets no reply in time. */
static enum decision_source ask_late(struct charge *charge, const char *from)
{
    struct decision decision = {.charges = charge, .n_charges = 1};
    if (from != NULL) {
        decision.client = address_of_text(from);
    }
    shared.outcome = STORE_PENDING;
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    decision.status = STATUS_TIMEOUT;
    decision.fault = REDIS_FAULT_DEADLINE;
    store_answer(&decision);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert_int_eq(decision.failure, STATUS_TIMEOUT);
    ck_assert(decision.allowed == charge->verdict.allowed);
    return decision.source;
}

START_TEST(of_what_a_client_has_late_at_one_time_allow_skips_one)
{
    struct charge charge = {.limit = &limits[ALLOW], .key = SPAN("{a}"), .cost = 1};
    ck_assert_int_eq(ask_late(&charge, "2001:db8::1"), DECISION_SKIPPED);
    for (int i = 0; i < 4; i++) { /* the same customer */
        ck_assert_int_eq(ask_late(&charge, "2001:db8:0:ffff::2"), DECISION_LOCAL);
        ck_assert(charge.verdict.allowed == (i < 2)); /* 10 units among 5 proxies */
    }
    ck_assert_int_eq(ask_late(&charge, "192.0.2.1"), DECISION_SKIPPED);
    now_us += UINT64_C(999999);
    ck_assert_int_eq(ask_late(&charge, "2001:db8::1"), DECISION_LOCAL);
    now_us++;
    ck_assert_int_eq(ask_late(&charge, "2001:db8::1"), DECISION_SKIPPED);
    ck_assert_int_eq(ask_late(&charge, "2001:db8::1"), DECISION_LOCAL);
}
END_TEST

START_TEST(allow_skips_all_of_a_client_that_is_not_known_and_all_that_an_open_breaker_fails)
{
    struct charge charge = {.limit = &limits[ALLOW], .key = SPAN("{a}"), .cost = 11};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ask_late(&charge, NULL), DECISION_SKIPPED);
    }
    shared.outcome = STORE_ANSWERED;
    for (int i = 0; i < 3; i++) {
        struct decision decision = {.charges = &charge,
                                    .n_charges = 1,
                                    .client = address_of_text("192.0.2.1"),
                                    .fault = REDIS_FAULT_DEADLINE};
        ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_ANSWERED);
        ck_assert_int_eq(decision.source, DECISION_SKIPPED);
    }
}
END_TEST

START_TEST(deny_wins_and_keeps_the_failure)
{
    struct charge charges[] = {
        {.limit = &limits[ALLOW], .key = SPAN("{a}"), .cost = 1},
        {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 2},
        {.limit = &limits[DENY], .key = SPAN("{a}"), .cost = 1},
    };
    struct decision decision;
    ask(charges, 3, &decision);
    ck_assert_int_eq(decision.status, STATUS_UNREACHABLE);
    ask(charges + 1, 1, &decision);
    ck_assert(decision.allowed); /* nothing was taken before */
}
END_TEST

START_TEST(local_is_judged_beside_what_is_skipped)
{
    struct charge charges[] = {
        {.limit = &limits[ALLOW], .key = SPAN("{a}"), .cost = 1},
        {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 2},
    };
    struct decision decision;
    ask(charges, 2, &decision);
    ck_assert(decision.allowed);
    ask(charges, 2, &decision);
    ck_assert_int_eq(decision.source, DECISION_LOCAL);
    ck_assert(!decision.allowed);
    ck_assert(charges[0].verdict.allowed);
    ck_assert(!charges[1].verdict.allowed);
}
END_TEST

START_TEST(a_promise_is_kept_once_by_what_comes_of_the_failure)
{
    struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    shared.outcome = STORE_PENDING;
    n_answers = 0;
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    ck_assert_uint_eq(n_answers, 0);

    decision.status = STATUS_TIMEOUT;
    store_answer(&decision);
    ck_assert_uint_eq(n_answers, 1);
    ck_assert_uint_eq(decision.n_frames, 0);
    ck_assert_int_eq(decision.source, DECISION_LOCAL);
    ck_assert_int_eq(decision.failure, STATUS_TIMEOUT);
    ck_assert(decision.allowed);
}
END_TEST

START_TEST(cancelling_reaches_the_shared_store)
{
    struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 1};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    shared.outcome = STORE_PENDING;
    ck_assert_int_eq(store_decide(store, &decision, on_answer), STORE_PENDING);
    store_cancel(&decision);
    ck_assert_uint_eq(shared.n_cancelled, 1);
    ck_assert_uint_eq(decision.n_frames, 0);
}
END_TEST

START_TEST(what_was_charged_here_is_told_and_what_was_skipped_was_not_charged)
{
    struct charge charges[] = {
        {.limit = &limits[ALLOW], .key = SPAN("{a}"), .cost = 1, .charged = true},
        {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 2},
    };
    struct decision decision;
    ask(charges, 2, &decision);
    ck_assert(!charges[0].charged);
    ck_assert(charges[1].charged);
    ck_assert_uint_gt(charges[1].charged_at_us, 0);
}
END_TEST

START_TEST(settlements_go_to_whoever_charged)
{
    struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 2};
    struct decision decision;
    ask(&charge, 1, &decision);
    ck_assert(decision.allowed);
    const struct settlement settlements[] = {
        {.limit = &limits[LOCAL],
         .key = SPAN("{a}"),
         .delta = -1,
         .charged_at_us = charge.charged_at_us,
         .instances = charge.instances,
         .source = DECISION_LOCAL},
        {.limit = &limits[LOCAL], .key = SPAN("{b}"), .delta = -1, .source = DECISION_REDIS},
        {.limit = &limits[ALLOW],
         .key = SPAN("{skipped}"),
         .delta = -1,
         .source = DECISION_SKIPPED},
    };
    ck_assert(store_can_settle(store, &settlements[0]));
    ck_assert(!store_can_settle(store, &settlements[1]));
    shared.status = STATUS_OK;
    ck_assert(store_can_settle(store, &settlements[1]));
    ck_assert_uint_eq(store_count_losses(store, DECISION_REDIS), 7);
    ck_assert_uint_eq(store_count_losses(store, DECISION_LOCAL), 0);
    shared.status = STATUS_UNREACHABLE;
    store_settle(store, settlements, 3);
    ck_assert_uint_eq(shared.n_settled, 1);
    charge.cost = 1;
    ask(&charge, 1, &decision);
    ck_assert(decision.allowed);
    ask(&charge, 1, &decision);
    ck_assert(!decision.allowed);
}
END_TEST

START_TEST(what_is_given_back_after_the_number_of_proxies_has_changed_goes_where_it_was_charged)
{
    struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 2};
    struct decision decision;
    ask(&charge, 1, &decision);
    ck_assert(decision.allowed);
    ck_assert_uint_eq(charge.instances, 5);

    n_instances = 2;
    struct charge other = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 5};
    ask(&other, 1, &decision);
    ck_assert(decision.allowed);
    const struct settlement settlement = {
        .limit = &limits[LOCAL],
        .key = SPAN("{a}"),
        .delta = -2,
        .charged_at_us = charge.charged_at_us,
        .instances = charge.instances,
        .source = DECISION_LOCAL,
    };
    store_settle(store, &settlement, 1);
    other.cost = 1;
    ask(&other, 1, &decision);
    ck_assert(!decision.allowed); /* of this share all is taken */

    n_instances = 5;
    charge.cost = 2;
    ask(&charge, 1, &decision);
    ck_assert(decision.allowed);
}
END_TEST

static unsigned n_admitted(unsigned n_asked)
{
    unsigned n = 0;
    for (unsigned i = 0; i < n_asked; i++) {
        struct charge charge = {.limit = &limits[LOCAL], .key = SPAN("{a}"), .cost = 1};
        struct decision decision;
        ask(&charge, 1, &decision);
        n += decision.allowed;
    }
    return n;
}

START_TEST(a_shared_store_that_comes_and_goes_makes_no_local_quota_untouched)
{
    for (int round = 0; round < 5; round++) {
        shared.status = STATUS_UNREACHABLE;
        ck_assert_uint_eq(n_admitted(10), round == 0 ? 2 : 0);
        shared.status = STATUS_OK;
        ck_assert_uint_eq(n_admitted(1), 0); /* this one denies all */
    }
}
END_TEST

START_TEST(shares_follow_the_number_of_proxies)
{
    static const struct {
        uint32_t n_instances;
        unsigned n_admitted;
    } STEPS[] = {{5, 2}, {2, 5}, {1, 10}, {100, 1}, {5, 0}, {1, 0}};
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
        n_instances = STEPS[i].n_instances;
        ck_assert_uint_eq(n_admitted(20), STEPS[i].n_admitted);
    }
}
END_TEST

static void decide_under_others(void)
{
    struct limit other = limits[LOCAL];
    struct charge charge = {.limit = &other, .key = SPAN("{a}"), .cost = 1};
    struct decision decision;
    ask(&charge, 1, &decision);
}

START_TEST(limits_that_were_never_learnt_end_the_process)
{
    death_expect(decide_under_others,
                 "sluice: panic: a fallback store does not have these limits\n");
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/fallback_store");
    TCase *tcase = tcase_create("on_failure");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_the_shared_store_answers_passes_through);
    tcase_add_test(tcase, a_share_is_found_by_a_hash_that_the_charge_has_or_has_not_kept);
    tcase_add_test(tcase, local_is_judged_here_at_its_share);
    tcase_add_test(tcase, allow_is_skipped_and_shows_an_untouched_quota);
    tcase_add_test(tcase, of_what_a_client_has_late_at_one_time_allow_skips_one);
    tcase_add_test(
        tcase, allow_skips_all_of_a_client_that_is_not_known_and_all_that_an_open_breaker_fails);
    tcase_add_test(tcase, deny_wins_and_keeps_the_failure);
    tcase_add_test(tcase, local_is_judged_beside_what_is_skipped);
    tcase_add_test(tcase, a_promise_is_kept_once_by_what_comes_of_the_failure);
    tcase_add_test(tcase, cancelling_reaches_the_shared_store);
    tcase_add_test(tcase, what_was_charged_here_is_told_and_what_was_skipped_was_not_charged);
    tcase_add_test(tcase, settlements_go_to_whoever_charged);
    tcase_add_test(
        tcase,
        what_is_given_back_after_the_number_of_proxies_has_changed_goes_where_it_was_charged);
    tcase_add_test(tcase, a_shared_store_that_comes_and_goes_makes_no_local_quota_untouched);
    tcase_add_test(tcase, shares_follow_the_number_of_proxies);
    tcase_add_test(tcase, limits_that_were_never_learnt_end_the_process);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
