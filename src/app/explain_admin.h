/* How full the limits of a request are, where their state is in the process that runs:
 * asked of its admin API. */

#ifndef SLUICE_APP_EXPLAIN_ADMIN_H
#define SLUICE_APP_EXPLAIN_ADMIN_H

#include "app/ctl_client.h"
#include "app/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* Ask the proxy that runs with the policy in the file @path about each key of @explanation, and
 * fold the answers in. It is found as `sluice ctl --policy` finds it. STATUS_NO_MEMORY; others:
 * @why says to people what is wrong. */
MUST_USE enum status explain_admin(struct explanation *explanation, const char *path,
                                   char why[CTL_WHY_BYTES_MAX]);

#endif /* SLUICE_APP_EXPLAIN_ADMIN_H */
