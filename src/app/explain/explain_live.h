/* The state of a request's limits, queried from the store without a charge. */

#ifndef SLUICE_APP_EXPLAIN_EXPLAIN_LIVE_H
#define SLUICE_APP_EXPLAIN_EXPLAIN_LIVE_H

#include "app/explain/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* Query the Redis of @explanation's policy for bans and exemptions of its keys and for its
 * decision, which admission_prepare() has filled, and store the answers there. Waits for the
 * policy's time, but at least LIVE_DEADLINE_US, since a connection must be made first.
 * STATUS_NO_MEMORY, STATUS_IO: no query was possible, and @explanation is unchanged. A missing
 * answer of Redis is not an error. */
MUST_USE enum status explain_live(struct explanation *explanation);

enum { LIVE_DEADLINE_US = 2 * 1000 * 1000 };

#endif /* SLUICE_APP_EXPLAIN_EXPLAIN_LIVE_H */
