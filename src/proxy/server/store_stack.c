#include "proxy/server/store_stack.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/core/proxy_env.h"
#include "proxy/meters.h"

static enum status make(const struct proxy_env *env, const struct config_generation *generation,
                        struct store_stack **stack)
{
    const struct server_generation *given = &generation->given;
    struct store_stack *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    list_init(&made->node);
    made->n_users = 1;
    made->identity = given->store;
    const enum status status = given->make_store(given->context, env->loop, &env->meters->store,
                                                 &made->store, &made->is_shared);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    *stack = made;
    return STATUS_OK;
}

enum status store_stack_open(const struct proxy_env *env,
                             const struct config_generation *generation, struct store_stack *before,
                             struct store_stack **stack)
{
    const struct policy *policy = generation->policy;
    if (before == NULL || before->identity != generation->given.store) {
        return make(env, generation, stack);
    }
    const enum status status =
        store_add_limits(before->store, policy->limits, policy->n_all_limits);
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
    config_generation_release(stack->generation);
    free(stack);
}

static struct store_stack *dying_at(struct list *node)
{
    return CONTAINER_OF(node, struct store_stack, node);
}

static void look(void *context)
{
    struct dying_stacks *dying = context;
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

static void let_die(struct dying_stacks *dying, struct store_stack *stack,
                    struct config_generation *generation)
{
    stack->generation = config_generation_acquire(generation);
    stack->ends_by_us = clock_monotonic_us() + STORE_SETTLE_WAIT_US;
    if (list_is_empty(&dying->stacks)) {
        timer_arm(&dying->timer, STORE_SETTLE_LOOK_US);
    }
    list_push_back(&dying->stacks, &stack->node);
}

void store_stack_leave(struct dying_stacks *dying, struct store_stack *stack,
                       struct config_generation *generation)
{
    if (stack == NULL) {
        return;
    }
    if (--stack->n_users > 0) {
        store_remove_limits(stack->store, generation->policy->limits);
    } else if (stack->is_shared || store_is_settled(stack->store)) {
        free_stack(stack);
    } else {
        let_die(dying, stack, generation);
    }
}

bool dying_stacks_are_settled(const struct dying_stacks *dying)
{
    for (struct list *node = dying->stacks.next; node != &dying->stacks; node = node->next) {
        if (!store_is_settled(dying_at(node)->store)) {
            return false;
        }
    }
    return true;
}

void dying_stacks_init(struct dying_stacks *dying, struct loop *loop)
{
    timer_init(&dying->timer, loop, look, dying);
}

void dying_stacks_close(struct dying_stacks *dying)
{
    while (!list_is_empty(&dying->stacks)) {
        free_stack(dying_at(dying->stacks.next));
    }
    timer_close(&dying->timer);
}
