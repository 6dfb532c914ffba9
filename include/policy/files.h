/* Which other files a policy names, and whether they have changed since they were read. */

#ifndef SLUICE_POLICY_FILES_H
#define SLUICE_POLICY_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Numbers that change once one of the files is changed, added or removed. */
struct loader_versions {
    uint64_t includes;
    uint64_t certificates;
};

/* All zero: none. */
struct loader_files {
    char **includes; /* paths and patterns of files, as they are opened; owned */
    size_t n_includes;
    char **certificates; /* paths of certificates, keys and what belongs to them; owned */
    size_t n_certificates;
    struct loader_versions read; /* just before they were read */
};

void loader_files_free(struct loader_files *files);

/* What @files are like now. */
MUST_USE struct loader_versions loader_files_look(const struct loader_files *files);

/* --- for the readers of policies --- */

/* Append a copy of @path to the @n *paths. False: no memory. */
MUST_USE bool files_keep(char ***paths, size_t *n, const char *path);

/* Add to *version what the file at @path is like; nothing if there is none. */
void files_add_version(uint64_t *version, const char *path);

/* Calls @on_path for each file that @pattern names; one without wildcards names itself. False: no
 * memory, or @on_path returned false. */
MUST_USE bool files_each_path(const char *pattern, bool (*on_path)(void *context, const char *path),
                              void *context);

#endif /* SLUICE_POLICY_FILES_H */
