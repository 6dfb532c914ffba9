/* Log lines of a reload: the changes of each limit, and the settings that need a restart. */

#ifndef SLUICE_APP_SERVE_RELOAD_REPORT_H
#define SLUICE_APP_SERVE_RELOAD_REPORT_H

#include "policy/policy.h"

void reload_report_limits(const struct policy *before, const struct policy *after);

/* Warn of settings that differ between @before and @after and that a running process cannot
 * change. */
void reload_report_unheeded(const struct policy *before, const struct policy *after);

/* Log that a change of @key takes effect at the next start. */
void reload_report_restart(const char *key);

#endif /* SLUICE_APP_SERVE_RELOAD_REPORT_H */
