/* The store of a worker, which decides under all policies that name the same store.
 *
 * After the last of these policies the store stays alive until the last requests are settled, for
 * a second at most. */

#ifndef SLUICE_PROXY_SERVER_STORE_STACK_H
#define SLUICE_PROXY_SERVER_STORE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/loop.h"
#include "proxy/server/config_generation.h"
#include "store/store.h"

struct proxy_env;

enum {
    STORE_SETTLE_WAIT_US = 1000 * 1000, /* how long unsettled requests keep a store alive */
    STORE_SETTLE_LOOK_US = 5 * 1000,    /* interval of the checks whether it is settled */
};

struct store_stack {
    unsigned n_users; /* worker configurations */
    struct store *store;
    bool is_shared;       /* it belongs to all workers, and is not freed here */
    const void *identity; /* equal to given.store of the generations that may use it */
    /* Once it has no user: the last one, a reference. The store borrows from it. */
    struct config_generation *generation;
    struct list node; /* in dying_stacks.stacks */
    uint64_t ends_by_us;
};

/* Stacks of a worker that have no user and are not settled. */
struct dying_stacks {
    struct list stacks; /* struct store_stack; initialised by the owner */
    struct timer timer; /* armed while the list is not empty */
};

void dying_stacks_init(struct dying_stacks *dying, struct loop *loop);

/* Free what is left, settled or not. */
void dying_stacks_close(struct dying_stacks *dying);

bool dying_stacks_are_settled(const struct dying_stacks *dying);

/* The stack of @generation, with its limits added, for one user. @before is the stack of the
 * configuration generation before, or NULL; it is used again if both name the same store.
 * STATUS_NO_MEMORY. */
MUST_USE enum status store_stack_open(const struct proxy_env *env,
                                      const struct config_generation *generation,
                                      struct store_stack *before, struct store_stack **stack);

/* @generation does not use @stack any more, and no request asks under its limits. After its last
 * user the stack stays in @dying until it is settled, for STORE_SETTLE_WAIT_US at most. NULL is a
 * no-op. */
void store_stack_leave(struct dying_stacks *dying, struct store_stack *stack,
                       struct config_generation *generation);

#endif /* SLUICE_PROXY_SERVER_STORE_STACK_H */
