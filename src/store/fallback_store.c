/* What the shared store answers passes through. What it cannot answer is decided here, by
 * on_failure: any limit that denies ─► the failure stays; else those that say local ─► judged in
 * the embedded store, at their share; else ─► skipped. Settlements go to whichever of the two
 * charged. */

#include "store/fallback_store.h"

#include <assert.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/list.h"
#include "store/errand.h"

/* What of a limit is judged here. */
struct share {
    uint32_t instances; /* that it is one's share of; 0: not made yet */
    struct limit limit;
};

/* Those of one policy. */
struct shares {
    struct list node;
    const struct limit *limits; /* that they are of */
    struct share of[];          /* by the limits' index */
};

struct fallback_store {
    struct store store;
    struct fallback_store_options options;
    struct list known; /* struct shares, the latest first */
};

static struct fallback_store *fallback_store_of(struct store *store)
{
    return (struct fallback_store *)(void *)store;
}

static bool is_denied(const struct decision *decision)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        if (decision->charges[i].limit->on_failure == ON_FAILURE_DENY) {
            return true;
        }
    }
    return false;
}

/* How a charge is answered that nobody judges. */
static struct verdict untouched(const struct limit *limit)
{
    const uint64_t capacity = limit_capacity(limit);
    return (struct verdict){.allowed = true, .limit = capacity, .remaining = capacity};
}

static struct shares *shares_of(const struct fallback_store *fallback, const struct limit *limits)
{
    struct list *node = fallback->known.next;
    while (CONTAINER_OF(node, struct shares, node)->limits != limits) {
        node = node->next;
        assert(node != &fallback->known);
    }
    return CONTAINER_OF(node, struct shares, node);
}

/* What of @limit the embedded store judges; lasts until the number of proxies has changed. */
static const struct share *local_of(const struct fallback_store *fallback,
                                    const struct limit *limit)
{
    struct share *share = &shares_of(fallback, limit_first(limit))->of[limit->index];
    const uint32_t instances = fallback->options.count_instances(fallback->options.context);
    if (share->instances != instances) {
        limit_share(limit, instances, &share->limit);
        share->instances = instances;
    }
    return share;
}

/* What of its limit @settlement was charged to; @share may be filled for it. A bucket is another
 * when the number of proxies has changed since. */
static const struct limit *charged_of(const struct fallback_store *fallback,
                                      const struct settlement *settlement, struct limit *share)
{
    const struct share *now = local_of(fallback, settlement->limit);
    if (now->instances == settlement->instances) {
        return &now->limit;
    }
    limit_share(settlement->limit, settlement->instances, share);
    return share;
}

/* The charges of limits that say local, as the embedded store is to judge them; the others are
 * skipped. Returns how many there are; @of tells which of @decision's each is. */
static size_t pick_local(struct fallback_store *fallback, struct decision *decision,
                         struct charge *local, size_t *of)
{
    size_t n_local = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        if (charge->limit->on_failure != ON_FAILURE_LOCAL) {
            charge->verdict = untouched(charge->limit);
            charge->charged = false;
            continue;
        }
        local[n_local] = *charge;
        const struct share *share = local_of(fallback, charge->limit);
        local[n_local].limit = &share->limit;
        local[n_local].instances = share->instances;
        of[n_local++] = i;
    }
    return n_local;
}

static void judge_locally(struct fallback_store *fallback, struct decision *decision)
{
    struct charge local[LIMITS_PER_ROUTE_MAX];
    size_t of[LIMITS_PER_ROUTE_MAX];
    struct decision here = {
        .charges = local,
        .n_charges = pick_local(fallback, decision, local, of),
        .aim = decision->aim,
    };

    decision->failure = decision->status;
    decision->source = DECISION_SKIPPED;
    decision->status = STATUS_OK;
    decision->allowed = decision->aim != DECISION_DENY;
    if (here.n_charges == 0) {
        return;
    }
    const enum store_outcome outcome = store_decide(fallback->options.embedded, &here, NULL);
    assert(outcome == STORE_ANSWERED);
    (void)outcome;
    for (size_t i = 0; i < here.n_charges; i++) {
        struct charge *charge = &decision->charges[of[i]];
        charge->verdict = local[i].verdict;
        charge->charged = local[i].charged;
        charge->charged_at_us = local[i].charged_at_us;
        charge->overflowed = local[i].overflowed;
        charge->instances = local[i].instances;
    }
    decision->source = DECISION_LOCAL;
    decision->status = here.status;
    decision->allowed = here.allowed;
}

/* The shared store has answered @decision. */
static void finish(struct fallback_store *fallback, struct decision *decision)
{
    if (decision->status != STATUS_OK && !is_denied(decision)) {
        judge_locally(fallback, decision);
    }
}

