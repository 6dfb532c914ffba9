#include "policy/load/node.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/load/endpoint.h"
#include "policy/load/name_index.h"

enum { MESSAGE_BYTES_MAX = 1024 };

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
    assert(mapping == NULL || mapping->kind == NODE_MAPPING);

    for (size_t i = 0; mapping != NULL && i < mapping->n_items; i += 2) {
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

void node_error(struct diags *diags, const struct node *node, const char *format, ...)
{
    const struct diag diag = {
        .severity = DIAG_ERROR, .file = node->file, .line = node->line, .column = node->column};
    va_list args;
    va_start(args, format);
    diags_add_args(diags, diag, format, args);
    va_end(args);
}

void node_report(struct diags *diags, const struct node *node, const char *what, const char *format,
                 ...)
{
    char buffer[MESSAGE_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    va_list args;
    text_add(&message, span_of_text(what));
    text_add_char(&message, ' ');
    quote_write(&message, node->written);
    va_start(args, format);
    (void)vsnprintf(buffer + message.len, sizeof(buffer) - message.len, format, args);
    va_end(args);
    node_error(diags, node, "%s", buffer);
}

void node_warn(struct diags *diags, const struct node *node, enum warning warning,
               const char *format, ...)
{
    const struct diag diag = {.severity = DIAG_WARNING,
                              .file = node->file,
                              .line = node->line,
                              .column = node->column,
                              .name = warning_name(warning)};
    va_list args;
    va_start(args, format);
    diags_add_args(diags, diag, format, args);
    va_end(args);
}

enum status node_report_duplicates(const struct node *mapping, bool across, struct arena *arena,
                                   struct diags *diags)
{
    const size_t n_keys = mapping->n_items / 2;
    const struct name_entry *found = NULL;
    struct name_index index;
    if (name_index_init(&index, arena, n_keys) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < n_keys; i++) {
        name_index_add(&index, mapping->items[2 * i].text, (uint32_t)i);
    }
    name_index_build(&index);
    while ((found = name_index_next_duplicate(&index, found)) != NULL) {
        const struct node *key = &mapping->items[2 * (size_t)found->number];
        const struct node *first = &mapping->items[2 * (size_t)found[-1].number];
        if (across && key->file != first->file) {
            node_error(diags, key, "\"%.*s\" stands twice; the first is at %s:%u",
                       SPAN_ARGS(quote_clip(found->name)), diags_file(diags, first->file),
                       first->line);
        } else if (!across) {
            node_error(diags, key, "\"%.*s\" stands twice; the first is in line %u",
                       SPAN_ARGS(quote_clip(found->name)), first->line);
        }
    }
    return STATUS_OK;
}

/* --- the builder ---
 *
 * Children of an open list or mapping are kept in `pending`; at its end they move to the arena as
 * an array. An alias is a copy of the node of its anchor and shares its children. */

enum {
    PROBLEM_BYTES_MAX = 1024,
    /* Bounds for the values after aliases are expanded: a factor of the values in the file, and a
     * number beyond. */
    ALIAS_FACTOR = 8,
    ALIAS_NODES_MAX = 100000,
    ANCHOR_HEADS = 4096, /* a power of two */
    FIRST_PENDING = 256,
};

/* A list or mapping that has not ended. */
struct frame {
    struct node node;
    size_t first;       /* index of its first child in pending */
    size_t n_items_max; /* maximum number of children */
    const char *bound;  /* the bound n_items_max, for messages */
    uint32_t anchor;    /* index + 1; 0: it has none */
    size_t n_nodes;     /* number of all nodes when it began */
    size_t height;      /* 1 + the height of its highest child; 1 if all are scalars */
};

struct anchor {
    struct span name;
    struct node node;
    size_t n_nodes; /* nodes that an alias adds */
    size_t height;  /* 0: a scalar */
    bool is_open;   /* its node has not ended */
    uint32_t next;  /* of the same hash: index + 1; 0: none */
};

struct node_builder {
    const struct loader_source *source;
    struct arena *arena;
    struct diags *diags;
    struct environment environment;
    struct loader_room own_room; /* where the source has none */
    struct loader_room *room;
    struct node root;
    struct frame frames[POLICY_DEPTH_MAX];
    size_t n_frames;
    struct node *pending; /* owned */
    size_t n_pending;
    size_t n_pending_max;
    struct anchor *anchors; /* owned */
    uint32_t n_anchors;
    uint32_t anchor_heads[ANCHOR_HEADS]; /* index + 1; 0: none */
    struct hash_key hash_key;
};

enum status node_builder_refuse(struct node_builder *builder, struct node_position position,
                                const char *format, ...)
{
    char buffer[PROBLEM_BYTES_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    diags_add(builder->diags, DIAG_ERROR, position.line, position.column, "%s", buffer);
    return STATUS_INVALID;
}

/* --- scalars --- */

/* Set the text of a scalar; keys are not expanded. */
static void set_text(struct node_builder *builder, struct node *node, bool is_key)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    node->text = node->written;
    node->expanded = false;
    node->broken = false;
    if (!is_key && !environment_expand(&builder->environment, node->written, &node->text,
                                       &node->expanded, &problem)) {
        node->broken = true;
        node_error(builder->diags, node, "%.*s", SPAN_ARGS(text_span(&problem)));
    }
}

static struct node node_at(const struct node_builder *builder, enum node_kind kind,
                           struct node_position position)
{
    return (struct node){.kind = kind,
                         .line = position.line,
                         .column = position.column,
                         .file = builder->diags->current};
}

/* --- anchors --- */

static uint32_t *anchor_head(struct node_builder *builder, struct span name)
{
    return &builder->anchor_heads[hash_table(&builder->hash_key, name).low & (ANCHOR_HEADS - 1)];
}

/* NULL: there is none. */
static struct anchor *find_anchor(struct node_builder *builder, struct span name)
{
    for (uint32_t i = *anchor_head(builder, name); i > 0; i = builder->anchors[i - 1].next) {
        if (span_equals(builder->anchors[i - 1].name, name)) {
            return &builder->anchors[i - 1];
        }
    }
    return NULL;
}

/* Add the anchor @name (data is NULL: there is none) of a node that begins at @position. *number:
 * index + 1, or 0. */
static enum status add_anchor(struct node_builder *builder, struct span name,
                              struct node_position position, uint32_t *number)
{
    *number = 0;
    if (name.data == NULL) {
        return STATUS_OK;
    }
    const struct span span = arena_copy(builder->arena, name);
    if (span.data == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (find_anchor(builder, span) != NULL) {
        return node_builder_refuse(builder, position, "not YAML: found duplicate anchor");
    }
    if (builder->n_anchors == POLICY_ANCHORS_MAX) {
        return node_builder_refuse(builder, position, "more than %d anchors", POLICY_ANCHORS_MAX);
    }
    if (builder->anchors == NULL) {
        builder->anchors = calloc(POLICY_ANCHORS_MAX, sizeof(*builder->anchors));
    }
    if (builder->anchors == NULL) {
        return STATUS_NO_MEMORY;
    }
    uint32_t *head = anchor_head(builder, span);
    builder->anchors[builder->n_anchors++] =
        (struct anchor){.name = span, .is_open = true, .next = *head};
    *number = builder->n_anchors;
    *head = *number;
    return STATUS_OK;
}

/* Complete the anchor @number (0: none) with its node. */
static void end_anchor(struct node_builder *builder, uint32_t number, const struct node *node,
                       size_t n_nodes, size_t height)
{
    if (number > 0) {
        struct anchor *anchor = &builder->anchors[number - 1];
        anchor->node = *node;
        anchor->n_nodes = n_nodes;
        anchor->height = height;
        anchor->is_open = false;
    }
}

/* --- children --- */

static struct frame *innermost(struct node_builder *builder)
{
    return builder->n_frames > 0 ? &builder->frames[builder->n_frames - 1] : NULL;
}

/* Whether the next node is a key. */
static bool awaits_key(struct node_builder *builder)
{
    const struct frame *frame = innermost(builder);
    return frame != NULL && frame->node.kind == NODE_MAPPING &&
           (builder->n_pending - frame->first) % 2 == 0;
}

/* Make room for one more child of the innermost list or mapping. */
static enum status make_room(struct node_builder *builder, struct node_position position)
{
    const struct frame *frame = innermost(builder);
    if (frame != NULL && builder->n_pending - frame->first == frame->n_items_max) {
        return node_builder_refuse(builder, position, "more than %zu %s",
                                   frame->n_items_max / (frame->node.kind == NODE_MAPPING ? 2 : 1),
                                   frame->bound);
    }
    if (builder->n_pending == builder->n_pending_max) {
        const size_t n = builder->n_pending > 0 ? 2 * builder->n_pending : FIRST_PENDING;
        struct node *larger = realloc(builder->pending, n * sizeof(*larger));
        if (larger == NULL) {
            return STATUS_NO_MEMORY;
        }
        builder->pending = larger;
        builder->n_pending_max = n;
    }
    return STATUS_OK;
}

/* Count one value of the file, or @n_nodes that an alias adds. */
static enum status count_nodes(struct node_builder *builder, struct node_position position,
                               size_t n_nodes)
{
    const size_t n_max = ALIAS_FACTOR * builder->room->n_read + ALIAS_NODES_MAX;
    if (builder->room->n_nodes + n_nodes > POLICY_NODES_MAX) {
        return node_builder_refuse(builder, position, "more than %d keys and values",
                                   POLICY_NODES_MAX);
    }
    builder->room->n_nodes += n_nodes;
    if (builder->room->n_nodes > n_max) {
        return node_builder_refuse(builder, position,
                                   "the aliases of this file repeat too much: more than %zu values",
                                   n_max);
    }
    return STATUS_OK;
}

/* Add the complete @node of @height to the innermost list or mapping. Room is already made. */
static void add_child(struct node_builder *builder, const struct node *node, size_t height)
{
    struct frame *frame = innermost(builder);
    if (frame == NULL) {
        builder->root = *node;
        return;
    }
    frame->height = frame->height > height + 1 ? frame->height : height + 1;
    builder->pending[builder->n_pending++] = *node;
}

/* --- events of the parser --- */

/* Count one more key or value and make room for it. */
static enum status count_and_make_room(struct node_builder *builder, struct node_position position)
{
    builder->room->n_read++;
    const enum status status = count_nodes(builder, position, 1);
    return status == STATUS_OK ? make_room(builder, position) : status;
}

enum status node_builder_scalar(struct node_builder *builder, struct node_position position,
                                struct span anchor, struct span value, bool is_plain)
{
    uint32_t number;
    const bool is_key = awaits_key(builder);
    enum status status = count_and_make_room(builder, position);
    if (status == STATUS_OK && builder->n_frames == 0) {
        status = node_builder_refuse(builder, position,
                                     "%s is a mapping (key: value), not a single value",
                                     builder->source->noun);
    }
    if (status == STATUS_OK) {
        status = add_anchor(builder, anchor, position, &number);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct node node = node_at(builder, NODE_SCALAR, position);
    node.plain = is_plain;
    node.written = arena_copy(builder->arena, value);
    if (node.written.data == NULL) {
        return STATUS_NO_MEMORY;
    }
    set_text(builder, &node, is_key);
    end_anchor(builder, number, &node, 1, 0);
    add_child(builder, &node, 0);
    return STATUS_OK;
}

enum status node_builder_alias(struct node_builder *builder, struct node_position position,
                               struct span name)
{
    enum status status = count_and_make_room(builder, position);
    if (status != STATUS_OK) {
        return status;
    }
    const struct anchor *anchor = find_anchor(builder, name);
    if (anchor == NULL) {
        return node_builder_refuse(builder, position, "not YAML: found undefined alias");
    }
    if (anchor->is_open) {
        return node_builder_refuse(builder, position,
                                   "the alias *%.*s stands within its own anchor",
                                   SPAN_ARGS(quote_clip(anchor->name)));
    }
    if (builder->n_frames + anchor->height > POLICY_DEPTH_MAX) {
        return node_builder_refuse(builder, position, "nested more than %d deep", POLICY_DEPTH_MAX);
    }
    status = count_nodes(builder, position, anchor->n_nodes - 1);
    if (status != STATUS_OK) {
        return status;
    }
    struct node node = anchor->node;
    const bool is_key = awaits_key(builder);
    if (is_key && node.kind != NODE_SCALAR) {
        return node_builder_refuse(builder, position, "a key must be a single word");
    }
    if (node.kind == NODE_SCALAR) {
        set_text(builder, &node, is_key);
    }
    add_child(builder, &node, anchor->height);
    return STATUS_OK;
}

/* Set the bounds of the value of @key in the outermost mapping. */
static void set_bounds(struct node_builder *builder, struct frame *frame, struct span key)
{
    for (const struct loader_bound *bound = builder->source->bounds;
         bound != NULL && bound->key != NULL; bound++) {
        if (span_equals(key, span_of_text(bound->key))) {
            frame->n_items_max = bound->n_max;
            frame->bound = bound->key;
        }
    }
}

enum status node_builder_begin(struct node_builder *builder, enum node_kind kind,
                               struct node_position position, struct span anchor)
{
    enum status status = count_and_make_room(builder, position);
    if (status != STATUS_OK) {
        return status;
    }
    if (builder->n_frames == 0 && kind != NODE_MAPPING) {
        const struct node node = node_at(builder, kind, position);
        return node_builder_refuse(builder, position, "%s is a mapping (key: value), not %s",
                                   builder->source->noun, node_noun(&node));
    }
    if (awaits_key(builder)) {
        return node_builder_refuse(builder, position, "a key must be a single word");
    }
    if (builder->n_frames == POLICY_DEPTH_MAX) {
        return node_builder_refuse(builder, position, "nested more than %d deep", POLICY_DEPTH_MAX);
    }
    struct frame frame = {
        .node = node_at(builder, kind, position),
        .first = builder->n_pending,
        .n_items_max = POLICY_ITEMS_MAX,
        .bound = kind == NODE_LIST ? "values in a list" : "keys in a mapping",
        .n_nodes = builder->room->n_nodes - 1,
        .height = 1,
    };
    if (builder->n_frames == 1) {
        set_bounds(builder, &frame, builder->pending[builder->n_pending - 1].text);
    }
    frame.n_items_max *= kind == NODE_MAPPING ? 2 : 1;
    status = add_anchor(builder, anchor, position, &frame.anchor);
    if (status == STATUS_OK) {
        builder->frames[builder->n_frames++] = frame;
    }
    return status;
}

/* Move the children of the innermost list or mapping to the arena. */
enum status node_builder_end(struct node_builder *builder)
{
    const struct frame *frame = innermost(builder);
    struct node node = frame->node;
    node.n_items = builder->n_pending - frame->first;
    node.items = arena_calloc(builder->arena, node.n_items + 1, sizeof(*node.items));
    if (node.items == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (node.n_items > 0) {
        memcpy(node.items, &builder->pending[frame->first], node.n_items * sizeof(*node.items));
    }
    builder->n_pending = frame->first;
    builder->n_frames--;
    end_anchor(builder, frame->anchor, &node, builder->room->n_nodes - frame->n_nodes,
               frame->height);
    add_child(builder, &node, frame->height);
    return node.kind == NODE_MAPPING
               ? node_report_duplicates(&node, false, builder->arena, builder->diags)
               : STATUS_OK;
}

struct node node_builder_root(const struct node_builder *builder)
{
    return builder->root;
}

struct node_builder *node_builder_new(const struct loader_source *source, environment_lookup lookup,
                                      struct arena *arena, struct diags *diags)
{
    struct node_builder *builder = calloc(1, sizeof(*builder));
    if (builder != NULL) {
        builder->source = source;
        builder->arena = arena;
        builder->diags = diags;
        builder->room = source->room != NULL ? source->room : &builder->own_room;
        builder->environment =
            (struct environment){.lookup = lookup,
                                 .arena = arena,
                                 .room = POLICY_FILE_BYTES_MAX - builder->room->n_expanded};
        builder->hash_key = hash_key_new();
    }
    return builder;
}

void node_builder_free(struct node_builder *builder)
{
    if (builder != NULL) {
        builder->room->n_expanded = POLICY_FILE_BYTES_MAX - builder->environment.room;
        free(builder->pending);
        free(builder->anchors);
        free(builder);
    }
}

struct span quote_clip(struct span value)
{
    return span_of(value.data, value.len < QUOTE_BYTES_MAX ? value.len : QUOTE_BYTES_MAX);
}

/* Remove all up to the last "@" from @url: it may be a password, which may contain any byte.
 * Returns the scheme with "://"; empty if @url is unchanged. */
static struct span cut_user(struct span *url)
{
    struct span rest = *url;
    if (endpoint_cut_scheme(&rest).len == 0) {
        return span_of(url->data, 0);
    }
    const struct span front = span_of(url->data, (size_t)(rest.data - url->data));
    const size_t at = span_find_last(rest, '@');
    if (at == rest.len) {
        return span_of(url->data, 0);
    }
    *url = span_from(rest, at);
    return front;
}

void quote_write(struct text *text, struct span value)
{
    const struct span front = cut_user(&value);
    text_add_literal(text, "\"");
    if (front.len > 0) {
        text_add(text, quote_clip(front));
        text_add_literal(text, "***");
    }
    text_add(text, quote_clip(value));
    text_add(text, value.len > QUOTE_BYTES_MAX ? SPAN("\xe2\x80\xa6\"") : SPAN("\""));
}
