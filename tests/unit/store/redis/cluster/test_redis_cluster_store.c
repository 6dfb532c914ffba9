/* A real cluster: the contract of every store, and limits in several slots. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cluster_stage.h"
#include "store/client_calls.h"
#include "store/redis_options.h"

START_TEST(the_keys_of_these_tests_lie_on_different_nodes)
{
    size_t seen = 0;
    for (size_t i = 0; i < STAGE_MASTERS; i++) {
        const unsigned slot =
            redis_slots_of_charge(SPAN("test"), &contract_limits[0], span_of_text(STAGE_KEYS[i]));
        seen |= (size_t)1 << redis_nodes_owner(&stage_nodes, slot);
    }
    ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(a_request_passes_if_all_slots_let_it_and_is_charged_in_each)
{
    struct charge charges[STAGE_MASTERS];
    for (int i = 0; i < 10; i++) {
        for (size_t j = 0; j < STAGE_MASTERS; j++) {
            charges[j] = stage_charge(BUCKET, STAGE_KEYS[j], 1);
        }
        ck_assert(stage_passes(charges, STAGE_MASTERS));
        for (size_t j = 0; j < STAGE_MASTERS; j++) {
            ck_assert(charges[j].charged);
            ck_assert(charges[j].charged_at_us > 0);
            ck_assert_uint_eq(charges[j].verdict.remaining, (uint64_t)(9 - i));
        }
    }
    ck_assert(!stage_passes(charges, STAGE_MASTERS));
    ck_assert_uint_eq(stage_count().n_spread, 11);
    ck_assert_uint_eq(stage_count().n_given_back, 0);
}
END_TEST

START_TEST(what_one_slot_denies_is_charged_in_none)
{
    struct charge charges[] = {
        stage_charge(BUCKET, STAGE_KEYS[0], 1),
        stage_charge(SMALL, STAGE_KEYS[1], 3),
        stage_charge(BUCKET, STAGE_KEYS[2], 1),
    };
    for (int i = 0; i < 3; i++) {
        ck_assert(!stage_passes(charges, 3));
        ck_assert(charges[0].verdict.allowed);
        ck_assert(!charges[1].verdict.allowed);
        ck_assert(charges[1].verdict.retry_after == RETRY_NEVER);
        for (size_t j = 0; j < 3; j++) {
            ck_assert(!charges[j].charged);
        }
    }
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[0]), 10);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[2]), 10);
    ck_assert_uint_eq(stage_count().n_given_back, 0);
}
END_TEST

START_TEST(limits_of_one_slot_among_others_are_one_call)
{
    struct charge charges[] = {
        stage_charge(BUCKET, STAGE_KEYS[0], 1),
        stage_charge(BUCKET, STAGE_KEYS[1], 1),
        stage_charge(WINDOW, STAGE_KEYS[0], 1),
        stage_charge(SMALL, STAGE_KEYS[0], 1),
    };
    stage_await_up();
    const uint64_t n_before = stage_count().nodes.n_calls;
    ck_assert(stage_passes(charges, 4));
    ck_assert_uint_eq(stage_count().nodes.n_calls - n_before, 4); /* two judge, two charge */
    ck_assert_uint_eq(charges[0].verdict.remaining, 9);
    ck_assert_uint_eq(charges[1].verdict.remaining, 9);
    ck_assert_uint_eq(charges[2].verdict.remaining, 9);
    ck_assert_uint_eq(charges[3].verdict.remaining, 1);
}
END_TEST

START_TEST(a_shadow_in_another_slot_denies_nobody_and_is_charged_as_if_real)
{
    for (int i = 0; i < 5; i++) {
        struct charge charges[] = {
            stage_charge(SHADOW, STAGE_KEYS[0], 1),
            stage_charge(BUCKET, STAGE_KEYS[1], 1),
        };
        ck_assert(stage_passes(charges, 2));
        ck_assert(charges[0].verdict.allowed == (i < 2));
        ck_assert(charges[0].charged == (i < 2));
        ck_assert_uint_eq(charges[0].verdict.remaining, i < 2 ? (uint64_t)(1 - i) : 0);
    }
}
END_TEST