static void on_shared_answer(struct decision *decision)
{
    finish(fallback_store_of(decision->frames[decision->n_frames - 1].store), decision);
    store_answer(decision);
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct fallback_store *fallback = fallback_store_of(store);
    if (store_decide(fallback->options.shared, decision, on_shared_answer) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(fallback, decision);
    return STORE_ANSWERED;
}

/* Nothing is kept for a decision: the shared store forgets it by itself. */
static void cancel(struct store *store, struct decision *decision)
{
    (void)store;
    (void)decision;
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    struct fallback_store *fallback = fallback_store_of(store);
    struct settlement shared[LIMITS_PER_ROUTE_MAX];
    struct settlement local[LIMITS_PER_ROUTE_MAX];
    struct limit shares[LIMITS_PER_ROUTE_MAX];
    size_t n_shared = 0;
    size_t n_local = 0;
    for (size_t i = 0; i < n; i++) {
        switch (settlements[i].source) {
        case DECISION_REDIS:
            shared[n_shared++] = settlements[i];
            break;
        case DECISION_LOCAL:
            local[n_local] = settlements[i];
            local[n_local].limit = charged_of(fallback, &settlements[i], &shares[n_local]);
            n_local++;
            break;
        case DECISION_MEMORY: /* no source of decisions that are made here */
        case DECISION_CACHE:
        case DECISION_SKIPPED:
        case DECISION_BAN:
            break; /* nobody charged */
        }
    }
    if (n_shared > 0) {
        store_settle(fallback->options.shared, shared, n_shared);
    }
    if (n_local > 0) {
        store_settle(fallback->options.embedded, local, n_local);
    }
}

static enum status know(struct fallback_store *fallback, const struct limit *limits, size_t n)
{
    struct shares *shares = calloc(1, sizeof(*shares) + n * sizeof(shares->of[0]));
    if (shares == NULL) {
        return STATUS_NO_MEMORY;
    }
    shares->limits = limits;
    list_push_front(&fallback->known, &shares->node);
    return STATUS_OK;
}

static void know_no_more(struct shares *shares)
{
    list_remove(&shares->node);
    free(shares);
}

static enum status learn(struct store *store, const struct limit *limits, size_t n_limits)
{
    struct fallback_store *fallback = fallback_store_of(store);
    enum status status = know(fallback, limits, n_limits);
    if (status == STATUS_OK) {
        status = store_learn(fallback->options.shared, limits, n_limits);
        if (status != STATUS_OK) {
            know_no_more(shares_of(fallback, limits));
        }
    }
    return status;
}

static void forget(struct store *store, const struct limit *limits)
{
    struct fallback_store *fallback = fallback_store_of(store);
    store_forget(fallback->options.shared, limits);
    know_no_more(shares_of(fallback, limits));
}

static bool is_ready(const struct store *store)
{
    const struct fallback_store *fallback = (const struct fallback_store *)(const void *)store;
    return store_is_ready(fallback->options.shared);
}

static bool is_settled(const struct store *store)
{
    const struct fallback_store *fallback = (const struct fallback_store *)(const void *)store;
    return store_is_settled(fallback->options.shared);
}

/* What was counted here is forgotten whatever becomes of the rest. */
static enum store_outcome run(struct store *store, struct store_errand *errand)
{
    struct fallback_store *fallback = fallback_store_of(store);
    if (errand->kind == ERRAND_RESET) {
        struct store_errand here = {
            .kind = ERRAND_RESET,
            .limit = &local_of(fallback, errand->limit)->limit,
            .key = errand->key,
        };
        errand->was_local =
            store_run(fallback->options.embedded, &here) == STORE_ANSWERED && here.was_local;
    }
    return store_run(fallback->options.shared, errand);
}

static void free_fallback(struct store *store)
{
    struct fallback_store *fallback = fallback_store_of(store);
    store_free(fallback->options.shared);
    while (!list_is_empty(&fallback->known)) {
        know_no_more(CONTAINER_OF(fallback->known.next, struct shares, node));
    }
    free(fallback);
}

static const struct store_ops FALLBACK_OPS = {
    .name = "fallback",
    .decide = decide,
    .cancel = cancel,
    .settle = settle,
    .learn = learn,
    .forget = forget,
    .is_ready = is_ready,
    .is_settled = is_settled,
    .run = run,
    .free = free_fallback,
};

enum status fallback_store_new(const struct fallback_store_options *options, struct store **store)
{
    struct fallback_store *fallback = malloc(sizeof(*fallback));
    if (fallback == NULL) {
        return STATUS_NO_MEMORY;
    }
    *fallback = (struct fallback_store){.store = {.ops = &FALLBACK_OPS}, .options = *options};
    list_init(&fallback->known);
    if (know(fallback, options->limits, options->n_limits) != STATUS_OK) {
        free(fallback);
        return STATUS_NO_MEMORY;
    }
    *store = &fallback->store;
    return STATUS_OK;
}
