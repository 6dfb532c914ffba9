/* A real cluster: the contract of every store, limits in several slots, slots on the move. */

#include "store/redis_cluster_store.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithm.h"
#include "net/loop.h"
#include "store/redis_slots.h"
#include "support/redis_nodes.h"
#include "support/store_contract.h"
#include "support/store_contract_limits.h"

enum {
    N_MASTERS = 3,
    OTHER = N_MASTERS, /* the node that owns next to nothing */
    DEADLINE_US = 5 * 1000 * 1000,
};

static struct redis_nodes nodes;
static struct loop *loop;
static struct store *store;

static void start_nodes(void)
{
    redis_nodes_start(&nodes, N_MASTERS + 1);
}

static void stop_nodes(void)
{
    redis_nodes_stop(&nodes);
}

static void run_once(void)
{
    ck_assert_int_ge(event_base_loop(loop_base(loop), EVLOOP_ONCE), 0);
}

static void await(const bool *answered)
{
    while (!*answered) {
        run_once();
    }
}

static void open_store(void)
{
    const struct redis_cluster_endpoint endpoint = {
        .host = SPAN("127.0.0.1"),
        .port = nodes.servers[0].port,
    };
    struct redis_cluster_options options = {
        .redis = {.prefix = SPAN("test"), .deadline_us = DEADLINE_US},
        .endpoints = &endpoint,
        .n_endpoints = 1,
    };
    options.redis.limits = store_contract_limits(&options.redis.n_limits);
    redis_nodes_flush(&nodes);
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    ck_assert_int_eq(redis_cluster_store_new(loop, &options, &store), STATUS_OK);
}

static void close_store(void)
{
    store_free(store);
    loop_free(loop);
}

static struct store *get_store(void)
{
    return store;
}

static const struct store_contract CONTRACT = {
    .open = open_store,
    .close = close_store,
    .store = get_store,
    .await = await,
};

static struct redis_cluster_counters count(void)
{
    return redis_cluster_store_count(store);
}

static void await_up(void)
{
    while (!redis_cluster_store_is_up(store)) {
        run_once();
    }
}

/* --- limits in several slots --- */

/* Keys whose slots three different nodes own. */
static const char *const KEYS[N_MASTERS] = {"{b}", "{c}", "{a}"};

static struct charge charge_on(uint32_t limit, const char *key, uint32_t cost)
{
    static uint64_t last_slot;
    return (struct charge){
        .limit = &contract_limits[limit],
        .key = span_of_text(key),
        .cost = cost,
        .slot = contract_limits[limit].algorithm->has_slots ? ++last_slot : 0,
    };
}

static uint64_t remaining_of(uint32_t limit, const char *key)
{
    struct charge charge = charge_on(limit, key, 0);
    ck_assert(store_contract_passes(&charge, 1));
    return charge.verdict.remaining;
}

START_TEST(the_keys_of_these_tests_lie_on_different_nodes)
{
    size_t seen = 0;
    for (size_t i = 0; i < N_MASTERS; i++) {
        const unsigned slot =
            redis_slots_of_charge(SPAN("test"), &contract_limits[0], span_of_text(KEYS[i]));
        seen |= (size_t)1 << redis_nodes_owner(&nodes, slot);
    }
    ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(a_request_passes_if_all_slots_let_it_and_is_charged_in_each)
{
    struct charge charges[N_MASTERS];
    for (int i = 0; i < 10; i++) {
        for (size_t j = 0; j < N_MASTERS; j++) {
            charges[j] = charge_on(BUCKET, KEYS[j], 1);
        }
        ck_assert(store_contract_passes(charges, N_MASTERS));
        for (size_t j = 0; j < N_MASTERS; j++) {
            ck_assert(charges[j].charged);
            ck_assert(charges[j].charged_at_us > 0);
            ck_assert_uint_eq(charges[j].verdict.remaining, (uint64_t)(9 - i));
        }
    }
    ck_assert(!store_contract_passes(charges, N_MASTERS));
    ck_assert_uint_eq(count().n_spread, 11);
    ck_assert_uint_eq(count().n_given_back, 0);
}
END_TEST

START_TEST(what_one_slot_denies_is_charged_in_none)
{
    struct charge charges[] = {
        charge_on(BUCKET, KEYS[0], 1),
        charge_on(SMALL, KEYS[1], 3),
        charge_on(BUCKET, KEYS[2], 1),
    };
    for (int i = 0; i < 3; i++) {
        ck_assert(!store_contract_passes(charges, 3));
        ck_assert(charges[0].verdict.allowed);
        ck_assert(!charges[1].verdict.allowed);
        ck_assert(charges[1].verdict.retry_after == RETRY_NEVER);
        for (size_t j = 0; j < 3; j++) {
            ck_assert(!charges[j].charged);
        }
    }
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[0]), 10);
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[2]), 10);
    ck_assert_uint_eq(count().n_given_back, 0);
}
END_TEST