START_TEST(a_denial_of_another_slot_counts_where_the_limit_says_so)
{
    struct charge charges[] = {
        stage_charge(COUNTING, STAGE_KEYS[0], 2),
        stage_charge(SMALL, STAGE_KEYS[1], 3),
        stage_charge(COUNTING, STAGE_KEYS[2], 1),
    };
    ck_assert(!stage_passes(charges, 3));
    ck_assert_uint_eq(charges[0].verdict.remaining, 3);
    ck_assert_uint_eq(charges[2].verdict.remaining, 4);
    ck_assert(!charges[0].charged);
    ck_assert(charges[0].verdict.allowed);
    ck_assert_uint_eq(charges[0].verdict.retry_after, 0);
    ck_assert(!stage_passes(charges, 3));
    ck_assert(!stage_passes(charges, 3));
    ck_assert_uint_eq(charges[0].verdict.remaining, 0);
    ck_assert(!charges[0].verdict.allowed);
    ck_assert(charges[0].verdict.retry_after > 0);
    ck_assert_uint_eq(charges[2].verdict.remaining, 2);
}
END_TEST

START_TEST(slots_of_concurrency_are_taken_and_given_back_on_their_nodes)
{
    struct charge charges[] = {stage_charge(SLOTS, STAGE_KEYS[0], 1),
                               stage_charge(SLOTS, STAGE_KEYS[1], 1)};
    struct settlement settlements[2];
    ck_assert(stage_passes(charges, 2));
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(charges[i].verdict.remaining, 1);
        settlements[i] = (struct settlement){
            .limit = charges[i].limit,
            .key = charges[i].key,
            .kind = SETTLE_RELEASE,
            .slot = charges[i].slot,
            .source = DECISION_REDIS,
        };
    }
    store_settle(stage_store, settlements, 2);
    ck_assert_uint_eq(stage_remaining(SLOTS, STAGE_KEYS[0]), 2);
    ck_assert_uint_eq(stage_remaining(SLOTS, STAGE_KEYS[1]), 2);
}
END_TEST

START_TEST(a_judgement_over_several_slots_changes_nothing)
{
    struct charge charges[] = {stage_charge(BUCKET, STAGE_KEYS[0], 10),
                               stage_charge(SMALL, STAGE_KEYS[1], 2)};
    struct decision decision = {.charges = charges, .n_charges = 2, .aim = DECISION_JUDGE};
    for (int i = 0; i < 2; i++) {
        stage_decide(&decision);
        ck_assert_int_eq(decision.status, STATUS_OK);
        ck_assert(decision.allowed);
        ck_assert(!charges[0].charged);
    }
    decision.aim = DECISION_DENY;
    stage_decide(&decision);
    ck_assert(!decision.allowed);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[0]), 10);
}
END_TEST

/* --- many at once --- */

enum { N_RIVALS = 200 };

struct rival {
    struct charge charges[STAGE_MASTERS];
    struct decision decision;
};

static size_t n_answered;
static bool all_answered;

static void on_rival(struct decision *decision)
{
    ck_assert_int_eq(decision->status, STATUS_OK);
    all_answered = ++n_answered == N_RIVALS;
}

/* Each wants one unit in three slots, named in another order each; returns how many got them. */
static size_t compete(const uint32_t limits[STAGE_MASTERS])
{
    static struct rival rivals[N_RIVALS];
    size_t n_allowed = 0;
    n_answered = 0;
    all_answered = false;
    for (size_t i = 0; i < N_RIVALS; i++) {
        struct rival *rival = &rivals[i];
        *rival =
            (struct rival){.decision = {.charges = rival->charges, .n_charges = STAGE_MASTERS}};
        for (size_t j = 0; j < STAGE_MASTERS; j++) {
            const size_t at = (i + j) % STAGE_MASTERS;
            rival->charges[j] = stage_charge(limits[at], STAGE_KEYS[at], 1);
        }
        ck_assert_int_eq(store_decide(stage_store, &rival->decision, on_rival), STORE_PENDING);
    }
    stage_await(&all_answered);
    for (size_t i = 0; i < N_RIVALS; i++) {
        n_allowed += rivals[i].decision.allowed;
    }
    return n_allowed;
}

START_TEST(of_many_at_once_as_many_pass_as_the_smallest_limit_has_units)
{
    const uint32_t limits[] = {BUCKET, SMALL, WINDOW};
    stage_await_up();
    ck_assert_uint_eq(compete(limits), 2);
    ck_assert(stage_count().n_given_back > 0);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[0]), 8);
    ck_assert_uint_eq(stage_remaining(SMALL, STAGE_KEYS[1]), 0);
    ck_assert_uint_eq(stage_remaining(WINDOW, STAGE_KEYS[2]), 8);
    ck_assert_uint_eq(compete(limits), 0);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[0]), 8);
}
END_TEST

