/* Clients whose requests may have ended a connection to a server that carried those of others too.
 * Theirs get connections of their own for a while, so that what they send harms nobody else.
 *
 * The table has a fixed size: a client takes the place of the one of its row that is forgotten
 * first. Hashes stand for clients: one that is taken for another has connections of its own in
 * vain. For any thread. */

#ifndef SLUICE_PROXY_UPSTREAM_SUSPECTS_H
#define SLUICE_PROXY_UPSTREAM_SUSPECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

enum {
    SUSPECTS_ROWS = 128,
    SUSPECTS_PER_ROW = 4,
    SUSPECT_FOR_S = 300,
};

/* All zero is the empty table. */
struct suspects {
    /* Of each: 40 bits of its hash, and 24 of the second at which it is forgotten. */
    atomic_uint_least64_t rows[SUSPECTS_ROWS][SUSPECTS_PER_ROW];
};

/* Remember @client, as address_of_client() gives it, from @now_us on. */
void suspects_add(struct suspects *suspects, const struct address *client, uint64_t now_us);

bool suspects_have(struct suspects *suspects, const struct address *client, uint64_t now_us);

#endif /* SLUICE_PROXY_UPSTREAM_SUSPECTS_H */
