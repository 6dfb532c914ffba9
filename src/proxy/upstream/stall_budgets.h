/* The time for which the answers of each client may let servers of an upstream wait without being
 * read: STALL_BUDGET_US in all, which come back evenly within STALL_BUDGET_PERIOD_US.
 *
 * The table has a fixed size: a client takes the place of the one of its row that has most left,
 * and begins with all. Hashes stand for clients: two that are taken for one share a budget. For any
 * thread. */

#ifndef SLUICE_PROXY_UPSTREAM_STALL_BUDGETS_H
#define SLUICE_PROXY_UPSTREAM_STALL_BUDGETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"

enum {
    STALL_BUDGETS_ROWS = 128,
    STALL_BUDGETS_PER_ROW = 4,
    STALL_BUDGET_US = 5 * 1000 * 1000,
    STALL_BUDGET_PERIOD_US = 60 * 1000 * 1000,
};

/* All zero is the empty table. */
struct stall_budgets {
    /* Of each: 24 bits of its hash, and 40 of the millisecond at which it has all again. */
    atomic_uint_least64_t rows[STALL_BUDGETS_ROWS][STALL_BUDGETS_PER_ROW];
};

/* What @client, as address_of_client() gives it, has left at @now_us (monotonic). */
uint64_t stall_budgets_left_us(struct stall_budgets *budgets, const struct address *client,
                               uint64_t now_us);

/* Take @time_us of @client's. False: it has less, and keeps it. */
MUST_USE bool stall_budgets_take(struct stall_budgets *budgets, const struct address *client,
                                 uint64_t time_us, uint64_t now_us);

/* Give back @time_us that were taken. */
void stall_budgets_give(struct stall_budgets *budgets, const struct address *client,
                        uint64_t time_us, uint64_t now_us);

#endif /* SLUICE_PROXY_UPSTREAM_STALL_BUDGETS_H */
