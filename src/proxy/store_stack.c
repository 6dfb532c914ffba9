#include "proxy/store_stack.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/worker.h"

static enum status make(struct worker *worker, const struct edition *edition,
                        struct store_stack **stack)
{
    const struct server_edition *given = &edition->given;
    struct store_stack *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    list_init(&made->node);
    made->n_users = 1;
    made->identity = given->store;
    const enum status status = given->make_store(
        given->context, worker->loop, &worker->meters->store, &made->store, &made->is_shared);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    *stack = made;
    return STATUS_OK;
}

enum status store_stack_open(struct worker *worker, const struct edition *edition,
                             struct store_stack *before, struct store_stack **stack)
{
    const struct policy *policy = edition->policy;
    if (before == NULL || before->identity != edition->given.store) {
        return make(worker, edition, stack);
    }
    const enum status status = store_learn(before->store, policy->limits, policy->n_limits);
    if (status == STATUS_OK) {
        before->n_users++;
        *stack = before;
    }
    return status;
}

/* --- the end --- */

static void free_stack(struct store_stack *stack)
{
    list_remove(&stack->node);
    if (!stack->is_shared) {
        store_free(stack->store);
    }
    edition_leave(stack->edition);
    free(stack);
}

static struct store_stack *dying_at(struct list *node)
{
    return CONTAINER_OF(node, struct store_stack, node);
}

static void look(void *context)
{
    struct worker *worker = context;
    struct dying_stacks *dying = &worker->dying_stacks;
    const uint64_t now_us = clock_monotonic_us();
    struct list *node = dying->stacks.next;
    while (node != &dying->stacks) {
        struct store_stack *stack = dying_at(node);
        node = node->next;
        if (store_is_settled(stack->store) || now_us >= stack->ends_by_us) {
            free_stack(stack);
        }
    }
    if (!list_is_empty(&dying->stacks)) {
        timer_arm(&dying->timer, STORE_SETTLE_LOOK_US);
    }
}

static void let_die(struct worker *worker, struct store_stack *stack, struct edition *edition)
{
    struct dying_stacks *dying = &worker->dying_stacks;
    stack->edition = edition_join(edition);
    stack->ends_by_us = clock_monotonic_us() + STORE_SETTLE_WAIT_US;
    if (list_is_empty(&dying->stacks)) {
        timer_arm(&dying->timer, STORE_SETTLE_LOOK_US);
    }
    list_push_back(&dying->stacks, &stack->node);
}

void store_stack_leave(struct worker *worker, struct store_stack *stack, struct edition *edition)
{
    if (stack == NULL) {
        return;
    }
    if (--stack->n_users > 0) {
        store_forget(stack->store, edition->policy->limits);
    } else if (stack->is_shared || store_is_settled(stack->store)) {
        free_stack(stack);
    } else {
        let_die(worker, stack, edition);
    }
}

bool store_stacks_are_settled(const struct worker *worker)
{
    for (struct list *node = worker->regimes.next; node != &worker->regimes; node = node->next) {
        if (!store_is_settled(CONTAINER_OF(node, struct regime, node)->store)) {
            return false;
        }
    }
    const struct list *dying = &worker->dying_stacks.stacks;
    for (struct list *node = dying->next; node != dying; node = node->next) {
        if (!store_is_settled(dying_at(node)->store)) {
            return false;
        }
    }
    return true;
}

enum status dying_stacks_init(struct worker *worker)
{
    return timer_init(&worker->dying_stacks.timer, worker->loop, look, worker);
}

void dying_stacks_close(struct worker *worker)
{
    while (!list_is_empty(&worker->dying_stacks.stacks)) {
        free_stack(dying_at(worker->dying_stacks.stacks.next));
    }
    timer_close(&worker->dying_stacks.timer);
}
