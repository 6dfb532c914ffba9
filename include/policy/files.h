/* Which other files a policy names, and whether they have changed since they were read; and
 * the databases of addresses among them. */

#ifndef SLUICE_POLICY_FILES_H
#define SLUICE_POLICY_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "geo/database.h"

struct policy;

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

/* --- the databases of addresses of a policy --- */

/* A database of addresses. */
struct geo_file {
    const char *path;              /* as it was opened; NULL: it was not read */
    uint64_t version;              /* of the file: see files_add_version() */
    struct geo_database *database; /* owned, one reference; NULL: it was not read */
};

/* The databases of `geo`: of each fact the first that knows it counts. */
struct geo_section {
    struct geo_file *files; /* up to GEO_DATABASES_MAX */
    size_t n_files;
    unsigned facts; /* bits GEO_… that keys and matches read; 0: none */
};

/* Set *facts to what the databases of @policy know of @client, of the facts that it reads. */
void policy_find_geo(const struct policy *policy, const struct address *client,
                     struct geo_facts *facts);

#endif /* SLUICE_POLICY_FILES_H */
