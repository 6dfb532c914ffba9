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

/* Read @yaml, @noun ("a policy") for messages, into *root, a mapping, in @arena: aliases expanded,
 * duplicate keys refused, values expanded with @lookup. What is too deep or too much
 * (base/limits.h) is refused. STATUS_INVALID: there is nothing to go on with, and @diags says why.
 * STATUS_OK may come with errors in @diags too. STATUS_NO_MEMORY. */
MUST_USE enum status loader_yaml_read(struct span yaml, const char *noun, environment_lookup lookup,
                                      struct arena *arena, struct diags *diags, struct node **root);

#endif /* SLUICE_POLICY_LOADER_YAML_H */
