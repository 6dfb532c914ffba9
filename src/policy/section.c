#include "policy/section.h"

#include <assert.h>
#include <string.h>

#include "policy/quote.h"
#include "policy/suggest.h"

enum { PROBLEM_BYTES_MAX = 512 };

/* Where the reader is: "limits", "per-client", "deny". */
struct path {
    const struct path *parent; /* NULL: the top of the file */
    struct span name;
};

static void write_path(const struct path *path, struct text *text)
{
    if (path->parent == NULL) {
        return;
    }
    write_path(path->parent, text);
    if (path->parent->parent != NULL) {
        text_add_literal(text, ".");
    }
    text_add(text, quote_clip(path->name));
}

/* " in limits.per-client", or nothing at the top. */
static void write_where(const struct path *path, struct text *text)
{
    if (path->parent != NULL) {
        text_add_literal(text, " in ");
        write_path(path, text);
    }
}

static void report(struct section_reader *reader, const struct node *node,
                   const struct text *message)
{
    diags_add(reader->diags, DIAG_ERROR, node->line, node->column, "%.*s",
              SPAN_ARGS(text_span(message)));
}

/* --- words --- */

static const struct value_word *find_word(const struct value_word *words, struct span span)
{
    for (const struct value_word *word = words; word->text != NULL; word++) {
        if (span_equals(span_of_text(word->text), span)) {
            return word;
        }
    }
    return NULL;
}

static bool parse_word(const struct value_type *type, struct span span, int *value,
                       struct text *problem)
{
    const struct value_word *found = find_word(type->words, span);
    if (found != NULL) {
        *value = found->value;
        text_add_literal(problem, "not yet built");
        return !found->not_yet;
    }
    struct suggest suggest;
    suggest_init(&suggest, span);
    for (const struct value_word *word = type->words; word->text != NULL; word++) {
        suggest_offer(&suggest, span_of_text(word->text));
    }
    text_add_format(problem, "must be %s", type->noun);
    suggest_write(&suggest, problem);
    return false;
}

/* --- one value --- */

/* `KEY "VALUE": PROBLEM`. What came from the environment is not shown, nor what is wrong with it,
 * which may quote it. */
static void report_value(struct section_reader *reader, const char *key,
                         const struct value_type *type, const struct node *node,
                         const struct text *problem)
{
    char buffer[2 * PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add(&message, span_of_text(key));
    if (node->expanded || !type->is_secret) {
        text_add_literal(&message, " ");
        quote_write(&message, node->written);
    }
    text_add_literal(&message, ": ");
    if (node->expanded) {
        text_add_format(&message,
                        "with the environment's value it is not sound (values are not shown); it "
                        "must be %s",
                        type->noun);
    } else {
        text_add(&message, text_span(problem));
    }
    report(reader, node, &message);
}

static void read_scalar(struct section_reader *reader, const char *key,
                        const struct value_type *type, const struct node *node, void *out)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (node->broken) {
        return;
    }
    if (node->kind != NODE_SCALAR) {
        diags_add(reader->diags, DIAG_ERROR, node->line, node->column, "%s must be %s, not %s", key,
                  type->noun, node_noun(node));
        return;
    }
    const bool sound = type->kind == VALUE_WORD
                           ? parse_word(type, node->text, out, &problem)
                           : type->parse(type, node, reader->arena, out, &problem);
    if (!sound) {
        report_value(reader, key, type, node, &problem);
    }
}

/* The default of @field, as if it stood in the file where its section does. */
static void read_fallback(struct section_reader *reader, const struct section_field *field,
                          const struct node *section_node, void *out)
{
    assert(field->shape == SHAPE_ONE);
    struct node *node = arena_calloc(reader->arena, 1, sizeof(*node));
    if (node == NULL) {
        reader->no_memory = true;
        return;
    }
    node->line = section_node->line;
    node->column = section_node->column;
    node->written = span_of_text(field->fallback);
    node->text = node->written;
    read_scalar(reader, field->key, field->type, node, out);
}

/* --- sections --- */

static const struct section_field *find_field(const struct section *section, struct span key)
{
    for (size_t i = 0; i < section->n_fields; i++) {
        if (span_equals(span_of_text(section->fields[i].key), key)) {
            return &section->fields[i];
        }
    }
    return NULL;
}

static void report_unknown_key(struct section_reader *reader, const struct section *section,
                               const struct path *path, const struct node *key)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    struct suggest suggest;
    suggest_init(&suggest, key->text);
    for (size_t i = 0; i < section->n_fields && !reader->diags->truncated; i++) {
        suggest_offer(&suggest, span_of_text(section->fields[i].key));
    }
    text_add_literal(&message, "unknown key ");
    quote_write(&message, key->text);
    write_where(path, &message);
    suggest_write(&suggest, &message);
    for (size_t i = 0; i < section->n_fields && suggest.best.len == 0; i++) {
        if (section->fields[i].standing != KEY_NOT_YET) {
            text_add(&message, message.len > 0 && i == 0 ? SPAN("; known are ") : SPAN(", "));
            text_add(&message, span_of_text(section->fields[i].key));
        }
    }
    report(reader, key, &message);
}

