#include "store/store.h"

#include <assert.h>

#include "base/limits.h"
#include "store/operation.h"

enum store_outcome store_decide(struct store *store, struct decision *decision,
                                decision_on_answer on_answer)
{
    assert(decision->n_charges >= 1 && decision->n_charges <= LIMITS_PER_ROUTE_MAX);
    assert(decision->n_frames < DECISION_FRAMES_MAX);

    const size_t frame = decision->n_frames++;
    decision->frames[frame].store = store;
    decision->frames[frame].on_answer = on_answer;
    decision->frames[frame].state = NULL;
    decision->failure = STATUS_OK;
    decision->fault = REDIS_FAULT_NONE;

    const enum store_outcome outcome = store->ops->decide(store, decision);
    if (outcome == STORE_ANSWERED) {
        assert(decision->n_frames == frame + 1);
        decision->n_frames = frame;
    }
    return outcome;
}

bool store_takes_identical(const struct store *store, const struct decision *decision)
{
    if (store->ops->takes_identical != NULL) {
        return store->ops->takes_identical(store, decision);
    }
    return store->below != NULL && store_takes_identical(store->below, decision);
}

bool store_joins(struct store *store, const struct decision *decision)
{
    return store->ops->joins != NULL && store->ops->joins(store, decision);
}

void store_cancel(struct decision *decision)
{
    store_cancel_below(decision, 0);
}

void store_cancel_below(struct decision *decision, size_t n_frames)
{
    while (decision->n_frames > n_frames) {
        struct store *store = decision->frames[decision->n_frames - 1].store;
        if (store->ops->cancel != NULL) {
            store->ops->cancel(store, decision);
        }
        decision->n_frames--;
    }
}

void store_settle(struct store *store, const struct settlement *settlements, size_t n)
{
    assert(n >= 1 && n <= LIMITS_PER_ROUTE_MAX);

    if (store->ops->settle != NULL) {
        store->ops->settle(store, settlements, n);
    } else if (store->below != NULL) {
        store_settle(store->below, settlements, n);
    }
}

bool store_denies(struct store *store, struct decision *decision)
{
    if (store->ops->denies != NULL) {
        return store->ops->denies(store, decision);
    }
    return store->below != NULL && store_denies(store->below, decision);
}

bool store_can_settle(struct store *store, const struct settlement *settlement)
{
    if (store->ops->can_settle != NULL) {
        return store->ops->can_settle(store, settlement);
    }
    return store->below == NULL || store_can_settle(store->below, settlement);
}

uint64_t store_count_losses(const struct store *store, enum decision_source source)
{
    if (store->ops->count_losses != NULL) {
        return store->ops->count_losses(store, source);
    }
    return store->below == NULL ? 0 : store_count_losses(store->below, source);
}

enum status store_add_limits(struct store *store, const struct limit *limits, size_t n_limits)
{
    if (store->ops->add_limits != NULL) {
        return store->ops->add_limits(store, limits, n_limits);
    }
    return store->below != NULL ? store_add_limits(store->below, limits, n_limits) : STATUS_OK;
}

void store_remove_limits(struct store *store, const struct limit *limits)
{
    if (store->ops->remove_limits != NULL) {
        store->ops->remove_limits(store, limits);
    } else if (store->below != NULL) {
        store_remove_limits(store->below, limits);
    }
}

bool store_is_ready(const struct store *store)
{
    if (store->ops->is_ready != NULL) {
        return store->ops->is_ready(store);
    }
    return store->below == NULL || store_is_ready(store->below);
}

bool store_is_settled(const struct store *store)
{
    if (store->ops->is_settled != NULL) {
        return store->ops->is_settled(store);
    }
    return store->below == NULL || store_is_settled(store->below);
}

enum store_outcome store_run(struct store *store, struct store_operation *operation)
{
    if (store->ops->run == NULL && store->below != NULL) {
        return store_run(store->below, operation);
    }
    operation->status = STATUS_INVALID;
    operation->fault = NULL;
    return store->ops->run != NULL ? store->ops->run(store, operation) : STORE_ANSWERED;
}

void store_answer(struct decision *decision)
{
    assert(decision->n_frames > 0);

    decision->n_frames--;
    decision->frames[decision->n_frames].on_answer(decision);
}

void store_free(struct store *store)
{
    while (store != NULL) {
        struct store *below = store->below;
        store->ops->free(store);
        store = below;
    }
}

const char *decision_fault_name(const struct decision *decision, enum status status)
{
    return decision->fault != REDIS_FAULT_NONE ? redis_fault_row(decision->fault)->name
                                               : status_text(status);
}

struct span decision_source_name(enum decision_source source)
{
    static const struct span NAMES[DECISION_SOURCES] = {
        [DECISION_MEMORY] = {"memory", 6},   [DECISION_REDIS] = {"redis", 5},
        [DECISION_CACHE] = {"cache", 5},     [DECISION_LOCAL] = {"local", 5},
        [DECISION_SKIPPED] = {"skipped", 7}, [DECISION_BAN] = {"ban", 3},
        [DECISION_MISSING] = {"missing", 7},
    };
    return NAMES[source];
}
