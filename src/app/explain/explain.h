/* The parts of `sluice explain`: what it asks for the state of limits, and the writer of an
 * explanation. */

#ifndef SLUICE_APP_EXPLAIN_EXPLAIN_H
#define SLUICE_APP_EXPLAIN_EXPLAIN_H

#include <stdio.h>

#include "app/ctl/ctl_client.h"
#include "app/explain/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* --- the state of the limits, queried from the store without a charge --- */

/* Query the Redis of @explanation's policy for bans and exemptions of its keys and for its
 * decision, which admission_prepare() has filled, and store the answers there. Waits for the
 * policy's time, but at least LIVE_DEADLINE_US, since a connection must be made first.
 * STATUS_NO_MEMORY, STATUS_IO: no query was possible, and @explanation is unchanged. A missing
 * answer of Redis is not an error. */
MUST_USE enum status explain_live(struct explanation *explanation);

enum { LIVE_DEADLINE_US = 2 * 1000 * 1000 };

/* --- the state of the limits in the running process, queried from its admin API --- */

/* Query the proxy that runs with the policy file @path about each key of @explanation, and store
 * the answers there. The proxy is found as by `sluice ctl --policy`. STATUS_NO_MEMORY; others: @why
 * has the reason, for people. */
MUST_USE enum status explain_admin(struct explanation *explanation, const char *path,
                                   char why[CTL_WHY_BYTES_MAX]);

/* Ask the proxy that runs with the policy at @path which plans the keys of @explanation have as
 * tenants, into explanation->tenants. Where it cannot be asked they are unknown. STATUS_NO_MEMORY.
 */
MUST_USE enum status explain_admin_tenants(struct explanation *explanation, const char *path);

/* Ask the proxy that runs with the policy at @path whether it is degraded, into
 * explanation->proxy_state. A proxy that cannot be asked leaves it empty. */
void explain_admin_readiness(struct explanation *explanation, const char *path);

/* --- output --- */

/* Write @explanation as text for people, in which bytes from outside are made printable, or as one
 * JSON object as described in docs/explain.md. STATUS_NO_MEMORY: the JSON is not written. */
MUST_USE enum status explain_write(const struct explanation *explanation, bool is_json, FILE *file);

/* --- the command `sluice script`, without its command line --- */

/* Print the script call that decides @given, which given_request_read() has filled; if there is
 * none, print the reason to stderr. The script goes to the file @lua, or, if that is NULL, to
 * stdout as the standard input of the call. Returns the exit status. */
int script_print(const struct policy *policy, struct given_request *given, const char *lua);

#endif /* SLUICE_APP_EXPLAIN_EXPLAIN_H */