START_TEST(of_many_at_once_those_that_are_denied_count_where_the_limit_says_so)
{
    const uint32_t limits[] = {COUNTING, SMALL, BUCKET};
    stage_await_up();
    const size_t n_allowed = compete(limits);
    ck_assert_uint_le(n_allowed, 2);
    ck_assert_uint_eq(stage_remaining(COUNTING, STAGE_KEYS[0]), 0);
    ck_assert_uint_eq(stage_remaining(SMALL, STAGE_KEYS[1]), 2 - n_allowed);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[2]), 10 - n_allowed);
}
END_TEST

enum { N_LEAVING = 8 };

static const struct address LEAVING = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 7}};

static unsigned calls_of_leaving(void)
{
    const struct client *client = client_calls_find(stage_calls, &LEAVING);
    return client != NULL ? client->n_calls : 0;
}

static void await_settled(void)
{
    while (!store_is_settled(stage_store)) {
        stage_run_once();
    }
}

/* Cancel @n decisions over two slots as soon as each has sent @n_calls calls: two judge, then each
 * slot is charged. */
static void cancel_after(size_t n, size_t n_calls, const uint32_t limits[2], uint32_t returned)
{
    struct charge charges[N_LEAVING][2];
    struct decision decisions[N_LEAVING];
    stage_await_up();
    const uint64_t n_before = stage_count().nodes.n_calls;
    for (size_t i = 0; i < n; i++) {
        charges[i][0] = stage_charge(limits[0], STAGE_KEYS[0], 2);
        charges[i][1] = stage_charge(limits[1], STAGE_KEYS[1], 2);
        decisions[i] = (struct decision){
            .charges = charges[i], .n_charges = 2, .returned = returned, .client = LEAVING};
        ck_assert_int_eq(store_decide(stage_store, &decisions[i], on_rival), STORE_PENDING);
    }
    while (stage_count().nodes.n_calls < n_before + n * n_calls) {
        stage_run_once();
    }
    for (size_t i = 0; i < n; i++) {
        store_cancel(&decisions[i]);
    }
    memset(charges, 0xee, sizeof(charges));
    memset(decisions, 0xee, sizeof(decisions));
}

static const uint32_t TWO_BUCKETS[] = {BUCKET, BUCKET};

START_TEST(what_is_cancelled_between_two_slots_stays_charged_in_both)
{
    static const size_t n_calls[] = {3, 4}; /* the first slot is being charged; the second */
    cancel_after(1, n_calls[_i], TWO_BUCKETS, 0);
    ck_assert(!store_is_settled(stage_store));
    await_settled();
    ck_assert_uint_eq(stage_count().n_given_back, 0);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[0]), 8);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[1]), 8);
}
END_TEST

START_TEST(what_is_cancelled_between_two_slots_is_given_back_where_the_caller_says_so)
{
    static const size_t n_calls[] = {3, 4};
    cancel_after(1, n_calls[_i / 2], TWO_BUCKETS, 1U << _i % 2);
    await_settled();
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[_i % 2]), 10);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[1 - _i % 2]), 8);
}
END_TEST

START_TEST(what_is_cancelled_is_charged_nowhere_where_a_slot_denies_it)
{
    static const uint32_t limits[] = {SMALL, BUCKET}; /* one of them has room in the first */
    cancel_after(N_LEAVING, 3, limits, 0);
    await_settled();
    ck_assert_uint_eq(stage_remaining(SMALL, STAGE_KEYS[0]), 0);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[1]), 8);
}
END_TEST

START_TEST(what_is_cancelled_before_it_is_charged_is_not_charged)
{
    cancel_after(1, 2, TWO_BUCKETS, 0);
    await_settled();
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[0]), 10);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[1]), 10);
}
END_TEST

START_TEST(slots_of_what_is_cancelled_between_two_slots_are_given_back)
{
    static const uint32_t limits[] = {SLOTS, SLOTS};
    cancel_after(1, 3 + (size_t)_i, limits, 0);
    await_settled();
    ck_assert_uint_eq(stage_remaining(SLOTS, STAGE_KEYS[0]), 2);
    ck_assert_uint_eq(stage_remaining(SLOTS, STAGE_KEYS[1]), 2);
}
END_TEST

