/* The store of a worker: what decides, under all policies that name the same store. */

#ifndef SLUICE_PROXY_STORE_STACK_H
#define SLUICE_PROXY_STORE_STACK_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/status.h"
#include "proxy/edition.h"
#include "store/store.h"

struct worker;

struct store_stack {
    unsigned n_users; /* regimes */
    struct store *store;
    bool is_shared;       /* it belongs to all workers, and is not this one's to free */
    const void *identity; /* of the editions that may use it */
};

/* That of @edition, whose limits it knows, for one user; @before is what the edition before has, or NULL: the
 * same, where both name the same store. STATUS_NO_MEMORY. */
MUST_USE enum status store_stack_open(struct worker *worker, const struct edition *edition,
                                      struct store_stack *before, struct store_stack **stack);

/* @edition does not use it any more, and nothing is asked over its limits. NULL is a no-op. */
void store_stack_leave(struct store_stack *stack, const struct edition *edition);

#endif /* SLUICE_PROXY_STORE_STACK_H */
