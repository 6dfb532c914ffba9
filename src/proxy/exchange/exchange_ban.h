/* What a request that is over says of its keys, for limits that ban. */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_BAN_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_BAN_H

#include <stdint.h>

struct exchange;
struct outcome;

/* @exchange is over as @outcome says: count what its limits ban keys for, see limit/ban_terms.h,
 * and begin to set the bans that are due. */
void exchange_note_offences(struct exchange *exchange, const struct outcome *outcome,
                            uint64_t now_us);

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_BAN_H */
