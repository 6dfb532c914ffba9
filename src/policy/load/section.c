#include "policy/load/section.h"

#include <assert.h>
#include <string.h>

#include "base/diag.h"
#include "policy/load/node.h"

enum { PROBLEM_BYTES_MAX = 512 };

/* The path of the current section: "limits", "per-client", "deny". */
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
    node_error(reader->diags, node, "%.*s", SPAN_ARGS(text_span(message)));
}

/* Report `"KEY"PROBLEM in PATH`, and then @advice. */
static void report_key(struct section_reader *reader, const struct node *node, const char *key,
                       const char *problem, const struct path *path, const char *advice)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add_format(&message, "\"%s\"%s", key, problem);
    write_where(path, &message);
    text_add(&message, span_of_text(advice));
    report(reader, node, &message);
}

/* --- words --- */

bool section_refuse_word(const char *noun, const char *const *words, struct span word,
                         struct text *problem)
{
    struct suggest suggest;
    suggest_init(&suggest, word);
    for (; *words != NULL; words++) {
        suggest_offer(&suggest, span_of_text(*words));
    }
    text_add_format(problem, "must be %s", noun);
    suggest_write(&suggest, problem);
    return false;
}

static bool parse_word(const struct value_input *input, int *value)
{
    const struct value_type *type = input->type;
    for (size_t i = 0; type->words[i] != NULL; i++) {
        if (span_equals(span_of_text(type->words[i]), input->text)) {
            *value = (int)(type->min + i);
            return true;
        }
    }
    return section_refuse_word(type->noun, type->words, input->text, input->problem);
}

/* --- one value --- */

/* Whether @node, which is written in the file, holds nothing that may be a secret: readers of
 * GET /v1/policy/check see messages. */
static bool is_quotable(const struct value_type *type, const struct node *node)
{
    const bool has_query = type->has_query && span_find(node->written, '?') < node->written.len;
    return !type->is_secret && !type->is_matched && !has_query;
}

/* Report `KEY "VALUE": PROBLEM`, or without the value. For a value from the environment neither
 * value nor problem is shown, because the problem may quote it. */
static void report_value(struct section_reader *reader, const char *key,
                         const struct value_type *type, const struct node *node,
                         const struct text *problem)
{
    char buffer[2 * PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add(&message, span_of_text(key));
    if (node->expanded || is_quotable(type, node)) {
        text_add_literal(&message, " ");
        quote_write(&message, node->written);
    }
    text_add_literal(&message, ": ");
    if (node->expanded) {
        text_add_format(&message, "the value from the environment, which is not shown, must be %s",
                        type->noun);
    } else {
        text_add(&message, text_span(problem));
    }
    report(reader, node, &message);
}

/* Parse by the type's kind. What is not valid leaves @out as it is. */
static bool parse(const struct value_input *input, char *out)
{
    const struct value_type *type = input->type;
    switch (type->kind) {
    case VALUE_SCALAR:
        return type->parse(input, out + type->offset);
    case VALUE_STRING:
        if (type->check != NULL && !type->check(input->text, input->problem)) {
            return false;
        }
        ((struct spec_text *)(void *)out)->text = input->text;
        return true;
    case VALUE_WORD:
        return parse_word(input, (int *)(void *)out);
    case VALUE_SECTION:
        break;
    }
    return false;
}

static void read_scalar(struct section_reader *reader, const char *key,
                        const struct value_type *type, const struct node *node, void *out)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct value_input input = {type, node, node->text, reader->arena, &problem};
    if (node->broken) {
        return;
    }
    if (node->kind != NODE_SCALAR) {
        node_error(reader->diags, node, "%s must be %s, not %s", key, type->noun, node_noun(node));
    } else if (!parse(&input, out)) {
        report_value(reader, key, type, node, &problem);
    } else if (type->has_node) {
        *(const struct node **)out = node;
    }
}

