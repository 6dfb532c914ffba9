/* Loads a policy for the command line: errors and warnings are printed to stderr. */

#ifndef SLUICE_APP_LOAD_H
#define SLUICE_APP_LOAD_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/loader.h"

/* Load @path and print its errors and warnings. On STATUS_OK *policy is the caller's. */
MUST_USE enum status load_policy(const char *path, struct policy **policy);

/* The same, with the files of certificates. */
MUST_USE enum status load_policy_with_files(const char *path, struct policy **policy);

/* The same for a serving process: they are printed through the program's log, so that the process
 * never waits for the reader of stderr. @files is as in loader_load_file_to_serve(). */
MUST_USE enum status load_policy_to_serve(const char *path, struct loader_files *files,
                                          struct policy **policy);

/* The same for a policy that replaces @in_force. Errors and warnings are added to @diags and not
 * printed. */
MUST_USE enum status load_policy_to_replace(const char *path, const struct policy *in_force,
                                            struct loader_files *files, struct policy **policy,
                                            struct diags *diags);

/* The same for use under another clock: the policy's calendars are computed from @now_us. */
MUST_USE enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy);

#endif /* SLUICE_APP_LOAD_H */
