/* The tree of a YAML file as the rest of the loader sees it: scalars, lists and mappings, each with
 * its place. Lives in the loader's arena; aliases are expanded. */

#ifndef SLUICE_POLICY_NODE_H
#define SLUICE_POLICY_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAPPING,
};

struct node {
    enum node_kind kind;
    uint32_t line;       /* from 1 */
    uint32_t column;     /* from 1 */
    bool plain;          /* a scalar without quotes */
    bool expanded;       /* text holds a value of the environment and must not be shown */
    bool broken;         /* what is wrong with it was told already */
    struct span text;    /* of a scalar, with the environment in it */
    struct span written; /* of a scalar, as in the file: what messages quote */
    struct node *items;  /* of a list; of a mapping: key, value, key, value … */
    size_t n_items;      /* of a mapping: twice its entries */
};

/* Nothing stands there: `key:` alone, `~` or `null`, without quotes. */
bool node_is_null(const struct node *node);

/* The value of @key in a mapping, or NULL. */
const struct node *node_find(const struct node *mapping, struct span key);

/* "a list", "a mapping" …, for messages. */
const char *node_noun(const struct node *node);

#endif /* SLUICE_POLICY_NODE_H */
