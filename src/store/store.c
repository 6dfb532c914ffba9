#include "store/store.h"

#include <assert.h>

#include "base/limits.h"
#include "store/errand.h"

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
    decision->fault = NULL;

    const enum store_outcome outcome = store->ops->decide(store, decision);
    if (outcome == STORE_ANSWERED) {
        assert(decision->n_frames == frame + 1);
        decision->n_frames = frame;
    }
    return outcome;
}

bool store_takes_alike(const struct store *store, const struct decision *decision)
{
    return store->ops->takes_alike != NULL && store->ops->takes_alike(store, decision);
}

void store_cancel(struct decision *decision)
{
    store_cancel_below(decision, 0);
}

void store_cancel_below(struct decision *decision, size_t n_frames)
{
    while (decision->n_frames > n_frames) {
        struct store *store = decision->frames[decision->n_frames - 1].store;
        store->ops->cancel(store, decision);
        decision->n_frames--;
    }
}

void store_settle(struct store *store, const struct settlement *settlements, size_t n)
{
    assert(n >= 1 && n <= LIMITS_PER_ROUTE_MAX);

    if (store->ops->settle != NULL) {
        store->ops->settle(store, settlements, n);
    }
}

enum status store_learn(struct store *store, const struct limit *limits, size_t n_limits)
{
    return store->ops->learn == NULL ? STATUS_OK : store->ops->learn(store, limits, n_limits);
}

void store_forget(struct store *store, const struct limit *limits)
{
    if (store->ops->forget != NULL) {
        store->ops->forget(store, limits);
    }
}

bool store_is_ready(const struct store *store)
{
    return store->ops->is_ready == NULL || store->ops->is_ready(store);
}

bool store_is_settled(const struct store *store)
{
    return store->ops->is_settled == NULL || store->ops->is_settled(store);
}

enum store_outcome store_run(struct store *store, struct store_errand *errand)
{
    errand->status = STATUS_INVALID;
    errand->fault = NULL;
    return store->ops->run != NULL ? store->ops->run(store, errand) : STORE_ANSWERED;
}

void store_answer(struct decision *decision)
{
    assert(decision->n_frames > 0);

    decision->n_frames--;
    decision->frames[decision->n_frames].on_answer(decision);
}

void store_free(struct store *store)
{
    if (store != NULL) {
        store->ops->free(store);
    }
}

struct span decision_source_name(enum decision_source source)
{
    static const struct span NAMES[DECISION_SOURCES] = {
        [DECISION_MEMORY] = {"memory", 6},   [DECISION_REDIS] = {"redis", 5},
        [DECISION_CACHE] = {"cache", 5},     [DECISION_LOCAL] = {"local", 5},
        [DECISION_SKIPPED] = {"skipped", 7}, [DECISION_BAN] = {"ban", 3},
    };
    return NAMES[source];
}