START_TEST(limits_of_one_slot_among_others_are_one_call)
{
    struct charge charges[] = {
        charge_on(BUCKET, KEYS[0], 1),
        charge_on(BUCKET, KEYS[1], 1),
        charge_on(WINDOW, KEYS[0], 1),
        charge_on(SMALL, KEYS[0], 1),
    };
    await_up();
    const uint64_t n_before = count().nodes.n_calls;
    ck_assert(store_contract_passes(charges, 4));
    ck_assert_uint_eq(count().nodes.n_calls - n_before, 4); /* two judge, two charge */
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
            charge_on(SHADOW, KEYS[0], 1),
            charge_on(BUCKET, KEYS[1], 1),
        };
        ck_assert(store_contract_passes(charges, 2));
        ck_assert(charges[0].verdict.allowed == (i < 2));
        ck_assert(charges[0].charged == (i < 2));
        ck_assert_uint_eq(charges[0].verdict.remaining, i < 2 ? (uint64_t)(1 - i) : 0);
    }
}
END_TEST

START_TEST(a_denial_of_another_slot_counts_where_the_limit_says_so)
{
    struct charge charges[] = {
        charge_on(COUNTING, KEYS[0], 2),
        charge_on(SMALL, KEYS[1], 3),
        charge_on(COUNTING, KEYS[2], 1),
    };
    ck_assert(!store_contract_passes(charges, 3));
    ck_assert_uint_eq(charges[0].verdict.remaining, 3);
    ck_assert_uint_eq(charges[2].verdict.remaining, 4);
    ck_assert(!charges[0].charged);
    ck_assert(charges[0].verdict.allowed);
    ck_assert_uint_eq(charges[0].verdict.retry_after, 0);
    ck_assert(!store_contract_passes(charges, 3));
    ck_assert(!store_contract_passes(charges, 3));
    ck_assert_uint_eq(charges[0].verdict.remaining, 0);
    ck_assert(!charges[0].verdict.allowed);
    ck_assert(charges[0].verdict.retry_after > 0);
    ck_assert_uint_eq(charges[2].verdict.remaining, 2);
}
END_TEST

START_TEST(slots_of_concurrency_are_taken_and_given_back_on_their_nodes)
{
    struct charge charges[] = {charge_on(SLOTS, KEYS[0], 1), charge_on(SLOTS, KEYS[1], 1)};
    struct settlement settlements[2];
    ck_assert(store_contract_passes(charges, 2));
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
    store_settle(store, settlements, 2);
    ck_assert_uint_eq(remaining_of(SLOTS, KEYS[0]), 2);
    ck_assert_uint_eq(remaining_of(SLOTS, KEYS[1]), 2);
}
END_TEST

START_TEST(a_judgement_over_several_slots_changes_nothing)
{
    struct charge charges[] = {charge_on(BUCKET, KEYS[0], 10), charge_on(SMALL, KEYS[1], 2)};
    struct decision decision = {.charges = charges, .n_charges = 2, .aim = DECISION_JUDGE};
    for (int i = 0; i < 2; i++) {
        store_contract_decide(store, &decision);
        ck_assert_int_eq(decision.status, STATUS_OK);
        ck_assert(decision.allowed);
        ck_assert(!charges[0].charged);
    }
    decision.aim = DECISION_DENY;
    store_contract_decide(store, &decision);
    ck_assert(!decision.allowed);
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[0]), 10);
}
END_TEST

/* --- many at once --- */

enum { N_RIVALS = 200 };

struct rival {
    struct charge charges[N_MASTERS];
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
static size_t compete(const uint32_t limits[N_MASTERS])
{
    static struct rival rivals[N_RIVALS];
    size_t n_allowed = 0;
    n_answered = 0;
    all_answered = false;
    for (size_t i = 0; i < N_RIVALS; i++) {
        struct rival *rival = &rivals[i];
        *rival = (struct rival){.decision = {.charges = rival->charges, .n_charges = N_MASTERS}};
        for (size_t j = 0; j < N_MASTERS; j++) {
            const size_t at = (i + j) % N_MASTERS;
            rival->charges[j] = charge_on(limits[at], KEYS[at], 1);
        }
        ck_assert_int_eq(store_decide(store, &rival->decision, on_rival), STORE_PENDING);
    }
    await(&all_answered);
    for (size_t i = 0; i < N_RIVALS; i++) {
        n_allowed += rivals[i].decision.allowed;
    }
    return n_allowed;
}

START_TEST(of_many_at_once_as_many_pass_as_the_smallest_limit_has_units)
{
    const uint32_t limits[] = {BUCKET, SMALL, WINDOW};
    await_up();
    ck_assert_uint_eq(compete(limits), 2);
    ck_assert(count().n_given_back > 0);
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[0]), 8);
    ck_assert_uint_eq(remaining_of(SMALL, KEYS[1]), 0);
    ck_assert_uint_eq(remaining_of(WINDOW, KEYS[2]), 8);
    ck_assert_uint_eq(compete(limits), 0);
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[0]), 8);
}
END_TEST

