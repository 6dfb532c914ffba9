/* What an upstream remembers of its clients, in tables of a fixed size in which hashes stand for
 * clients. For any thread. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_CLIENTS_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_CLIENTS_H

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

/* The time for which the answers of each client may let servers wait without being read:
 * STALL_BUDGET_US in all, which come back evenly within STALL_BUDGET_PERIOD_US. A client takes the
 * place of the one of its row that has most left, and begins with all; two that are taken for one
 * share a budget. All zero is the empty table. */
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

enum {
    SUSPECTS_ROWS = 128,
    SUSPECTS_PER_ROW = 4,
    SUSPECT_FOR_S = 300,
};

/* Clients whose requests may have ended a connection to a server that carried those of others too.
 * Theirs get connections of their own for a while, so that what they send harms nobody else. A
 * client takes the place of the one of its row that is forgotten first; one that is taken for
 * another has connections of its own in vain. All zero is the empty table. */
struct suspects {
    /* Of each: 40 bits of its hash, and 24 of the second at which it is forgotten. */
    atomic_uint_least64_t rows[SUSPECTS_ROWS][SUSPECTS_PER_ROW];
};

/* Remember @client, as address_of_client() gives it, from @now_us on. */
void suspects_add(struct suspects *suspects, const struct address *client, uint64_t now_us);

bool suspects_have(struct suspects *suspects, const struct address *client, uint64_t now_us);

enum {
    CLOSING_CLIENTS_ROWS = 16,
    CLOSING_CLIENTS_PER_ROW = 4,
    CLIENT_CLOSINGS_MAX = 256, /* within a period */
};

/* How many connections to a server were closed in order within a period, of each client. A client
 * takes the place of the one of its row that has the fewest, and begins with none; two that are
 * taken for one share theirs. All zero is the empty table. */
struct closing_clients {
    /* Of each: 32 bits of its hash, 20 of the period, and 12 of the number. */
    atomic_uint_least64_t rows[CLOSING_CLIENTS_ROWS][CLOSING_CLIENTS_PER_ROW];
};

/* Count one of @client, as address_of_client() gives it, within @period. False: it has had
 * CLIENT_CLOSINGS_MAX. */
MUST_USE bool closing_clients_take(struct closing_clients *clients, const struct address *client,
                                   uint64_t period);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_CLIENTS_H */
