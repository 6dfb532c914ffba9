/* Loads a policy from a YAML file, or reports every error with its line and column; and writes
 * policies and their language as JSON, and any JSON as YAML. */

#ifndef SLUICE_POLICY_LOADER_H
#define SLUICE_POLICY_LOADER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/files.h"
#include "policy/policy.h"

struct json_t;

/* Load the file at @path. @diags is initialised with the file's name; errors and warnings are
 * added. STATUS_OK: the caller owns *policy and frees it with policy_free(). STATUS_INVALID: @diags
 * has errors. STATUS_IO: the file could not be read, @diags says why. STATUS_NO_MEMORY. */
MUST_USE enum status loader_load_file(const char *path, struct policy **policy,
                                      struct diags *diags);

/* The same for a caller that evaluates requests, with another clock: calendar windows are computed
 * from @now_us, us since the epoch, instead of from now, to about 25 years ahead. Databases of
 * addresses are read too; one that cannot be read is only warned of. */
MUST_USE enum status loader_load_file_at(const char *path, uint64_t now_us, struct policy **policy,
                                         struct diags *diags);

/* The same for a process that serves it: the files of certificates and databases are read too.
 * @in_force is the policy that it takes the place of: a certificate that is out of date, and is not
 * in force there, is an error. NULL: there is none, and such a certificate is only warned of, so
 * that it keeps no process from starting. @files, which is freed first, is what it names, also if
 * there are errors. */
MUST_USE enum status loader_load_file_to_serve(const char *path, const struct policy *in_force,
                                               struct loader_files *files, struct policy **policy,
                                               struct diags *diags);

/* The same from text in memory, without files of certificates and databases. Environment variables
 * are looked up with @getenv_value, so that a test can pass its own; NULL: the process's
 * environment. */
MUST_USE enum status loader_load_text(struct span yaml,
                                      const char *(*getenv_value)(const char *name),
                                      struct policy **policy, struct diags *diags);

/* The same as loader_load_file() and loader_load_text(), and look for valid settings that are
 * probably mistakes: all warnings of policy/warning.h. loader_check_file() also reads the files of
 * certificates and databases. With STATUS_OK its *policy is NULL for a file that has only keys of
 * included files: keys and values are checked, names need the policy that includes it. */
MUST_USE enum status loader_check_file(const char *path, struct policy **policy,
                                       struct diags *diags);
MUST_USE enum status loader_check_text(struct span yaml,
                                       const char *(*getenv_value)(const char *name),
                                       struct policy **policy, struct diags *diags);

/* --- policies, and their language, as JSON --- */

/* The policy in the structure of its file, which loads to the same policy: lists in place of single
 * items, names of environment variables instead of their values. In place of secrets that the file
 * contains stand ${REDACTED_1}, ${REDACTED_2} …. @with_defaults: also what is left out, and
 * sections in place of their short forms, except keys that only some limits, costs and addresses
 * have. Takes as long as loading it. The caller owns it. NULL: no memory. */
MUST_USE struct json_t *description_of_policy(const struct policy *policy, bool with_defaults);

/* The same for another process of this program, which loads it under any path: with the secrets
 * that the file contains, and with absolute paths in place of those that are relative to the folder
 * of @path, its file. NULL: no memory. */
MUST_USE struct json_t *description_to_load(const struct policy *policy, const char *path);

enum description_language {
    DESCRIPTION_POLICY,   /* a policy */
    DESCRIPTION_INCLUDED, /* a file that policies include */
    DESCRIPTION_TESTS,    /* tests of one */
};

/* The JSON Schema (2020-12) of a language, for editors and other programs: derived from the tables
 * of the loader. The caller owns it. NULL: no memory.
 *
 * It accepts every file that the loader accepts, read by the core schema of YAML 1.2. It refuses
 * unknown keys, values of a wrong type, and texts of a wrong form. Only the loader checks
 * conditions between keys and references to names. */
MUST_USE struct json_t *description_of_language(enum description_language language);

/* Any JSON as a tree in YAML, as people write policies. */

/* Write @value: indented lines of "name: value", which loaders of YAML 1.1 and 1.2 read back as it
 * is. Unprintable bytes are escaped. */
void yaml_text_write(struct json_t *value, FILE *out);

#endif /* SLUICE_POLICY_LOADER_H */
