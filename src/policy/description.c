/* The tree of the file is read once more and walked by the tables that it was loaded by, so that
 * what the language learns is told without being told of here. */

#include "policy/description.h"

#include <stdlib.h>
#include <string.h>

#include "policy/loader_yaml.h"
#include "policy/login.h"
#include "policy/sections.h"
#include "policy/value_types.h"

struct walk {
    const struct description_sink *sink;
    void *context;
    struct arena arena;
    bool no_memory;
};

/* --- secrets --- */

/* What is read as a path has no login. */
static bool is_unix(struct span url)
{
    return span_starts_with(url, SPAN("unix:")) || span_starts_with(url, SPAN("redis+unix:"));
}

struct span description_mask_url(struct span url, char *buffer)
{
    size_t start = 0; /* of the authority */
    while (start + 3 <= url.len && memcmp(url.data + start, "://", 3) != 0) {
        start++;
    }
    start = start + 3 <= url.len ? start + 3 : 0;
    const struct span login = login_find(span_of(url.data + start, url.len - start));
    const size_t colon = span_find(login, ':');
    struct text text = text_of(buffer, url.len + DESCRIPTION_MASK.len);
    if (is_unix(url) || colon == login.len) {
        return url;
    }
    text_add(&text, span_of(url.data, start + colon + 1));
    text_add(&text, DESCRIPTION_MASK);
    text_add(&text, span_of(login.data + login.len, url.len - start - login.len));
    return text_span(&text);
}

/* ${NAME} and nothing else: what it stands for is not in the file. */
static bool is_reference(struct span written)
{
    const struct span start = SPAN("${");
    return span_starts_with(written, start) && written.data[written.len - 1] == '}' &&
           span_find(span_of(written.data + 1, written.len - 1), '$') == written.len - 1 &&
           span_find(written, ':') == written.len;
}

/* --- the walk --- */

static void tell_plain(struct walk *walk, struct span value)
{
    walk->sink->value(walk->context, value, true);
}

static void tell_url(struct walk *walk, struct span written)
{
    char *buffer = arena_alloc(&walk->arena, written.len + DESCRIPTION_MASK.len);
    if (buffer == NULL) {
        walk->no_memory = true;
        return;
    }
    walk->sink->value(walk->context, description_mask_url(written, buffer), false);
}

/* The value of any header may be one, whatever its name is. */
static bool may_be_secret(const struct value_type *type)
{
    return type->is_secret || type == &VALUE_HEADER;
}

static void tell_scalar(struct walk *walk, const struct value_type *type, const struct node *node)
{
    if (type == &VALUE_REDIS || type == &VALUE_SERVER) {
        tell_url(walk, node->written);
    } else if (may_be_secret(type) && !is_reference(node->written) && node->written.len > 0) {
        walk->sink->value(walk->context, DESCRIPTION_MASK, false);
    } else {
        walk->sink->value(walk->context, node->written, node->plain);
    }
}

static void tell_section(struct walk *walk, const struct section *section, const struct node *node);

static void tell_value(struct walk *walk, const struct value_type *type, const struct node *node)
{
    if (type->kind == VALUE_SECTION) {
        tell_section(walk, type->section, node);
    } else {
        tell_scalar(walk, type, node);
    }
}

/* Where one may stand for a list of one, a list is told. */
static void tell_list(struct walk *walk, const struct section_field *field, const struct node *node)
{
    const bool is_list = node->kind == NODE_LIST;
    const struct node *items = is_list ? node->items : node;
    const size_t n_items = is_list ? node->n_items : 1;
    walk->sink->open(walk->context, true);
    for (size_t i = 0; i < n_items; i++) {
        tell_value(walk, field->type, &items[i]);
    }
    walk->sink->close(walk->context);
}

static void tell_entries(struct walk *walk, const struct section_field *field,
                         bool (*is_wanted)(struct span key), const struct node *node)
{
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        const struct span key = node->items[i].text;
        if (is_wanted == NULL || is_wanted(key)) {
            walk->sink->key(walk->context, key);
            tell_value(walk, field->type, &node->items[i + 1]);
        }
    }
}

/* What @node, a mapping or what stands for one, says of @field; NULL: nothing. */
static const struct node *find_value(const struct section *section,
                                     const struct section_field *field, const struct node *node)
{
    const struct span key = span_of_text(field->key);
    if (node == NULL || node->kind == NODE_MAPPING) {
        return node != NULL ? node_find(node, key) : NULL;
    }
    const bool is_shorthand =
        section->shorthand != NULL && span_equals(key, span_of_text(section->shorthand));
    return is_shorthand ? node : NULL;
}

/* Whether a section that is left out means its defaults, rather than that there is none. */
static bool has_defaults(const struct section *section)
{
    bool has_fallback = false;
    for (size_t i = 0; i < section->n_fields; i++) {
        if (section->fields[i].standing == KEY_REQUIRED) {
            return false;
        }
        has_fallback = has_fallback || section->fields[i].fallback != NULL;
    }
    return has_fallback;
}

static void tell_said(struct walk *walk, const struct section_field *field,
                      const struct node *value)
{
    walk->sink->key(walk->context, span_of_text(field->key));
    switch (field->shape) {
    case SHAPE_ONE:
        tell_value(walk, field->type, value);
        break;
    case SHAPE_LIST:
        tell_list(walk, field, value);
        break;
    case SHAPE_MAP:
        walk->sink->open(walk->context, false);
        tell_entries(walk, field, NULL, value);
        walk->sink->close(walk->context);
        break;
    }
}

static void tell_unsaid(struct walk *walk, const struct section *section,
                        const struct section_field *field)
{
    const bool is_section = field->shape == SHAPE_ONE && field->type->kind == VALUE_SECTION;
    if (field->fallback != NULL && field->fallback[0] != '\0') {
        walk->sink->key(walk->context, span_of_text(field->key));
        tell_plain(walk, span_of_text(field->fallback));
    } else if (section == &SECTIONS_POLICY && is_section && has_defaults(field->type->section)) {
        walk->sink->key(walk->context, span_of_text(field->key));
        tell_section(walk, field->type->section, NULL);
    }
}

/* Sections within sections come back here, as deep as the tables are. */
static void tell_section(struct walk *walk, const struct section *section, const struct node *node)
{
    walk->sink->open(walk->context, false);
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct section_field *field = &section->fields[i];
        const struct node *value = find_value(section, field, node);
        if (field->standing == KEY_NOT_YET) {
            continue;
        }
        if (value != NULL) {
            tell_said(walk, field, value);
        } else {
            tell_unsaid(walk, section, field);
        }
    }
    if (section->others != NULL && node != NULL && node->kind == NODE_MAPPING) {
        tell_entries(walk, section->others, section->is_other, node);
    }
    walk->sink->close(walk->context);
}

static const char *lookup_in_process(const char *name)
{
    return getenv(name);
}

enum status description_tell(const struct policy *policy, const struct description_sink *sink,
                             void *context)
{
    const struct loader_source source = {.yaml = policy->source, .noun = "a policy"};
    struct walk walk = {.sink = sink, .context = context};
    struct diags diags = {0};
    struct node *root = NULL;
    arena_init(&walk.arena, NULL, 0);
    enum status status = loader_yaml_read(&source, lookup_in_process, &walk.arena, &diags, &root);
    if (status == STATUS_OK) {
        tell_section(&walk, &SECTIONS_POLICY, root);
        status = walk.no_memory ? STATUS_NO_MEMORY : STATUS_OK;
    }
    diags_close(&diags);
    arena_reset(&walk.arena);
    return status;
}