START_TEST(what_is_cancelled_between_two_slots_counts_as_a_call_of_its_client)
{
    cancel_after(N_LEAVING, 3, TWO_BUCKETS, 0);
    ck_assert_uint_ge(calls_of_leaving(), N_LEAVING);
    await_settled();
    ck_assert_uint_eq(calls_of_leaving(), 0);
}
END_TEST

START_TEST(what_is_cancelled_ends_with_the_store)
{
    cancel_after(N_LEAVING, 3, TWO_BUCKETS, 1); /* the fixture ends the store */
    ck_assert(!store_is_settled(stage_store));
}
END_TEST

START_TEST(what_is_cancelled_ends_with_its_limits)
{
    size_t n_limits;
    cancel_after(1, 3, TWO_BUCKETS, 0);
    store_remove_limits(stage_store, contract_limits);
    await_settled();
    const struct limit *limits = store_contract_limits(&n_limits);
    ck_assert_int_eq(store_add_limits(stage_store, limits, n_limits), STATUS_OK);
    ck_assert_uint_eq(stage_remaining(BUCKET, STAGE_KEYS[1]), 10);
}
END_TEST

START_TEST(a_slot_of_what_is_cancelled_is_given_back_before_the_store_is_settled)
{
    struct charge charges[] = {stage_charge(SLOTS, STAGE_KEYS[0], 1)};
    struct decision decision = {.charges = charges, .n_charges = 1};
    stage_await_up();
    ck_assert(store_is_settled(stage_store));
    ck_assert_int_eq(store_decide(stage_store, &decision, on_rival), STORE_PENDING);
    store_cancel(&decision);
    memset(charges, 0xee, sizeof(charges));
    while (stage_count().nodes.n_settlements == 0) {
        ck_assert(!store_is_settled(stage_store));
        stage_run_once();
    }
    while (!store_is_settled(stage_store)) {
        stage_run_once();
    }
    ck_assert_uint_eq(stage_remaining(SLOTS, STAGE_KEYS[0]), 2);
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the program does: hiredis writes to peers that have gone */
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_cluster_store");
    TCase *contract = store_contract_tcase(&STAGE_CONTRACT);
    tcase_add_unchecked_fixture(contract, stage_start_nodes, stage_stop_nodes);
    tcase_set_timeout(contract, 30);
    suite_add_tcase(suite, contract);

    TCase *several = tcase_create("several slots");
    tcase_set_timeout(several, 30);
    tcase_add_unchecked_fixture(several, stage_start_nodes, stage_stop_nodes);
    tcase_add_checked_fixture(several, stage_open, stage_close);
    tcase_add_test(several, the_keys_of_these_tests_lie_on_different_nodes);
    tcase_add_test(several, a_request_passes_if_all_slots_let_it_and_is_charged_in_each);
    tcase_add_test(several, what_one_slot_denies_is_charged_in_none);
    tcase_add_test(several, limits_of_one_slot_among_others_are_one_call);
    tcase_add_test(several, a_shadow_in_another_slot_denies_nobody_and_is_charged_as_if_real);
    tcase_add_test(several, a_denial_of_another_slot_counts_where_the_limit_says_so);
    tcase_add_test(several, slots_of_concurrency_are_taken_and_given_back_on_their_nodes);
    tcase_add_test(several, a_judgement_over_several_slots_changes_nothing);
    tcase_add_test(several, of_many_at_once_as_many_pass_as_the_smallest_limit_has_units);
    tcase_add_test(several, of_many_at_once_those_that_are_denied_count_where_the_limit_says_so);
    tcase_add_loop_test(several, what_is_cancelled_between_two_slots_stays_charged_in_both, 0, 2);
    tcase_add_loop_test(
        several, what_is_cancelled_between_two_slots_is_given_back_where_the_caller_says_so, 0, 4);
    tcase_add_test(several, what_is_cancelled_is_charged_nowhere_where_a_slot_denies_it);
    tcase_add_test(several, what_is_cancelled_before_it_is_charged_is_not_charged);
    tcase_add_loop_test(several, slots_of_what_is_cancelled_between_two_slots_are_given_back, 0, 2);
    tcase_add_test(several, what_is_cancelled_ends_with_its_limits);
    tcase_add_test(several, what_is_cancelled_between_two_slots_counts_as_a_call_of_its_client);
    tcase_add_test(several, what_is_cancelled_ends_with_the_store);
    tcase_add_test(several, a_slot_of_what_is_cancelled_is_given_back_before_the_store_is_settled);
    suite_add_tcase(suite, several);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
