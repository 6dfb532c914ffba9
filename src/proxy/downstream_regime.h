/* Which policy a connection is under: none while it rests. */

#ifndef SLUICE_PROXY_DOWNSTREAM_REGIME_H
#define SLUICE_PROXY_DOWNSTREAM_REGIME_H

#include "proxy/downstream.h"
#include "proxy/regime.h"

/* The first byte of a request comes, or of the PROXY header: from here on it is under @regime. */
void downstream_enter_regime(struct downstream *downstream, struct regime *regime);

/* It has nothing of its regime any more, or never had. */
void downstream_leave_regime(struct downstream *downstream);

/* An exchange has ended, and some of the next request was read: that goes on under the policy of
 * now, or, where that has no room for it, under the one that it was read under. */
void downstream_renew_regime(struct downstream *downstream);

#endif /* SLUICE_PROXY_DOWNSTREAM_REGIME_H */
