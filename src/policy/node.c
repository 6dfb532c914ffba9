#include "policy/node.h"

#include <assert.h>

bool node_is_null(const struct node *node)
{
    if (node->kind != NODE_SCALAR || !node->plain) {
        return false;
    }
    return node->written.len == 0 || span_equals(node->written, SPAN("~")) ||
           span_equals_ignore_case(node->written, SPAN("null"));
}

const struct node *node_find(const struct node *mapping, struct span key)
{
    assert(mapping->kind == NODE_MAPPING);

    for (size_t i = 0; i < mapping->n_items; i += 2) {
        if (span_equals(mapping->items[i].text, key)) {
            return &mapping->items[i + 1];
        }
    }
    return NULL;
}

const char *node_noun(const struct node *node)
{
    switch (node->kind) {
    case NODE_SCALAR:
        return "a single value";
    case NODE_LIST:
        return "a list";
    case NODE_MAPPING:
        return "a mapping";
    }
    return "";
}
