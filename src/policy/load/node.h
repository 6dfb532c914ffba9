/* The tree of a YAML file: scalars, lists and mappings, each with its position, where errors and
 * warnings are reported. It lives in the loader's arena; aliases are expanded. */

#ifndef SLUICE_POLICY_LOAD_NODE_H
#define SLUICE_POLICY_LOAD_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/load/loader_yaml.h"
#include "policy/warning.h"

struct node_builder;

enum node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAPPING,
};

struct node {
    enum node_kind kind;
    uint32_t line;       /* from 1 */
    uint32_t column;     /* from 1 */
    uint16_t file;       /* number in the diags */
    bool plain;          /* a scalar without quotes */
    bool expanded;       /* text contains environment values, never shown */
    bool broken;         /* its error is already reported */
    struct span text;    /* of a scalar, with variables expanded */
    struct span written; /* of a scalar, as in the file; quoted in messages */
    struct node *items;  /* of a list; of a mapping: key, value, key, value … */
    size_t n_items;      /* of a mapping: twice its entries */
};

/* Whether @node has no value: `key:` alone, `~` or `null`, without quotes. */
bool node_is_null(const struct node *node);

/* The value of @key in @mapping, or NULL. A mapping that is NULL has no keys. */
const struct node *node_find(const struct node *mapping, struct span key);

/* Report keys that stand twice in @mapping: pairs in one file, or pairs in two files that were
 * merged, if @across. STATUS_NO_MEMORY. */
MUST_USE enum status node_report_duplicates(const struct node *mapping, bool across,
                                            struct arena *arena, struct diags *diags);

/* "a list", "a mapping" …, for messages. */
const char *node_noun(const struct node *node);

/* Report an error at @node. */
void node_error(struct diags *diags, const struct node *node, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Report an error at the scalar @node: `WHAT "VALUE"`, then the text of @format. The value is
 * quoted as written. */
void node_report(struct diags *diags, const struct node *node, const char *what, const char *format,
                 ...) PRINTF_LIKE(4, 5);

/* Report @warning at @node. */
void node_warn(struct diags *diags, const struct node *node, enum warning warning,
               const char *format, ...) PRINTF_LIKE(4, 5);

/* --- the builder ---
 *
 * Builds the tree of a YAML file from the events of a parser. Input that is too deep or too large
 * is refused at its event, before the rest is in memory. */

/* From 1. */
struct node_position {
    uint32_t line;
    uint32_t column;
};

/* All are borrowed. NULL: no memory. */
struct node_builder *node_builder_new(const struct loader_source *source, environment_lookup lookup,
                                      struct arena *arena, struct diags *diags);
void node_builder_free(struct node_builder *builder);

/* Events of the parser. @anchor is the name of the event's anchor; data is NULL: it has none. After
 * STATUS_INVALID, which the diags explain, or STATUS_NO_MEMORY no further event may be passed. */
MUST_USE enum status node_builder_scalar(struct node_builder *builder,
                                         struct node_position position, struct span anchor,
                                         struct span value, bool is_plain);
MUST_USE enum status node_builder_alias(struct node_builder *builder, struct node_position position,
                                        struct span anchor);
MUST_USE enum status node_builder_begin(struct node_builder *builder, enum node_kind kind,
                                        struct node_position position, struct span anchor);
MUST_USE enum status node_builder_end(struct node_builder *builder);

/* The outermost mapping, after its end event. */
struct node node_builder_root(const struct node_builder *builder);

/* Report an error at @position. Returns STATUS_INVALID. */
enum status node_builder_refuse(struct node_builder *builder, struct node_position position,
                                const char *format, ...) PRINTF_LIKE(3, 4);

/* --- values in messages. The length is bounded, so that the reason after them always fits --- */

enum { QUOTE_BYTES_MAX = 64 };

/* The first QUOTE_BYTES_MAX bytes of @value. */
struct span quote_clip(struct span value);

/* Write "VALUE" with its quotes; a longer value ends with an ellipsis. Asterisks replace the user
 * and the password of a URL. */
void quote_write(struct text *text, struct span value);

#endif /* SLUICE_POLICY_LOAD_NODE_H */
