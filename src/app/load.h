/* Loads a policy for the command line: errors and warnings are printed to stderr. */

#ifndef SLUICE_APP_LOAD_H
#define SLUICE_APP_LOAD_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/loader.h"

/* Load @path and print its errors and warnings. On STATUS_OK *policy is the caller's. */
MUST_USE enum status load_policy(const char *path, struct policy **policy);

/* The same for a serving process: they are printed through the program's log, so that the process
 * never waits for the reader of stderr. @includes is what it includes, for the caller to free. */
MUST_USE enum status load_policy_to_serve(const char *path, struct loader_includes *includes,
                                          struct policy **policy);

/* The same for use under another clock: the policy's calendars are computed from @now_us. */
MUST_USE enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy);

#endif /* SLUICE_APP_LOAD_H */