/* Whether @field may be read from @key: known, built and with a value. */
static bool check_key(struct section_reader *reader, const struct section *section,
                      const struct path *path, const struct node *key)
{
    const struct section_field *field = find_field(section, key->text);
    if (field == NULL && section->others != NULL && section->is_other(key->text)) {
        return true;
    }
    if (field == NULL) {
        report_unknown_key(reader, section, path, key);
        return false;
    }
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add_format(&message, "\"%s\"", field->key);
    write_where(path, &message);
    if (field->standing == KEY_NOT_YET) {
        text_add_literal(&message, " is not yet built");
        report(reader, key, &message);
        return false;
    }
    if (node_is_null(&key[1])) {
        text_add_literal(&message, " has no value; give it one, or leave the key out");
        report(reader, key, &message);
        return false;
    }
    return true;
}

static void report_missing_key(struct section_reader *reader, const struct section_field *field,
                               const struct path *path, const struct node *section_node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add_format(&message, "\"%s\" is missing", field->key);
    write_where(path, &message);
    report(reader, section_node, &message);
}

static void read_field(struct section_reader *reader, const struct section_field *field,
                       const struct path *path, const struct node *value, char *spec);
static void read_entries(struct section_reader *reader, const struct section_field *field,
                         bool (*is_wanted)(struct span key), const struct path *path,
                         const struct node *node, char *spec);

/* Read one level; nested sections come back here, as deep as the tables are. */
static void read_section(struct section_reader *reader, const struct section *section,
                         const struct path *path, const struct node *node, void *spec)
{
    static const struct node NOTHING = {.kind = NODE_MAPPING};
    const struct node *mapping = node != NULL ? node : &NOTHING;
    for (size_t i = 0; i < mapping->n_items; i += 2) {
        (void)check_key(reader, section, path, &mapping->items[i]);
    }
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct section_field *field = &section->fields[i];
        const struct node *value = node_find(mapping, span_of_text(field->key));
        if (field->standing == KEY_NOT_YET || (value != NULL && node_is_null(value))) {
            continue;
        }
        if (value == NULL && node != NULL && field->standing == KEY_REQUIRED) {
            report_missing_key(reader, field, path, node);
        }
        if (field->fallback != NULL) {
            read_fallback(reader, field, mapping, (char *)spec + field->offset);
        }
        if (value != NULL || (field->shape == SHAPE_ONE && field->type->kind == VALUE_SECTION)) {
            read_field(reader, field, path, value, spec);
        }
    }
    if (section->others != NULL) {
        read_entries(reader, section->others, section->is_other, path, mapping, spec);
    }
}

/* `PATH must be WANTED, not a list`. */
static void report_kind(struct section_reader *reader, const struct path *path, const char *wanted,
                        const struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    write_path(path, &message);
    text_add_format(&message, " must be %s, not %s", wanted, node_noun(node));
    report(reader, node, &message);
}

/* Whether a list may stand for the mapping: the one key that it stands for is a list. */
static bool takes_list(const struct section *section)
{
    return section->shorthand != NULL &&
           find_field(section, span_of_text(section->shorthand))->shape == SHAPE_LIST;
}

/* A value that should be a mapping: as it is, or wrapped where the section has a shorthand. */
static const struct node *as_mapping(struct section_reader *reader, const struct path *path,
                                     const struct section *section, const struct node *node)
{
    if (node->broken || node->kind == NODE_MAPPING) {
        return node->broken ? NULL : node;
    }
    if (section->shorthand == NULL || (node->kind == NODE_LIST && !takes_list(section))) {
        report_kind(reader, path,
                    section->shorthand == NULL ? "a mapping (key: value)"
                                               : "a single value or a mapping (key: value)",
                    node);
        return NULL;
    }
    struct node *mapping = arena_calloc(reader->arena, 1, sizeof(*mapping));
    struct node *items = arena_calloc(reader->arena, 2, sizeof(*items));
    if (mapping == NULL || items == NULL) {
        reader->no_memory = true;
        return NULL;
    }
    items[0] = *node;
    items[0].text = span_of_text(section->shorthand);
    items[0].written = items[0].text;
    items[1] = *node;
    *mapping = (struct node){.kind = NODE_MAPPING,
                             .line = node->line,
                             .column = node->column,
                             .items = items,
                             .n_items = 2};
    return mapping;
}

/* Defaults but for the one key that a single value stands for; messages
 * call it @key, as written. */
static void read_shorthand(struct section_reader *reader, const char *key,
                           const struct section *section, const struct path *path,
                           const struct node *node, char *spec)
{
    const struct section_field *field = find_field(section, span_of_text(section->shorthand));
    read_section(reader, section, path, NULL, spec);
    if (field->shape == SHAPE_LIST) {
        read_field(reader, field, path, node, spec);
    } else {
        read_scalar(reader, key, field->type, node, spec + field->offset);
    }
}

