#include "policy/loader_yaml.h"

#include <assert.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/limits.h"
#include "policy/quote.h"

enum {
    PROBLEM_BYTES_MAX = 1024,
    /* How many times the nodes of the file, and how many beyond, its aliases may make of them. */
    ALIAS_FACTOR = 8,
    ALIAS_NODES_MAX = 100000,
};

/* A list or mapping whose members are being copied. */
struct frame {
    const yaml_node_t *source;
    struct node *node;
    size_t next; /* index into node->items */
};

struct copier {
    yaml_document_t *document;
    const char *noun; /* what the file is */
    struct arena *arena;
    struct diags *diags;
    struct environment environment;
    size_t n_nodes;     /* copied so far */
    size_t n_nodes_max; /* with aliases expanded */
    struct frame frames[POLICY_DEPTH_MAX];
    size_t n_frames;
};

/* libyaml counts from 0. */
static uint32_t place_of(size_t mark)
{
    return mark < UINT32_MAX ? (uint32_t)mark + 1 : UINT32_MAX;
}

/* --- what is not YAML --- */

static void report_encoding(const yaml_parser_t *parser, struct span yaml, struct diags *diags)
{
    uint32_t line = 1;
    uint32_t column = 1;
    for (size_t i = 0; i < parser->problem_offset && i < yaml.len; i++) {
        column = yaml.data[i] == '\n' ? 1 : column + 1;
        line += yaml.data[i] == '\n';
    }
    diags_add(diags, DIAG_ERROR, line, column, "not YAML: %s", parser->problem);
}

static enum status report_parser_error(const yaml_parser_t *parser, struct span yaml,
                                       struct diags *diags)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return STATUS_NO_MEMORY;
    }
    if (parser->error == YAML_READER_ERROR) {
        report_encoding(parser, yaml, diags);
        return STATUS_INVALID;
    }
    diags_add(diags, DIAG_ERROR, place_of(parser->problem_mark.line),
              place_of(parser->problem_mark.column), "not YAML: %s%s%s",
              parser->problem != NULL ? parser->problem : "it cannot be read",
              parser->context != NULL ? ", " : "", parser->context != NULL ? parser->context : "");
    return STATUS_INVALID;
}

/* --- one node --- */

static void expand_scalar(struct copier *copier, struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (!environment_expand(&copier->environment, node->written, &node->text, &node->expanded,
                            &problem)) {
        node->broken = true;
        diags_add(copier->diags, DIAG_ERROR, node->line, node->column, "%.*s",
                  SPAN_ARGS(text_span(&problem)));
    }
}

