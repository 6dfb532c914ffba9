/* How full the limits of a request are, asked of the store without charging anything. */

#ifndef SLUICE_APP_EXPLAIN_LIVE_H
#define SLUICE_APP_EXPLAIN_LIVE_H

#include "app/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* Ask the Redis of @explanation's policy about bans and exemptions of its keys, and about its
 * decision, which admission_prepare() has filled, and fold the answers in. Waits as long as the
 * policy says, and at least LIVE_DEADLINE_US, since a connection must be made first.
 * STATUS_NO_MEMORY, STATUS_IO: nothing could be asked, and nothing is changed; that Redis did not
 * answer is no error here. */
MUST_USE enum status explain_live(struct explanation *explanation);

enum { LIVE_DEADLINE_US = 2 * 1000 * 1000 };

#endif /* SLUICE_APP_EXPLAIN_LIVE_H */