START_TEST(of_many_at_once_those_that_are_denied_count_where_the_limit_says_so)
{
    const uint32_t limits[] = {COUNTING, SMALL, BUCKET};
    await_up();
    const size_t n_allowed = compete(limits);
    ck_assert_uint_le(n_allowed, 2);
    ck_assert_uint_eq(remaining_of(COUNTING, KEYS[0]), 0);
    ck_assert_uint_eq(remaining_of(SMALL, KEYS[1]), 2 - n_allowed);
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[2]), 10 - n_allowed);
}
END_TEST

START_TEST(what_is_cancelled_between_two_slots_is_given_back)
{
    struct charge charges[] = {charge_on(BUCKET, KEYS[0], 4), charge_on(BUCKET, KEYS[1], 4)};
    struct decision decision = {.charges = charges, .n_charges = 2};
    await_up();
    const uint64_t n_before = count().nodes.n_calls;
    ck_assert_int_eq(store_decide(store, &decision, on_rival), STORE_PENDING);
    while (count().nodes.n_calls < n_before + 4) {
        run_once(); /* both have judged, one was charged, the other is being charged */
    }
    store_cancel(&decision);
    memset(charges, 0xee, sizeof(charges));
    ck_assert_uint_eq(count().n_given_back, 1);
    ck_assert_uint_eq(remaining_of(BUCKET, KEYS[0]) + remaining_of(BUCKET, KEYS[1]), 16);
}
END_TEST

/* --- slots on the move --- */

struct move {
    unsigned slot;
    size_t from;
};

static struct move begin_move(const char *key)
{
    const unsigned slot =
        redis_slots_of_charge(SPAN("test"), &contract_limits[0], span_of_text(key));
    const struct move move = {.slot = slot, .from = redis_nodes_owner(&nodes, slot)};
    redis_nodes_begin_move(&nodes, move.slot, move.from, OTHER);
    return move;
}

/* Back to where it was, for the next test. */
static void end_move(const struct move *move)
{
    redis_nodes_end_move(&nodes, move->slot, move->from, OTHER);
}

static void undo_move(const struct move *move)
{
    redis_nodes_begin_move(&nodes, move->slot, OTHER, move->from);
    redis_nodes_end_move(&nodes, move->slot, OTHER, move->from);
}

START_TEST(before_there_is_a_map_a_node_that_knows_better_is_followed)
{
    struct charge charges[] = {charge_on(BUCKET, KEYS[0], 1), charge_on(BUCKET, KEYS[1], 1),
                               charge_on(BUCKET, KEYS[2], 1)};
    ck_assert(!redis_cluster_store_is_up(store));
    for (size_t i = 0; i < N_MASTERS; i++) {
        ck_assert(store_contract_passes(&charges[i], 1));
        ck_assert_uint_eq(charges[i].verdict.remaining, 9);
    }
    await_up();
    ck_assert_uint_eq(count().nodes.n_failures, count().n_redirections);
}
END_TEST

START_TEST(a_slot_that_has_moved_is_followed_and_nothing_is_charged_twice)
{
    struct charge charge = charge_on(BUCKET, "{a}", 1);
    await_up();
    ck_assert(store_contract_passes(&charge, 1));
    ck_assert_uint_eq(count().n_redirections, 0);
    const struct move move = begin_move("{a}");
    end_move(&move);
    for (uint64_t left = 8; left > 0; left--) {
        ck_assert(store_contract_passes(&charge, 1));
        ck_assert_uint_eq(charge.verdict.remaining, left);
    }
    ck_assert_uint_eq(count().n_redirections, 1); /* the map was told by who knew */
    undo_move(&move);
    ck_assert(store_contract_passes(&charge, 1));
    ck_assert_uint_eq(charge.verdict.remaining, 0);
}
END_TEST

