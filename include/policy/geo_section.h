/* The databases of addresses of a policy. */

#ifndef SLUICE_POLICY_GEO_SECTION_H
#define SLUICE_POLICY_GEO_SECTION_H

#include <stddef.h>
#include <stdint.h>

#include "geo/database.h"

struct policy;

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

#endif /* SLUICE_POLICY_GEO_SECTION_H */
