/* Loads a policy from a YAML file, or reports every error with its line and column. */

#ifndef SLUICE_POLICY_LOADER_H
#define SLUICE_POLICY_LOADER_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"

/* What a policy includes. All zero: nothing. */
struct loader_includes {
    char **patterns; /* paths and patterns of files, as they are opened; owned */
    size_t n_patterns;
    uint64_t fingerprint; /* of the files that were read, just before they were */
};

void loader_includes_free(struct loader_includes *includes);

/* What the files that @includes names are like now: another number once one of them is changed,
 * added or removed. */
uint64_t loader_includes_fingerprint(const struct loader_includes *includes);

/* Load the file at @path. @diags is initialised with the file's name; errors and warnings are
 * added. STATUS_OK: the caller owns *policy and frees it with policy_free(). STATUS_INVALID: @diags
 * has errors. STATUS_IO: the file could not be read, @diags says why. STATUS_NO_MEMORY. */
MUST_USE enum status loader_load_file(const char *path, struct policy **policy,
                                      struct diags *diags);

/* The same. @includes, freed first, is what the file includes, also where it has errors. */
MUST_USE enum status loader_load_file_and_includes(const char *path,
                                                   struct loader_includes *includes,
                                                   struct policy **policy, struct diags *diags);

/* The same for a caller with another clock: calendar windows are computed from @now_us, us since
 * the epoch, instead of from now, to about 25 years ahead. */
MUST_USE enum status loader_load_file_at(const char *path, uint64_t now_us, struct policy **policy,
                                         struct diags *diags);

/* The same from text in memory. Environment variables are looked up with @getenv_value, so that a
 * test can pass its own; NULL: the process's environment. */
MUST_USE enum status loader_load_text(struct span yaml,
                                      const char *(*getenv_value)(const char *name),
                                      struct policy **policy, struct diags *diags);

/* The same, and look for valid settings that are probably mistakes: all warnings of
 * policy/warning.h. */
MUST_USE enum status loader_check_file(const char *path, struct policy **policy,
                                       struct diags *diags);
MUST_USE enum status loader_check_text(struct span yaml,
                                       const char *(*getenv_value)(const char *name),
                                       struct policy **policy, struct diags *diags);

#endif /* SLUICE_POLICY_LOADER_H */
