/* Addresses that connections came from lately of which no request was let in. Of one that opens
 * many, connections come behind those of others. */

#ifndef SLUICE_ADMIN_NEWCOMERS_H
#define SLUICE_ADMIN_NEWCOMERS_H

#include <stdint.h>

#include "base/address.h"

/* So many sets of so many addresses are remembered. */
enum { NEWCOMERS_SETS = 256, NEWCOMERS_WAYS = 4 };

/* All zero at first. */
struct newcomers {
    struct newcomer {
        struct address client; /* as address_of_client() gives it */
        uint64_t second;       /* of the monotonic clock: when n was last halved */
        uint32_t n;            /* connections; half of them is forgotten each second */
    } sets[NEWCOMERS_SETS][NEWCOMERS_WAYS];
};

/* A connection of @address has come. The address with the fewest of its set may be forgotten. */
void newcomers_add(struct newcomers *newcomers, const struct address *address, uint64_t now_us);

/* The first request of such a connection was let in. */
void newcomers_let_in(struct newcomers *newcomers, const struct address *address, uint64_t now_us);

/* How many connections have come from @address lately of which no request was let in. */
uint32_t newcomers_count(struct newcomers *newcomers, const struct address *address,
                         uint64_t now_us);

#endif /* SLUICE_ADMIN_NEWCOMERS_H */
