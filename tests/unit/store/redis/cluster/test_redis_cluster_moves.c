/* A real cluster whose slots are on the move: followed, charged once, given back. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cluster_stage.h"
#include "store/layers.h"
#include "store/redis_options.h"

struct move {
    unsigned slot;
    size_t from;
};

static struct move begin_move(const char *key)
{
    const unsigned slot =
        redis_slots_of_charge(SPAN("test"), &contract_limits[0], span_of_text(key));
    const struct move move = {.slot = slot, .from = redis_nodes_owner(&stage_nodes, slot)};
    redis_nodes_begin_move(&stage_nodes, move.slot, move.from, STAGE_OTHER);
    return move;
}

/* Back to where it was, for the next test. */
static void end_move(const struct move *move)
{
    redis_nodes_end_move(&stage_nodes, move->slot, move->from, STAGE_OTHER);
}

static void undo_move(const struct move *move)
{
    redis_nodes_begin_move(&stage_nodes, move->slot, STAGE_OTHER, move->from);
    redis_nodes_end_move(&stage_nodes, move->slot, STAGE_OTHER, move->from);
}

START_TEST(before_there_is_a_map_a_node_that_knows_better_is_followed)
{
    struct charge charges[] = {stage_charge(BUCKET, STAGE_KEYS[0], 1),
                               stage_charge(BUCKET, STAGE_KEYS[1], 1),
                               stage_charge(BUCKET, STAGE_KEYS[2], 1)};
    ck_assert(!redis_cluster_store_is_up(stage_store));
    for (size_t i = 0; i < STAGE_MASTERS; i++) {
        ck_assert(stage_passes(&charges[i], 1));
        ck_assert_uint_eq(charges[i].verdict.remaining, 9);
    }
    stage_await_up();
    ck_assert_uint_eq(stage_count().nodes.n_failures, stage_count().n_redirections);
}
END_TEST

START_TEST(a_slot_that_has_moved_is_followed_and_nothing_is_charged_twice)
{
    struct charge charge = stage_charge(BUCKET, "{a}", 1);
    stage_await_up();
    ck_assert(stage_passes(&charge, 1));
    ck_assert_uint_eq(stage_count().n_redirections, 0);
    const struct move move = begin_move("{a}");
    end_move(&move);
    for (uint64_t left = 8; left > 0; left--) {
        ck_assert(stage_passes(&charge, 1));
        ck_assert_uint_eq(charge.verdict.remaining, left);
    }
    ck_assert_uint_eq(stage_count().n_redirections, 1); /* the map was told by who knew */
    undo_move(&move);
    ck_assert(stage_passes(&charge, 1));
    ck_assert_uint_eq(charge.verdict.remaining, 0);
}
END_TEST

START_TEST(a_key_that_went_ahead_of_its_slot_is_asked_for_where_it_is)
{
    struct charge old = stage_charge(BUCKET, "{a}", 1);
    struct charge fresh = stage_charge(BUCKET, "{a}fresh", 1);
    stage_await_up();
    ck_assert(stage_passes(&old, 1));
    const struct move move = begin_move("{a}");
    ck_assert(stage_passes(&old, 1)); /* it is still there */
    ck_assert_uint_eq(stage_count().n_redirections, 0);
    for (uint64_t left = 9; left > 5; left--) {
        ck_assert(stage_passes(&fresh, 1)); /* that one has never been here */
        ck_assert_uint_eq(fresh.verdict.remaining, left);
    }
    ck_assert_uint_eq(stage_count().n_redirections, 4);
    end_move(&move);
    ck_assert(stage_passes(&old, 1));
    ck_assert_uint_eq(old.verdict.remaining, 7);
    ck_assert(stage_passes(&fresh, 1));
    ck_assert_uint_eq(fresh.verdict.remaining, 5);
    undo_move(&move);
}
END_TEST

START_TEST(what_a_slot_on_the_move_does_not_take_whole_is_asked_key_by_key)
{
    struct charge charges[] = {
        stage_charge(BUCKET, "{a}", 1),
        stage_charge(WINDOW, "{a}", 1),
        stage_charge(SLOTS, "{a}", 1),
    };
    ck_assert(stage_passes(&charges[0], 1));
    const struct move move = begin_move("{a}");
    for (uint64_t i = 0; i < 2; i++) {
        charges[2] = stage_charge(SLOTS, "{a}", 1);
        ck_assert(stage_passes(charges, 3)); /* the one key is here, the others nowhere */
        ck_assert_uint_eq(charges[0].verdict.remaining, 8 - i);
        ck_assert_uint_eq(charges[1].verdict.remaining, 9 - i);
        ck_assert_uint_eq(charges[2].verdict.remaining, 1 - i);
    }
    ck_assert(!stage_passes(charges, 3));
    ck_assert_uint_eq(stage_count().n_spread, 3);
    end_move(&move);
    ck_assert_uint_eq(stage_remaining(BUCKET, "{a}"), 7);
    ck_assert_uint_eq(stage_remaining(WINDOW, "{a}"), 8);
    undo_move(&move);
}
END_TEST

