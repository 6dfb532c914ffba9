/* The clients of a tally: a table that grows up to TALLY_CLIENTS_MAX of them. */

#ifndef SLUICE_TRIAL_TALLY_CLIENTS_H
#define SLUICE_TRIAL_TALLY_CLIENTS_H

#include "trial/tally.h"

MUST_USE enum status tally_clients_init(struct tally *tally);

/* Whom @address is counted as: the /64 of IPv6, which is one client to limits too. */
struct address tally_clients_of(const struct address *address);

/* The client at @address, one of tally_clients_of(), added if it is new; NULL: there is no room for
 * it. Good until the next call. */
MUST_USE struct tally_client *tally_clients_find(struct tally *tally,
                                                 const struct address *address);

#endif /* SLUICE_TRIAL_TALLY_CLIENTS_H */
