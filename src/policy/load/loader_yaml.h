/* Reads YAML text into a tree of nodes, with environment variables expanded. Only this module uses
 * libyaml. */

#ifndef SLUICE_POLICY_LOAD_LOADER_YAML_H
#define SLUICE_POLICY_LOAD_LOADER_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"

struct node;

/* --- the environment --- */

/* The value of an environment variable, or NULL. */
typedef const char *(*environment_lookup)(const char *name);

/* That of this process. */
const char *environment_of_process(const char *name);

/* Source of the variables, and memory for expanded values. */
struct environment {
    environment_lookup lookup;
    struct arena *arena; /* expanded values live here */
    size_t room;         /* bytes left for expanded values */
};

/* Expand @text once into *value (@text itself if there is nothing to expand): `${NAME}`,
 * `${NAME:-default}` (used if NAME is unset or empty; taken literally, up to the next brace) and
 * `$$` for a dollar. The bytes written are subtracted from room. *secret: *value contains a value
 * of an environment variable. False: @problem says why and contains no value. */
MUST_USE bool environment_expand(struct environment *environment, struct span text,
                                 struct span *value, bool *secret, struct text *problem);

/* --- YAML --- */

/* The maximum number of entries of a list or mapping under a key of the outermost mapping. */
struct loader_bound {
    const char *key; /* NULL: the last one */
    size_t n_max;
};

/* What the files of a policy have used of what they may have together. All zero: nothing. */
struct loader_room {
    size_t n_read;     /* keys and values */
    size_t n_nodes;    /* the same with aliases expanded */
    size_t n_expanded; /* bytes with values of the environment */
};

struct loader_source {
    struct span yaml;
    const char *noun;                  /* "a policy", for messages */
    const struct loader_bound *bounds; /* NULL: no bounds besides base/limits.h */
    struct loader_room *room;          /* NULL: the file is alone */
};

/* Read @source into *root, a mapping, in @arena: aliases expanded (they share the children of their
 * anchor's node), duplicate keys refused, values expanded with @lookup. Input that exceeds a bound
 * on depth or size (base/limits.h, @source) is refused as soon as it is met, before the rest is
 * read, so time and memory grow only with the file's length. STATUS_INVALID: there is no usable
 * tree, and @diags says why. With STATUS_OK @diags may also have errors. STATUS_NO_MEMORY. */
MUST_USE enum status loader_yaml_read(const struct loader_source *source, environment_lookup lookup,
                                      struct arena *arena, struct diags *diags, struct node **root);

/* Read @file to its end, at most POLICY_FILE_BYTES_MAX + 1 bytes, as loader_yaml_read_file() does.
 * STATUS_IO: errno says why. */
MUST_USE enum status loader_yaml_read_all(FILE *file, char **bytes, size_t *len);

/* Read the file at @path, at most POLICY_FILE_BYTES_MAX + 1 bytes. The caller frees *bytes with
 * free(), for every result. STATUS_IO: @diags says why. STATUS_NO_MEMORY. */
MUST_USE enum status loader_yaml_read_file(const char *path, char **bytes, size_t *len,
                                           struct diags *diags);

#endif /* SLUICE_POLICY_LOAD_LOADER_YAML_H */