/* Read @node into @out as the type says; NULL is a section of defaults. */
static void read_value(struct section_reader *reader, const char *key,
                       const struct value_type *type, const struct path *path,
                       const struct node *node, void *out)
{
    if (type->kind != VALUE_SECTION) {
        read_scalar(reader, key, type, node, out);
        return;
    }
    const struct node *mapping =
        node != NULL ? as_mapping(reader, path, type->section, node) : NULL;
    struct section_place *place = out;
    if (mapping == NULL && node != NULL) {
        return;
    }
    place->node = mapping;
    if (mapping != node) {
        read_shorthand(reader, key, type->section, path, node, out);
    } else {
        read_section(reader, type->section, path, mapping, out);
    }
}

/* --- lists and maps --- */

static char *new_items(struct section_reader *reader, const struct section_field *field,
                       const struct node *node, size_t n_items, char *spec)
{
    struct section_items *items = (void *)(spec + field->offset);
    char *memory = arena_calloc(reader->arena, n_items + 1, field->type->bytes);
    if (memory == NULL) {
        reader->no_memory = true;
        return NULL;
    }
    *items = (struct section_items){.node = node, .items = memory, .n_items = n_items};
    return memory;
}

static void read_list(struct section_reader *reader, const struct section_field *field,
                      const struct path *path, const struct node *node, char *spec)
{
    const bool is_section = field->type->kind == VALUE_SECTION;
    const bool has_scalars = !is_section || field->type->section->shorthand != NULL;
    /* A section that a scalar may stand for stands alone in both its forms. */
    const bool alone =
        has_scalars && (node->kind == NODE_SCALAR || (is_section && node->kind == NODE_MAPPING));
    if (node->broken) {
        return;
    }
    if (!alone && node->kind != NODE_LIST) {
        char wanted[PROBLEM_BYTES_MAX];
        struct text noun = text_of(wanted, sizeof(wanted) - 1);
        if (!has_scalars) {
            text_add_literal(&noun, "a list");
        } else {
            text_add_format(&noun, "%s, or a list of such", field->type->noun);
        }
        wanted[noun.len] = '\0';
        report_kind(reader, path, wanted, node);
        return;
    }
    const struct node *values = alone ? node : node->items;
    const size_t n_values = alone ? 1 : node->n_items;
    char *items = new_items(reader, field, node, n_values, spec);
    for (size_t i = 0; i < n_values && items != NULL; i++) {
        char number[24];
        struct text name = text_of(number, sizeof(number));
        text_add_u64(&name, i + 1);
        const struct path item_path = {.parent = path, .name = text_span(&name)};
        if (node_is_null(&values[i])) {
            diags_add(reader->diags, DIAG_ERROR, values[i].line, values[i].column,
                      "an item of %s is empty", field->key);
        } else {
            read_value(reader, field->key, field->type, &item_path, &values[i],
                       items + i * field->type->bytes);
        }
    }
}

/* The entries of @node, those that @is_wanted takes; NULL: all. */
static void read_entries(struct section_reader *reader, const struct section_field *field,
                         bool (*is_wanted)(struct span key), const struct path *path,
                         const struct node *node, char *spec)
{
    const size_t n_entries = node->n_items / 2;
    char *items = new_items(reader, field, node, n_entries, spec);
    size_t n_read = 0;
    for (size_t i = 0; i < n_entries && items != NULL; i++) {
        const struct node *key = &node->items[2 * i];
        const struct path item_path = {.parent = path, .name = key->text};
        if (is_wanted != NULL && !is_wanted(key->text)) {
            continue;
        }
        struct section_place *place = (void *)(items + n_read++ * field->type->bytes);
        place->name = key->text;
        place->name_node = key;
        if (node_is_null(&key[1])) {
            diags_add(reader->diags, DIAG_ERROR, key->line, key->column,
                      "\"%.*s\" in %s has no value", SPAN_ARGS(quote_clip(key->text)), field->key);
        } else {
            read_value(reader, field->key, field->type, &item_path, &key[1], place);
        }
    }
    if (items != NULL) {
        ((struct section_items *)(void *)(spec + field->offset))->n_items = n_read;
    }
}

static void read_map(struct section_reader *reader, const struct section_field *field,
                     const struct path *path, const struct node *node, char *spec)
{
    if (node->kind != NODE_MAPPING) {
        report_kind(reader, path, "a mapping of names", node);
        return;
    }
    read_entries(reader, field, NULL, path, node, spec);
}

static void read_field(struct section_reader *reader, const struct section_field *field,
                       const struct path *path, const struct node *value, char *spec)
{
    const struct path field_path = {.parent = path, .name = span_of_text(field->key)};
    switch (field->shape) {
    case SHAPE_ONE:
        read_value(reader, field->key, field->type, &field_path, value, spec + field->offset);
        return;
    case SHAPE_LIST:
        read_list(reader, field, &field_path, value, spec);
        return;
    case SHAPE_MAP:
        read_map(reader, field, &field_path, value, spec);
        return;
    }
}

void section_read(struct section_reader *reader, const struct section *section,
                  const struct node *root, void *spec)
{
    static const struct path TOP = {.parent = NULL};
    struct section_place *place = spec;
    assert(root->kind == NODE_MAPPING);

    place->node = root;
    read_section(reader, section, &TOP, root, spec);
}
