#include "cluster_stage.h"

#include <stdlib.h>

#include "net/loop.h"
#include "store/layers.h"

enum { DEADLINE_US = 5 * 1000 * 1000 };

const char *const STAGE_KEYS[STAGE_MASTERS] = {"{b}", "{c}", "{a}"};

struct redis_nodes stage_nodes;
struct store *stage_store;
struct client_calls *stage_calls;
struct loop *stage_loop;

void stage_start_nodes(void)
{
    redis_nodes_start(&stage_nodes, STAGE_MASTERS + 1);
}

void stage_stop_nodes(void)
{
    redis_nodes_stop(&stage_nodes);
}

void stage_run_once(void)
{
    ck_assert_int_eq(loop_iteration(stage_loop, true), STATUS_OK);
}

void stage_await(const bool *answered)
{
    while (!*answered) {
        stage_run_once();
    }
}

void stage_await_up(void)
{
    while (!redis_cluster_store_is_up(stage_store)) {
        stage_run_once();
    }
}

void stage_open(void)
{
    struct redis_cluster_options options = {
        .redis = {.prefix = SPAN("test"), .deadline_us = DEADLINE_US},
        .hosts = {{SPAN("127.0.0.1"), stage_nodes.servers[0].port}},
        .n_hosts = 1,
    };
    options.redis.limits = store_contract_limits(&options.redis.n_limits);
    /* As a policy has them whose routes ask several slots: a denial by one corrects the others. */
    for (size_t i = 0; i < options.redis.n_limits; i++) {
        contract_limits[i].params.settles = true;
    }
    redis_nodes_flush(&stage_nodes);
    ck_assert_int_eq(loop_new(&stage_loop), STATUS_OK);
    stage_calls = client_calls_new(stage_loop);
    ck_assert_ptr_nonnull(stage_calls);
    options.redis.calls = stage_calls;
    ck_assert_int_eq(redis_cluster_store_new(stage_loop, &options, &stage_store), STATUS_OK);
}

void stage_close(void)
{
    store_free(stage_store);
    client_calls_leave(stage_calls);
    loop_free(stage_loop);
}

static struct store *get_store(void)
{
    return stage_store;
}

const struct store_contract STAGE_CONTRACT = {
    .open = stage_open,
    .close = stage_close,
    .store = get_store,
    .await = stage_await,
};

struct redis_cluster_counters stage_count(void)
{
    return redis_cluster_store_count(stage_store);
}

struct charge stage_charge(uint32_t limit, const char *key, uint32_t cost)
{
    static uint64_t last_slot;
    return (struct charge){
        .limit = &contract_limits[limit],
        .key = span_of_text(key),
        .cost = cost,
        .slot = contract_limits[limit].algorithm->has_slots ? ++last_slot : 0,
    };
}

static void on_answer(struct decision *decision)
{
    *(bool *)decision->context = true;
}

void stage_decide(struct decision *decision)
{
    bool answered = false;
    decision->context = &answered;
    if (store_decide(stage_store, decision, on_answer) == STORE_PENDING) {
        stage_await(&answered);
    }
    ck_assert_uint_eq(decision->n_frames, 0);
}

bool stage_passes(struct charge *charges, size_t n_charges)
{
    struct decision decision = {.charges = charges, .n_charges = n_charges};
    stage_decide(&decision);
    ck_assert_int_eq(decision.status, STATUS_OK);
    return decision.allowed;
}

uint64_t stage_remaining(uint32_t limit, const char *key)
{
    struct charge charge = stage_charge(limit, key, 0);
    ck_assert(stage_passes(&charge, 1));
    return charge.verdict.remaining;
}
