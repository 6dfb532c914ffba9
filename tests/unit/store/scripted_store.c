#include "scripted_store.h"

#include <check.h>

#include "base/compiler.h"

static struct scripted_store *scripted_store_of(struct store *store)
{
    return CONTAINER_OF(store, struct scripted_store, store);
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct scripted_store *scripted = scripted_store_of(store);
    ck_assert_uint_lt(scripted->n_asked, SCRIPTED_ASKED_MAX);
    scripted->asked[scripted->n_asked++] = decision;
    decision->source = DECISION_REDIS;
    if (scripted->answers_at_once) {
        decision->status = scripted->at_once;
        return STORE_ANSWERED;
    }
    return STORE_PENDING;
}

static void cancel(struct store *store, struct decision *decision)
{
    struct scripted_store *scripted = scripted_store_of(store);
    for (size_t i = 0; i < scripted->n_asked; i++) {
        if (scripted->asked[i] == decision) {
            scripted->asked[i] = NULL;
        }
    }
}

static bool takes_identical(const struct store *store, const struct decision *decision)
{
    (void)decision;
    return ((const struct scripted_store *)(const void *)store)->takes_identical;
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    (void)settlements;
    scripted_store_of(store)->n_settled += (unsigned)n;
}

static void free_scripted(struct store *store)
{
    scripted_store_of(store)->is_freed = true;
}

static const struct store_ops SCRIPTED_OPS = {
    .name = "scripted",
    .decide = decide,
    .cancel = cancel,
    .takes_identical = takes_identical,
    .settle = settle,
    .free = free_scripted,
};

void scripted_store_init(struct scripted_store *scripted)
{
    *scripted = (struct scripted_store){.store = {.ops = &SCRIPTED_OPS}, .takes_identical = true};
}

static void judge(struct decision *decision, size_t request, bool admitted,
                  const struct verdict *verdict)
{
    decision->allowed = admitted;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        charge->verdict = *verdict;
        charge->verdict.remaining -= admitted ? request * charge->cost : 0;
        charge->charged = admitted;
        charge->charged_at_us = 1000 + request;
    }
}

static struct decision *take(struct scripted_store *scripted, size_t i)
{
    struct decision *decision = scripted->asked[i];
    ck_assert_uint_lt(i, scripted->n_asked);
    ck_assert_ptr_nonnull(decision);
    scripted->asked[i] = NULL;
    return decision;
}

void scripted_store_answer(struct scripted_store *scripted, size_t i, size_t n_admitted,
                           const struct verdict *verdict)
{
    struct decision *decision = take(scripted, i);
    const size_t n = decision->batch_size == 0 ? 1 : decision->batch_size;
    for (size_t request = 0; request < n; request++) {
        judge(decision, request, request < n_admitted, verdict);
        if (decision->on_each != NULL) {
            decision->on_each(decision, request);
        }
    }
    decision->status = STATUS_OK;
    store_answer(decision);
}

void scripted_store_fail(struct scripted_store *scripted, size_t i, enum status status)
{
    struct decision *decision = take(scripted, i);
    decision->status = status;
    store_answer(decision);
}
