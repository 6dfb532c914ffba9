/* The stock of a worker: pools of blocks whose size the policy sets. Policies that ask for
 * the same sizes share one. */

#ifndef SLUICE_PROXY_STOCK_H
#define SLUICE_PROXY_STOCK_H

#include "base/compiler.h"
#include "base/pool.h"
#include "policy/policy.h"

struct stock {
    unsigned n_users;
    struct pool
        head_blocks; /* for requests' heads, and heads on their way out: often a page is enough */
    struct pool answer_blocks; /* the same for responses' heads, which the start of a body fills */
    struct pool exchanges;     /* struct exchange with its fields and arena */
};

/* For one user, who lets go of it with stock_leave(). NULL: no memory. */
struct stock *stock_new(const struct policy *policy);

/* Whether @policy asks for the sizes of @stock. */
bool stock_fits(const struct stock *stock, const struct policy *policy);

/* One user more, or less; with the last one it goes, and then all blocks
 * are back. NULL is a no-op. */
struct stock *stock_join(struct stock *stock);
void stock_leave(struct stock *stock);

#endif /* SLUICE_PROXY_STOCK_H */