enum { BATCH_SIZE = 20 };

static size_t n_answered;
static bool all_answered;

static void on_each_answer(struct decision *decision)
{
    ck_assert_int_eq(decision->status, STATUS_OK);
    all_answered = ++n_answered == BATCH_SIZE;
}

START_TEST(requests_alike_that_a_slot_on_the_move_does_not_take_at_once_are_asked_each)
{
    static struct charge charges[BATCH_SIZE][2];
    static struct decision decisions[BATCH_SIZE];
    struct coalesce_meters meters = {0};
    struct store *coalesce;
    size_t n_allowed = 0;
    struct charge first = stage_charge(BUCKET, "{a}", 1);
    stage_await_up();
    ck_assert(stage_passes(&first, 1));
    ck_assert_int_eq(coalesce_store_new(stage_loop, stage_store, 5000000, &meters, &coalesce),
                     STATUS_OK);
    const struct move move = begin_move("{a}");
    for (size_t i = 0; i < BATCH_SIZE; i++) {
        charges[i][0] = stage_charge(BUCKET, "{a}", 1);
        charges[i][1] = stage_charge(WINDOW, "{a}", 1);
        decisions[i] = (struct decision){.charges = charges[i], .n_charges = 2};
        ck_assert_int_eq(store_decide(coalesce, &decisions[i], on_each_answer), STORE_PENDING);
    }
    stage_await(&all_answered);
    for (size_t i = 0; i < BATCH_SIZE; i++) {
        n_allowed += decisions[i].allowed;
    }
    ck_assert_uint_eq(counter_read(&meters.batched), BATCH_SIZE - 1);
    ck_assert_uint_eq(n_allowed, 9);
    ck_assert_uint_eq(stage_remaining(BUCKET, "{a}"), 0);
    ck_assert_uint_eq(stage_remaining(WINDOW, "{a}"), 1);
    end_move(&move);
    undo_move(&move);
    store_free(coalesce);
    stage_store = NULL; /* it was the other's */
}
END_TEST

START_TEST(settlements_follow_their_slot)
{
    struct charge charge = stage_charge(BUCKET, "{a}", 6);
    ck_assert(stage_passes(&charge, 1));
    stage_await_up();
    const struct move move = begin_move("{a}");
    redis_nodes_end_move(&stage_nodes, move.slot, move.from, STAGE_OTHER);
    const struct settlement refund = {
        .limit = charge.limit,
        .key = charge.key,
        .kind = SETTLE_COST,
        .delta = -4,
        .charged_at_us = charge.charged_at_us,
        .source = DECISION_REDIS,
    };
    struct charge elsewhere = stage_charge(BUCKET, "{a}other", 1);
    ck_assert(stage_passes(&elsewhere, 1)); /* now the link to the new owner is up */
    store_settle(stage_store, &refund, 1);
    ck_assert_uint_eq(stage_remaining(BUCKET, "{a}"), 8);
    undo_move(&move);
    store_settle(stage_store, &refund, 1); /* to the one that was the owner a moment ago */
    while (stage_count().nodes.n_settlements < 3) {
        stage_run_once();
    }
    ck_assert_uint_eq(stage_remaining(BUCKET, "{a}"), 10);
    ck_assert_uint_eq(stage_count().nodes.n_settlements_lost, 0);
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
    Suite *suite = suite_create("store/redis_cluster_moves");
    TCase *moving = tcase_create("moves");
    tcase_set_timeout(moving, 30);
    tcase_add_unchecked_fixture(moving, stage_start_nodes, stage_stop_nodes);
    tcase_add_checked_fixture(moving, stage_open, stage_close);
    tcase_add_test(moving, before_there_is_a_map_a_node_that_knows_better_is_followed);
    tcase_add_test(moving, a_slot_that_has_moved_is_followed_and_nothing_is_charged_twice);
    tcase_add_test(moving, a_key_that_went_ahead_of_its_slot_is_asked_for_where_it_is);
    tcase_add_test(moving, what_a_slot_on_the_move_does_not_take_whole_is_asked_key_by_key);
    tcase_add_test(moving,
                   requests_alike_that_a_slot_on_the_move_does_not_take_at_once_are_asked_each);
    tcase_add_test(moving, settlements_follow_their_slot);
    suite_add_tcase(suite, moving);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
