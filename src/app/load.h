/* Loading a policy for a person: errors and warnings are printed to stderr. */

#ifndef SLUICE_APP_LOAD_H
#define SLUICE_APP_LOAD_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

/* Load @path and print its errors and warnings. On STATUS_OK *policy is the caller's. */
MUST_USE enum status load_policy(const char *path, struct policy **policy);

/* The same for a process that serves: they are printed through the program's log, so that nothing
 * waits for the reader of stderr. */
MUST_USE enum status load_policy_to_serve(const char *path, struct policy **policy);

/* The same for whoever runs it under another clock: its calendars are reckoned from @now_us. */
MUST_USE enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy);

#endif /* SLUICE_APP_LOAD_H */
