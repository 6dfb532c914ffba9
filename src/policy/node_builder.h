/* Makes the tree of a YAML file from what a parser meets, one after the other, so that what is too
 * deep or too much is refused where it stands, before the rest is in memory. */

#ifndef SLUICE_POLICY_NODE_BUILDER_H
#define SLUICE_POLICY_NODE_BUILDER_H

#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/environment.h"
#include "policy/loader_yaml.h"
#include "policy/node.h"

struct node_builder;

/* From 1. */
struct node_place {
    uint32_t line;
    uint32_t column;
};

/* All are borrowed. NULL: no memory. */
struct node_builder *node_builder_new(const struct loader_source *source, environment_lookup lookup,
                                      struct arena *arena, struct diags *diags);
void node_builder_free(struct node_builder *builder);

/* What the parser has met. @anchor is the name of its anchor; data is NULL: it has none. After a
 * STATUS_INVALID, of which the diags say why, or a STATUS_NO_MEMORY nothing more may come. */
MUST_USE enum status node_builder_scalar(struct node_builder *builder, struct node_place place,
                                         struct span anchor, struct span value, bool is_plain);
MUST_USE enum status node_builder_alias(struct node_builder *builder, struct node_place place,
                                        struct span anchor);
MUST_USE enum status node_builder_begin(struct node_builder *builder, enum node_kind kind,
                                        struct node_place place, struct span anchor);
MUST_USE enum status node_builder_end(struct node_builder *builder);

/* The outermost mapping, which has ended. */
struct node node_builder_root(const struct node_builder *builder);

/* Tell an error at @place. STATUS_INVALID. */
enum status node_builder_refuse(struct node_builder *builder, struct node_place place,
                                const char *format, ...) PRINTF_LIKE(3, 4);

#endif /* SLUICE_POLICY_NODE_BUILDER_H */
