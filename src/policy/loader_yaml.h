/* YAML text to a tree of nodes. The only place that knows libyaml. */

#ifndef SLUICE_POLICY_LOADER_YAML_H
#define SLUICE_POLICY_LOADER_YAML_H

#include "base/arena.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/environment.h"
#include "policy/node.h"

/* How many the list or mapping of a key of the outermost mapping may have. */
struct loader_bound {
    const char *key; /* NULL: the last one */
    size_t n_max;
};

struct loader_source {
    struct span yaml;
    const char *noun;                  /* "a policy", for messages */
    const struct loader_bound *bounds; /* NULL: none of its own */
};

/* Read @source into *root, a mapping, in @arena: aliases expanded (they share the children of what
 * they stand for), duplicate keys refused, values expanded with @lookup. What is too deep or too
 * much (base/limits.h, @source) is refused where it stands, before what follows is read: time and
 * memory grow with the file's length alone. STATUS_INVALID: there is nothing to go on with, and
 * @diags says why. STATUS_OK may come with errors in @diags too. STATUS_NO_MEMORY. */
MUST_USE enum status loader_yaml_read(const struct loader_source *source, environment_lookup lookup,
                                      struct arena *arena, struct diags *diags, struct node **root);

#endif /* SLUICE_POLICY_LOADER_YAML_H */