START_TEST(a_key_that_went_ahead_of_its_slot_is_asked_for_where_it_is)
{
    struct charge old = charge_on(BUCKET, "{a}", 1);
    struct charge fresh = charge_on(BUCKET, "{a}fresh", 1);
    await_up();
    ck_assert(store_contract_passes(&old, 1));
    const struct move move = begin_move("{a}");
    ck_assert(store_contract_passes(&old, 1)); /* it is still there */
    ck_assert_uint_eq(count().n_redirections, 0);
    for (uint64_t left = 9; left > 5; left--) {
        ck_assert(store_contract_passes(&fresh, 1)); /* that one has never been here */
        ck_assert_uint_eq(fresh.verdict.remaining, left);
    }
    ck_assert_uint_eq(count().n_redirections, 4);
    end_move(&move);
    ck_assert(store_contract_passes(&old, 1));
    ck_assert_uint_eq(old.verdict.remaining, 7);
    ck_assert(store_contract_passes(&fresh, 1));
    ck_assert_uint_eq(fresh.verdict.remaining, 5);
    undo_move(&move);
}
END_TEST

START_TEST(what_a_slot_on_the_move_does_not_take_whole_is_asked_key_by_key)
{
    struct charge charges[] = {
        charge_on(BUCKET, "{a}", 1),
        charge_on(WINDOW, "{a}", 1),
        charge_on(SLOTS, "{a}", 1),
    };
    ck_assert(store_contract_passes(&charges[0], 1));
    const struct move move = begin_move("{a}");
    for (uint64_t i = 0; i < 2; i++) {
        charges[2] = charge_on(SLOTS, "{a}", 1);
        ck_assert(store_contract_passes(charges, 3)); /* the one key is here, the others nowhere */
        ck_assert_uint_eq(charges[0].verdict.remaining, 8 - i);
        ck_assert_uint_eq(charges[1].verdict.remaining, 9 - i);
        ck_assert_uint_eq(charges[2].verdict.remaining, 1 - i);
    }
    ck_assert(!store_contract_passes(charges, 3));
    ck_assert_uint_eq(count().n_spread, 3);
    end_move(&move);
    ck_assert_uint_eq(remaining_of(BUCKET, "{a}"), 7);
    ck_assert_uint_eq(remaining_of(WINDOW, "{a}"), 8);
    undo_move(&move);
}
END_TEST

START_TEST(settlements_follow_their_slot)
{
    struct charge charge = charge_on(BUCKET, "{a}", 6);
    ck_assert(store_contract_passes(&charge, 1));
    await_up();
    const struct move move = begin_move("{a}");
    redis_nodes_end_move(&nodes, move.slot, move.from, OTHER);
    const struct settlement refund = {
        .limit = charge.limit,
        .key = charge.key,
        .kind = SETTLE_COST,
        .delta = -4,
        .charged_at_us = charge.charged_at_us,
        .source = DECISION_REDIS,
    };
    struct charge elsewhere = charge_on(BUCKET, "{a}other", 1);
    ck_assert(store_contract_passes(&elsewhere, 1)); /* now the link to the new owner is up */
    store_settle(store, &refund, 1);
    ck_assert_uint_eq(remaining_of(BUCKET, "{a}"), 8);
    undo_move(&move);
    store_settle(store, &refund, 1); /* to the one that was the owner a moment ago */
    while (count().nodes.n_settlements < 3) {
        run_once();
    }
    ck_assert_uint_eq(remaining_of(BUCKET, "{a}"), 10);
    ck_assert_uint_eq(count().nodes.n_settlements_lost, 0);
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
    TCase *contract = store_contract_tcase(&CONTRACT);
    tcase_add_unchecked_fixture(contract, start_nodes, stop_nodes);
    tcase_set_timeout(contract, 30);
    suite_add_tcase(suite, contract);

    TCase *several = tcase_create("several slots");
    tcase_set_timeout(several, 30);
    tcase_add_unchecked_fixture(several, start_nodes, stop_nodes);
    tcase_add_checked_fixture(several, open_store, close_store);
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
    tcase_add_test(several, what_is_cancelled_between_two_slots_is_given_back);
    suite_add_tcase(suite, several);

    TCase *moving = tcase_create("slots on the move");
    tcase_set_timeout(moving, 30);
    tcase_add_unchecked_fixture(moving, start_nodes, stop_nodes);
    tcase_add_checked_fixture(moving, open_store, close_store);
    tcase_add_test(moving, before_there_is_a_map_a_node_that_knows_better_is_followed);
    tcase_add_test(moving, a_slot_that_has_moved_is_followed_and_nothing_is_charged_twice);
    tcase_add_test(moving, a_key_that_went_ahead_of_its_slot_is_asked_for_where_it_is);
    tcase_add_test(moving, what_a_slot_on_the_move_does_not_take_whole_is_asked_key_by_key);
    tcase_add_test(moving, settlements_follow_their_slot);
    suite_add_tcase(suite, moving);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