/* Read the default of @field, with the position of its section. */
static void read_fallback(struct section_reader *reader, const struct section_field *field,
                          const struct node *section_node, void *out)
{
    assert(field->shape == SHAPE_ONE);
    struct node *node = arena_calloc(reader->arena, 1, sizeof(*node));
    if (node == NULL) {
        reader->no_memory = true;
        return;
    }
    node->file = section_node->file;
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

/* Write what to write instead of @key, a key of other programs. False: it is none. */
static bool write_synonym(const struct section *section, const struct node *key,
                          struct text *message)
{
    for (size_t i = 0; i < section->n_synonyms; i++) {
        const struct section_synonym *synonym = &section->synonyms[i];
        if (span_equals(span_of_text(synonym->key), key->text)) {
            struct span value = key[1].kind == NODE_SCALAR ? key[1].written : SPAN("");
            while (value.len > 0 && value.data[value.len - 1] == '/') {
                value.len--;
            }
            text_add_format(message, "; write %s: %.*s%s", synonym->name,
                            SPAN_ARGS(quote_clip(value)), value.len > 0 ? synonym->suffix : "…");
            return true;
        }
    }
    return false;
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
    if (write_synonym(section, key, &message)) {
        report(reader, key, &message);
        return;
    }
    suggest_write(&suggest, &message);
    const bool is_listed = suggest.best.len == 0 && section->manual == NULL;
    if (suggest.best.len == 0 && section->manual != NULL) {
        text_add_format(&message, "; see %s", section->manual);
    }
    for (size_t i = 0; i < section->n_fields && is_listed; i++) {
        text_add(&message, message.len > 0 && i == 0 ? SPAN("; known are ") : SPAN(", "));
        text_add(&message, span_of_text(section->fields[i].key));
    }
    report(reader, key, &message);
}

/* Report a key that is unknown or without a value. */
static void check_key(struct section_reader *reader, const struct section *section,
                      const struct path *path, const struct node *key)
{
    const struct section_field *field = find_field(section, key->text);
    const bool is_other = field == NULL && section->others != NULL && section->is_other(key->text);
    if (field == NULL && !is_other) {
        report_unknown_key(reader, section, path, key);
    } else if (field != NULL && node_is_null(&key[1])) {
        report_key(reader, key, field->key, "", path,
                   " has no value; give it one, or leave the key out");
    }
}

static void read_field(struct section_reader *reader, const struct section_field *field,
                       const struct path *path, const struct node *value, char *spec);
static void read_entries(struct section_reader *reader, const struct section_field *field,
                         bool (*is_wanted)(struct span key), const struct path *path,
                         const struct node *node, char *spec);

/* Read one level. Recursive for nested sections; the depth is bounded by the tables. */
static void read_section(struct section_reader *reader, const struct section *section,
                         const struct path *path, const struct node *node, void *spec)
{
    static const struct node NOTHING = {.kind = NODE_MAPPING};
    const struct node *mapping = node != NULL ? node : &NOTHING;
    for (size_t i = 0; i < mapping->n_items; i += 2) {
        check_key(reader, section, path, &mapping->items[i]);
    }
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct section_field *field = &section->fields[i];
        const struct node *value = node_find(mapping, span_of_text(field->key));
        if (value != NULL && node_is_null(value)) {
            continue;
        }
        if (value == NULL && node != NULL && field->presence == KEY_REQUIRED) {
            report_key(reader, node, field->key, " is missing", path, "");
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

/* Whether a list may replace the mapping, because the shorthand key is a list. */
static bool takes_list(const struct section *section)
{
    return section->shorthand != NULL &&
           find_field(section, span_of_text(section->shorthand))->shape == SHAPE_LIST;
}

/* Report that @node is no mapping, with the key of @section that must stand there, or its first. */
static void report_no_mapping(struct section_reader *reader, const struct path *path,
                              const struct section *section, const struct node *node)
{
    char buffer[128];
    struct text wanted = text_of(buffer, sizeof(buffer) - 1);
    const struct section_field *shown = &section->fields[0];
    for (size_t i = section->n_fields; i > 0; i--) {
        if (section->fields[i - 1].presence == KEY_REQUIRED) {
            shown = &section->fields[i - 1];
        }
    }
    text_add_format(&wanted, "%sa mapping such as {%s: \xe2\x80\xa6}",
                    section->shorthand != NULL ? "a single value or " : "", shown->key);
    buffer[wanted.len] = '\0';
    report_kind(reader, path, buffer, node);
}

/* The mapping of a section: the value itself, or the value wrapped by the section's shorthand. */
static const struct node *as_mapping(struct section_reader *reader, const struct path *path,
                                     const struct section *section, const struct node *node)
{
    if (node->broken || node->kind == NODE_MAPPING) {
        return node->broken ? NULL : node;
    }
    if (section->shorthand == NULL || (node->kind == NODE_LIST && !takes_list(section))) {
        report_no_mapping(reader, path, section, node);
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
                             .file = node->file,
                             .line = node->line,
                             .column = node->column,
                             .items = items,
                             .n_items = 2};
    return mapping;
}

/* Read defaults, and the shorthand key from a single value. Messages name it @key, as written. */
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

/* Read @node into @out by its type; NULL gives a section of defaults. */
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
    struct section_position *position = out;
    if (mapping == NULL && node != NULL) {
        return;
    }
    position->node = mapping;
    if (mapping != node) {
        read_shorthand(reader, key, type->section, path, node, out);
    } else {
        read_section(reader, type->section, path, mapping, out);
    }
}

/* --- lists and maps --- */

/* @bytes: of an item. */
static char *new_items(struct section_reader *reader, const struct section_field *field,
                       size_t bytes, const struct node *node, size_t n_items, char *spec)
{
    struct section_items *items = (void *)(spec + field->offset);
    char *memory = arena_calloc(reader->arena, n_items + 1, bytes);
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
    /* A section with a shorthand may replace the list as a scalar and as a mapping. */
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
    char *items = new_items(reader, field, field->type->bytes, node, n_values, spec);
    for (size_t i = 0; i < n_values && items != NULL; i++) {
        char number[24];
        struct text name = text_of(number, sizeof(number));
        text_add_u64(&name, i + 1);
        const struct path item_path = {.parent = path, .name = text_span(&name)};
        if (node_is_null(&values[i])) {
            node_error(reader->diags, &values[i], "an item of %s is empty", field->key);
        } else {
            read_value(reader, field->key, field->type, &item_path, &values[i],
                       items + i * field->type->bytes);
        }
    }
}

/* Read the entries of @node that @is_wanted accepts; NULL: all. */
static void read_entries(struct section_reader *reader, const struct section_field *field,
                         bool (*is_wanted)(struct span key), const struct path *path,
                         const struct node *node, char *spec)
{
    const bool has_lists = field->shape == SHAPE_MAP_OF_LISTS;
    const size_t bytes = has_lists ? sizeof(struct section_list) : field->type->bytes;
    const size_t n_entries = node->n_items / 2;
    char *items = new_items(reader, field, bytes, node, n_entries, spec);
    size_t n_read = 0;
    for (size_t i = 0; i < n_entries && items != NULL; i++) {
        const struct node *key = &node->items[2 * i];
        const struct path item_path = {.parent = path, .name = key->text};
        if (is_wanted != NULL && !is_wanted(key->text)) {
            continue;
        }
        struct section_position *position = (void *)(items + n_read++ * bytes);
        position->name = key->text;
        position->name_node = key;
        if (node_is_null(&key[1])) {
            node_error(reader->diags, key, "\"%.*s\" in %s has no value",
                       SPAN_ARGS(quote_clip(key->text)), field->key);
        } else if (has_lists) {
            struct section_field values = *field;
            values.offset = offsetof(struct section_list, values);
            read_list(reader, &values, &item_path, &key[1], (char *)position);
        } else {
            read_value(reader, field->key, field->type, &item_path, &key[1], position);
        }
    }
    if (items != NULL) {
        ((struct section_items *)(void *)(spec + field->offset))->n_items = n_read;
    }
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
    case SHAPE_MAP_OF_LISTS:
        if (value->kind == NODE_MAPPING) {
            read_entries(reader, field, NULL, &field_path, value, spec);
        } else {
            report_kind(reader, &field_path, "a mapping of names", value);
        }
        return;
    }
}

void section_read(struct section_reader *reader, const struct value_type *type,
                  const struct node *root, void *spec)
{
    static const struct path TOP = {.parent = NULL};
    struct section_position *position = spec;
    assert(root->kind == NODE_MAPPING);

    position->node = root;
    read_section(reader, type->section, &TOP, root, spec);
}
