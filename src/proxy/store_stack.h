/* The store of a worker: what decides, under all policies that name the same store.
 *
 * With the last policy that names it, it has a second to hear what became of the last requests. */

#ifndef SLUICE_PROXY_STORE_STACK_H
#define SLUICE_PROXY_STORE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/loop.h"
#include "proxy/edition.h"
#include "store/store.h"

struct worker;

enum {
    STORE_SETTLE_WAIT_US = 1000 * 1000, /* how long what is not settled keeps a store alive */
    STORE_SETTLE_LOOK_US = 5 * 1000,    /* how often somebody looks whether it is */
};

struct store_stack {
    unsigned n_users; /* regimes */
    struct store *store;
    bool is_shared;       /* it belongs to all workers, and is not this one's to free */
    const void *identity; /* of the editions that may use it */
    /* Once nobody uses it: */
    struct edition *edition; /* the last that did, which the store borrows from; joined */
    struct list node;        /* in dying_stacks.stacks */
    uint64_t ends_by_us;
};

/* Stacks of a worker that nobody uses, and that are not settled. */
struct dying_stacks {
    struct list stacks; /* of struct store_stack; its owner makes it empty */
    struct timer timer; /* armed while there are some */
};

/* STATUS_NO_MEMORY, STATUS_IO. */
MUST_USE enum status dying_stacks_init(struct worker *worker);

/* Free what is left, settled or not. */
void dying_stacks_close(struct worker *worker);

/* That of @edition, whose limits it knows, for one user; @before is what the edition before has, or
 * NULL: the same, where both name the same store. STATUS_NO_MEMORY. */
MUST_USE enum status store_stack_open(struct worker *worker, const struct edition *edition,
                                      struct store_stack *before, struct store_stack **stack);

/* @edition does not use it any more, and nothing is asked over its limits. The last one to leave it
 * keeps until it is settled, for STORE_SETTLE_WAIT_US at most. NULL is a no-op. */
void store_stack_leave(struct worker *worker, struct store_stack *stack, struct edition *edition);

/* Whether all of @worker's are settled, in force and not. */
bool store_stacks_are_settled(const struct worker *worker);

#endif /* SLUICE_PROXY_STORE_STACK_H */
