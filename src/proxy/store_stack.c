#include "proxy/store_stack.h"

#include <stdlib.h>

#include "proxy/worker.h"

static enum status make(struct worker *worker, const struct edition *edition,
                        struct store_stack **stack)
{
    const struct server_edition *given = &edition->given;
    struct store_stack *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
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

void store_stack_leave(struct store_stack *stack, const struct edition *edition)
{
    if (stack == NULL) {
        return;
    }
    if (--stack->n_users > 0) {
        store_forget(stack->store, edition->policy->limits);
        return;
    }
    if (!stack->is_shared) {
        store_free(stack->store);
    }
    free(stack);
}
