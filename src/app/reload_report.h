/* What the log is told of a reload: what became of each limit, and what
 * has to wait for a restart. */

#ifndef SLUICE_APP_RELOAD_REPORT_H
#define SLUICE_APP_RELOAD_REPORT_H

#include "policy/policy.h"

void reload_report_limits(const struct policy *before, const struct policy *after);

/* Warn of what @after says otherwise than @before and a process cannot change while it runs. */
void reload_report_unheeded(const struct policy *before, const struct policy *after);

/* Tell that a change of @key comes into force at the next start. */
void reload_report_restart(const char *key);

#endif /* SLUICE_APP_RELOAD_REPORT_H */
