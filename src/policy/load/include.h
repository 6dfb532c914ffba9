/* Reads a policy's file and the files that it includes, and merges them into one tree. Nothing is
 * put in force before all are read. */

#ifndef SLUICE_POLICY_LOAD_INCLUDE_H
#define SLUICE_POLICY_LOAD_INCLUDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/files.h"
#include "policy/load/loader_yaml.h"
#include "policy/load/node.h"

/* The files of a policy in the order in which they are merged: what a file includes comes before
 * it, so its own is the last. */
struct include_files {
    struct span texts[POLICY_INCLUDES_MAX + 1];
    struct node *roots[POLICY_INCLUDES_MAX + 1];
    size_t n;
};

/* Read @source, which stands in the file at @path, and what it includes. @path is NULL: it is no
 * file and includes nothing. @named may be NULL; its includes are filled in for each result.
 * Results as of loader_yaml_read(). */
MUST_USE enum status include_read(const struct loader_source *source, const char *path,
                                  environment_lookup lookup, struct arena *arena,
                                  struct diags *diags, struct loader_files *named,
                                  struct include_files *files);

/* Whether the last of the @files, as they were read, has only keys that may stand in an included
 * file: then it is no policy by itself. */
bool include_is_part(const struct include_files *files);

/* One tree of the @files: the last, with the limits, upstreams and routes of all, bounded by
 * @bounds, which may be NULL. STATUS_NO_MEMORY. */
MUST_USE enum status include_merge(const struct include_files *files,
                                   const struct loader_bound *bounds, struct arena *arena,
                                   struct diags *diags, struct node **root);

#endif /* SLUICE_POLICY_LOAD_INCLUDE_H */
