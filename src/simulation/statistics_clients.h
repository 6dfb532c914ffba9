/* The hash table of clients in the statistics; it grows up to STATISTICS_CLIENTS_MAX clients. */

#ifndef SLUICE_SIMULATION_STATISTICS_CLIENTS_H
#define SLUICE_SIMULATION_STATISTICS_CLIENTS_H

#include "simulation/statistics.h"

MUST_USE enum status statistics_clients_init(struct statistics *statistics);

/* The address under which @address is counted: for IPv6 its /64, which limits too treat as one
 * client. */
struct address statistics_clients_of(const struct address *address);

/* The client at @address, a result of statistics_clients_of(), added if it is new. NULL: there is
 * no room for it. Valid until the next call. */
MUST_USE struct statistics_client *statistics_clients_find(struct statistics *statistics,
                                                           const struct address *address);

#endif /* SLUICE_SIMULATION_STATISTICS_CLIENTS_H */