/* Copy what @source says of itself into @node; its members come later. */
static enum status copy_node(struct copier *copier, const yaml_node_t *source, struct node *node,
                             bool is_key)
{
    node->line = place_of(source->start_mark.line);
    node->column = place_of(source->start_mark.column);
    if (source->type == YAML_SCALAR_NODE) {
        const struct span value =
            span_of((const char *)source->data.scalar.value, source->data.scalar.length);
        node->kind = NODE_SCALAR;
        node->plain = source->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->written = arena_copy(copier->arena, value);
        node->text = node->written;
        if (node->written.data == NULL) {
            return STATUS_NO_MEMORY;
        }
        if (!is_key) {
            expand_scalar(copier, node);
        }
        return STATUS_OK;
    }
    if (is_key) {
        diags_add(copier->diags, DIAG_ERROR, node->line, node->column,
                  "a key must be a single word");
        return STATUS_INVALID;
    }
    const bool is_list = source->type == YAML_SEQUENCE_NODE;
    node->kind = is_list ? NODE_LIST : NODE_MAPPING;
    node->n_items =
        is_list ? (size_t)(source->data.sequence.items.top - source->data.sequence.items.start)
                : 2 * (size_t)(source->data.mapping.pairs.top - source->data.mapping.pairs.start);
    node->items = arena_calloc(copier->arena, node->n_items + 1, sizeof(*node->items));
    return node->items != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

/* --- duplicate keys --- */

static int compare_keys(const void *a, const void *b)
{
    const struct node *x = *(const struct node *const *)a;
    const struct node *y = *(const struct node *const *)b;
    const size_t len = x->text.len < y->text.len ? x->text.len : y->text.len;
    const int order = len > 0 ? memcmp(x->text.data, y->text.data, len) : 0;
    if (order != 0) {
        return order;
    }
    if (x->text.len != y->text.len) {
        return x->text.len < y->text.len ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

/* All keys of @mapping are copied: find those that stand twice. */
static enum status check_keys(struct copier *copier, const struct node *mapping)
{
    const size_t n_keys = mapping->n_items / 2;
    const struct node **keys = arena_calloc(copier->arena, n_keys + 1, sizeof(const struct node *));
    if (keys == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < n_keys; i++) {
        keys[i] = &mapping->items[2 * i];
    }
    qsort(keys, n_keys, sizeof(const struct node *), compare_keys);
    for (size_t i = 1; i < n_keys; i++) {
        if (span_equals(keys[i]->text, keys[i - 1]->text)) {
            diags_add(copier->diags, DIAG_ERROR, keys[i]->line, keys[i]->column,
                      "\"%.*s\" stands twice; the first is in line %u",
                      SPAN_ARGS(quote_clip(keys[i]->text)), keys[i - 1]->line);
        }
    }
    return STATUS_OK;
}

/* --- the walk --- */

/* The document's node behind item @i of @frame. */
static const yaml_node_t *source_of_item(struct copier *copier, const struct frame *frame, size_t i)
{
    int id = 0;
    if (frame->node->kind == NODE_LIST) {
        id = frame->source->data.sequence.items.start[i];
    } else {
        const yaml_node_pair_t *pair = &frame->source->data.mapping.pairs.start[i / 2];
        id = i % 2 == 0 ? pair->key : pair->value;
    }
    return yaml_document_get_node(copier->document, id);
}

static enum status push(struct copier *copier, const yaml_node_t *source, struct node *node)
{
    if (copier->n_frames == POLICY_DEPTH_MAX) {
        diags_add(copier->diags, DIAG_ERROR, node->line, node->column,
                  "nested more than %d deep, or an alias within itself", POLICY_DEPTH_MAX);
        return STATUS_INVALID;
    }
    copier->frames[copier->n_frames++] = (struct frame){.source = source, .node = node};
    return STATUS_OK;
}

/* Copy the next member of the innermost list or mapping, or leave it. */
static enum status step(struct copier *copier)
{
    struct frame *frame = &copier->frames[copier->n_frames - 1];
    if (frame->next == frame->node->n_items) {
        copier->n_frames--;
        return frame->node->kind == NODE_MAPPING ? check_keys(copier, frame->node) : STATUS_OK;
    }
    const bool is_key = frame->node->kind == NODE_MAPPING && frame->next % 2 == 0;
    const yaml_node_t *source = source_of_item(copier, frame, frame->next);
    struct node *node = &frame->node->items[frame->next];
    frame->next++;
    if (++copier->n_nodes > copier->n_nodes_max) {
        diags_add(copier->diags, DIAG_ERROR, place_of(source->start_mark.line),
                  place_of(source->start_mark.column),
                  "the aliases of this file repeat too much: more than %zu values",
                  copier->n_nodes_max);
        return STATUS_INVALID;
    }
    const enum status status = copy_node(copier, source, node, is_key);
    if (status != STATUS_OK || node->kind == NODE_SCALAR) {
        return status;
    }
    return push(copier, source, node);
}

static enum status copy_document(struct copier *copier, struct node **root)
{
    const yaml_node_t *source = yaml_document_get_root_node(copier->document);
    if (source == NULL) {
        diags_add(copier->diags, DIAG_ERROR, 1, 1, "the file is empty");
        return STATUS_INVALID;
    }
    *root = arena_calloc(copier->arena, 1, sizeof(**root));
    if (*root == NULL) {
        return STATUS_NO_MEMORY;
    }
    enum status status = copy_node(copier, source, *root, false);
    if (status != STATUS_OK) {
        return status;
    }
    if ((*root)->kind != NODE_MAPPING) {
        diags_add(copier->diags, DIAG_ERROR, (*root)->line, (*root)->column,
                  "%s is a mapping (key: value), not %s", copier->noun, node_noun(*root));
        return STATUS_INVALID;
    }
    status = push(copier, source, *root);
    while (status == STATUS_OK && copier->n_frames > 0) {
        status = step(copier);
    }
    return status;
}

/* Whether a second document follows the first. */
static enum status check_end(yaml_parser_t *parser, struct span yaml, const char *noun,
                             struct diags *diags)
{
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document)) {
        return report_parser_error(parser, yaml, diags);
    }
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    if (root != NULL) {
        diags_add(diags, DIAG_ERROR, place_of(root->start_mark.line),
                  place_of(root->start_mark.column), "%s is one document; a second starts here",
                  noun);
    }
    yaml_document_delete(&document);
    return STATUS_OK;
}

enum status loader_yaml_read(struct span yaml, const char *noun, environment_lookup lookup,
                             struct arena *arena, struct diags *diags, struct node **root)
{
    yaml_parser_t parser;
    yaml_document_t document;
    assert(lookup != NULL);

    if (!yaml_parser_initialize(&parser)) {
        return STATUS_NO_MEMORY;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml.data, yaml.len);
    if (!yaml_parser_load(&parser, &document)) {
        const enum status status = report_parser_error(&parser, yaml, diags);
        yaml_parser_delete(&parser);
        return status;
    }
    const size_t n_nodes = (size_t)(document.nodes.top - document.nodes.start);
    const size_t n_nodes_max = ALIAS_FACTOR * n_nodes + ALIAS_NODES_MAX;
    struct copier copier = {
        .document = &document,
        .noun = noun,
        .arena = arena,
        .diags = diags,
        .environment = {.lookup = lookup, .arena = arena, .room = POLICY_FILE_BYTES_MAX},
        .n_nodes_max = n_nodes_max < POLICY_NODES_MAX ? n_nodes_max : POLICY_NODES_MAX,
    };
    enum status status = copy_document(&copier, root);
    if (status == STATUS_OK) {
        status = check_end(&parser, yaml, noun, diags);
    }
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return status;
}
