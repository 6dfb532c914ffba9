/* The state of a request's limits if it is in the running process: queried from its admin API. */

#ifndef SLUICE_APP_EXPLAIN_EXPLAIN_ADMIN_H
#define SLUICE_APP_EXPLAIN_EXPLAIN_ADMIN_H

#include "app/ctl/ctl_client.h"
#include "app/explain/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* Query the proxy that runs with the policy file @path about each key of @explanation, and store
 * the answers there. The proxy is found as by `sluice ctl --policy`. STATUS_NO_MEMORY; others: @why
 * has the reason, for people. */
MUST_USE enum status explain_admin(struct explanation *explanation, const char *path,
                                   char why[CTL_WHY_BYTES_MAX]);

/* Ask the proxy that runs with the policy at @path whether it is degraded, into
 * explanation->proxy_state. A proxy that cannot be asked leaves it empty. */
void explain_admin_readiness(struct explanation *explanation, const char *path);

#endif /* SLUICE_APP_EXPLAIN_EXPLAIN_ADMIN_H */
