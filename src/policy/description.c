/* The file's tree is built again and walked by the loader's tables. Therefore new keys of the
 * language need no code here. */

#include "policy/loader.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/load/endpoint.h"
#include "policy/load/include.h"
#include "policy/load/loader_yaml.h"
#include "policy/load/spec.h"
#include "policy/load/value_types.h"
#include "policy/tests/sections_test.h"

/* --- building JSON: what lacks memory becomes NULL, and so does what contains it --- */

/* Append @item to *list; both are owned. */
static void append(json_t **list, json_t *item)
{
    if (json_array_append_new(*list, item) != 0) {
        json_decref(*list);
        *list = NULL;
    }
}

/* Set @key of *object to @value; both are owned. */
static void set(json_t **object, const char *key, json_t *value)
{
    if (json_object_set_new(*object, key, value) != 0) {
        json_decref(*object);
        *object = NULL;
    }
}

/* A number or boolean if @is_plain and @text is one, else a string. */
static json_t *value_of(struct span text, bool is_plain)
{
    uint64_t number;
    if (is_plain && span_equals(text, SPAN("true"))) {
        return json_true();
    }
    if (is_plain && span_equals(text, SPAN("false"))) {
        return json_false();
    }
    const bool has_zero = text.len > 1 && text.data[0] == '0'; /* a file's mode is no number */
    if (is_plain && !has_zero && span_to_u64(text, INT64_MAX, &number)) {
        return json_integer((json_int_t)number);
    }
    return json_stringn(text.data, text.len);
}

/* --- secrets --- */

/* One description of a policy. */
struct describer {
    bool with_defaults;
    bool with_secrets;
    struct span folder;  /* in front of relative paths of files; empty: none */
    unsigned n_redacted; /* secrets of the file so far */
};

/* Write a reference in place of a secret that the file contains. */
static void add_redacted(struct describer *describer, struct text *text)
{
    text_add_format(text, "${REDACTED_%u}", ++describer->n_redacted);
}

/* Whether @written is only ${NAME} or ${NAME:-}, so that the file does not contain the value. */
static bool is_reference(struct span written)
{
    const struct span inside = span_of(written.data + 1, written.len > 0 ? written.len - 1 : 0);
    const size_t end = span_find(inside, '}');
    const size_t colon = span_find(inside, ':');
    return span_starts_with(written, SPAN("${")) && end + 1 == inside.len &&
           (colon > end || colon + 2 == end);
}

/* The password in @url, which a file contains; empty: there is none. A URL that is read as a path
 * has no login. */
static struct span find_password(struct span url)
{
    const size_t scheme = span_find_text(url, SPAN("://"));
    const struct span login = login_find(span_from(url, scheme < url.len ? scheme + 3 : 0));
    const size_t colon = span_find(login, ':');
    const bool is_path =
        span_starts_with(url, SPAN("unix:")) || span_starts_with(url, SPAN("redis+unix:"));
    return is_path || colon == login.len ? span_of(url.data + url.len, 0)
                                         : span_from(login, colon + 1);
}

/* The value of the parameter in @url, a path or a URL; its query, if that has several; empty: it
 * has none. */
static struct span find_query(struct span url)
{
    const size_t mark = span_find(url, '?');
    const size_t start = mark < url.len ? mark + 1 : url.len;
    const struct span query = span_from(url, start);
    const size_t equals = span_find(query, '=');
    return span_find(query, '&') < query.len || equals == query.len ? query
                                                                    : span_from(query, equals + 1);
}

/* --- a policy --- */

/* @written without the secret @hidden in it. */
static json_t *describe_redacted(struct describer *describer, struct span written,
                                 struct span hidden)
{
    const size_t capacity = written.len + 32;
    char *buffer = malloc(capacity);
    struct text text = text_of(buffer, capacity);
    if (buffer == NULL) {
        return NULL;
    }
    text_add(&text, span_of(written.data, (size_t)(hidden.data - written.data)));
    add_redacted(describer, &text);
    text_add(&text, span_of(hidden.data + hidden.len,
                            (size_t)(written.data + written.len - hidden.data) - hidden.len));
    json_t *json = value_of(text_span(&text), false);
    free(buffer);
    return json;
}

/* Whether @node is the path of a file that the loader looks for in the policy's folder. */
static bool is_in_folder(const struct value_type *type, const struct node *node)
{
    const bool is_url =
        type == &VALUE_FILE_OR_URL && (span_starts_with(node->text, SPAN("https://")) ||
                                       span_starts_with(node->text, SPAN("http://")));
    return (type == &VALUE_FILE || type == &VALUE_FILE_OR_URL) && !is_url &&
           !span_starts_with(node->text, SPAN("/")) && !span_equals(node->text, SPAN("system"));
}

/* @written behind the folder. */
static json_t *describe_path(const struct describer *describer, struct span written)
{
    const size_t capacity = describer->folder.len + written.len;
    char *buffer = malloc(capacity);
    struct text text = text_of(buffer, capacity);
    if (buffer == NULL) {
        return NULL;
    }
    text_add(&text, describer->folder);
    text_add(&text, written);
    json_t *json = value_of(text_span(&text), false);
    free(buffer);
    return json;
}

/* What of @node is a secret that the file contains. The value of any header or parameter may be
 * one; `true` says that there is one of that name. */
static struct span find_secret(const struct value_type *type, const struct node *node)
{
    const struct span written = node->written;
    struct span secret = span_of(written.data, 0);
    if (type == &VALUE_REDIS || type == &VALUE_SERVER) {
        secret = find_password(written);
    } else if (type->has_query) {
        secret = find_query(written);
    } else if (type->is_secret || (type->is_matched && !value_is_switch(node))) {
        secret = written;
    }
    if (secret.len == 0 || is_reference(secret)) {
        return span_of(written.data, 0);
    }
    /* A reference cannot stand within another one. */
    return span_find(written, '$') < written.len ? written : secret;
}

static json_t *describe_scalar(struct describer *describer, const struct value_type *type,
                               const struct node *node)
{
    if (describer->folder.len > 0 && is_in_folder(type, node)) {
        return describe_path(describer, node->written);
    }
    const struct span secret = describer->with_secrets ? span_of(NULL, 0) : find_secret(type, node);
    return secret.len > 0 ? describe_redacted(describer, node->written, secret)
                          : value_of(node->written, node->plain);
}

static json_t *describe_field(struct describer *describer, const struct section_field *field,
                              const struct node *value);
static json_t *describe_section(struct describer *describer, const struct section *section,
                                const struct node *node);

static const struct section_field *find_field(const struct section *section, const char *name)
{
    const struct section_field *field = section->fields;
    while (!span_equals(span_of_text(field->key), span_of_text(name))) {
        field++;
    }
    return field;
}

/* A short form of a section stays one, unless it gets defaults. */
static json_t *describe_value(struct describer *describer, const struct value_type *type,
                              const struct node *node)
{
    if (type->kind != VALUE_SECTION) {
        return describe_scalar(describer, type, node);
    }
    if (node->kind == NODE_MAPPING || describer->with_defaults) {
        return describe_section(describer, type->section, node);
    }
    return describe_field(describer, find_field(type->section, type->section->shorthand), node);
}

/* A single item that replaces a list is described as a list. */
static json_t *describe_list(struct describer *describer, const struct section_field *field,
                             const struct node *node)
{
    const bool is_list = node->kind == NODE_LIST;
    const struct node *items = is_list ? node->items : node;
    const size_t n_items = is_list ? node->n_items : 1;
    json_t *list = json_array();
    for (size_t i = 0; i < n_items; i++) {
        append(&list, describe_value(describer, field->type, &items[i]));
    }
    return list;
}

/* Set the entries of @node that @is_wanted accepts; NULL: all. A scalar ends with a NUL. */
static void set_entries(struct describer *describer, json_t **object,
                        const struct section_field *field, bool (*is_wanted)(struct span key),
                        const struct node *node)
{
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        const struct span key = node->items[i].text;
        if (is_wanted == NULL || is_wanted(key)) {
            const struct node *value = &node->items[i + 1];
            set(object, key.data,
                field->shape == SHAPE_MAP_OF_LISTS && value->kind == NODE_LIST
                    ? describe_list(describer, field, value)
                    : describe_value(describer, field->type, value));
        }
    }
}

/* The value of @field in @node, a mapping or its shorthand; NULL: none. */
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

/* Whether an omitted section has defaults, instead of being absent. */
static bool has_defaults(const struct section *section)
{
    bool has_fallback = false;
    for (size_t i = 0; i < section->n_fields; i++) {
        if (section->fields[i].presence == KEY_REQUIRED) {
            return false;
        }
        has_fallback = has_fallback || section->fields[i].fallback != NULL;
    }
    return has_fallback;
}

static json_t *describe_field(struct describer *describer, const struct section_field *field,
                              const struct node *value)
{
    json_t *map = NULL;
    switch (field->shape) {
    case SHAPE_ONE:
        return describe_value(describer, field->type, value);
    case SHAPE_LIST:
        return describe_list(describer, field, value);
    case SHAPE_MAP:
    case SHAPE_MAP_OF_LISTS:
        map = json_object();
        set_entries(describer, &map, field, NULL, value);
        break;
    }
    return map;
}

/* Set the default of @field, which @node lacks, where the loader would accept it. */
static void set_default(struct describer *describer, json_t **object, const struct section *section,
                        const struct section_field *field, const struct node *node)
{
    const bool is_section = field->shape == SHAPE_ONE && field->type->kind == VALUE_SECTION;
    const bool is_taken =
        field->presence == KEY_OPTIONAL ||
        (field->presence == KEY_WITH_REDIS && node_find(node, SPAN("redis")) != NULL);
    if (is_taken && field->fallback != NULL && field->fallback[0] != '\0') {
        set(object, field->key, value_of(span_of_text(field->fallback), true));
    } else if (section == SECTIONS_POLICY.section && is_section &&
               has_defaults(field->type->section)) {
        set(object, field->key, describe_section(describer, field->type->section, NULL));
    }
}

/* Recursive for nested sections; the depth is bounded by the tables. */
static json_t *describe_section(struct describer *describer, const struct section *section,
                                const struct node *node)
{
    json_t *object = json_object();
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct section_field *field = &section->fields[i];
        const struct node *value = find_value(section, field, node);
        if (value != NULL) {
            set(&object, field->key, describe_field(describer, field, value));
        } else if (describer->with_defaults) {
            set_default(describer, &object, section, field, node);
        }
    }
    if (section->others != NULL && node != NULL && node->kind == NODE_MAPPING) {
        set_entries(describer, &object, section->others, section->is_other, node);
    }
    return object;
}

/* Read the files of @policy again into one tree; NULL: no memory. */
static struct node *read_sources(const struct policy *policy, struct arena *arena,
                                 struct diags *diags)
{
    struct include_files files = {.n = policy->n_sources};
    struct node *root = NULL;
    for (size_t i = 0; i < files.n; i++) {
        const struct loader_source source = {.yaml = policy->sources[i], .noun = "a policy"};
        if (loader_yaml_read(&source, environment_of_process, arena, diags, &files.roots[i]) !=
            STATUS_OK) {
            return NULL;
        }
    }
    return include_merge(&files, NULL, arena, diags, &root) == STATUS_OK ? root : NULL;
}

static json_t *describe_policy(struct describer *describer, const struct policy *policy)
{
    struct arena arena;
    struct diags diags = {0};
    json_t *json = NULL;
    arena_init(&arena, NULL, 0);
    const struct node *root = read_sources(policy, &arena, &diags);
    if (root != NULL) {
        json = describe_section(describer, SECTIONS_POLICY.section, root);
    }
    diags_close(&diags);
    arena_reset(&arena);
    return json;
}

json_t *description_of_policy(const struct policy *policy, bool with_defaults)
{
    struct describer describer = {.with_defaults = with_defaults};
    return describe_policy(&describer, policy);
}

/* Write the folder of the file @path, with a slash behind it. The other process has the policy
 * under a path of its own, so a relative one begins where this process is. */
static void write_folder(struct text *folder, const char *path)
{
    char here[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' && getcwd(here, sizeof(here)) != NULL) {
        text_add(folder, span_of_text(here));
        text_add_char(folder, '/');
    }
    text_add(folder, span_of(path, slash != NULL ? (size_t)(slash - path) + 1 : 0));
}

json_t *description_to_load(const struct policy *policy, const char *path)
{
    char buffer[2 * PATH_MAX];
    struct text folder = text_of(buffer, sizeof(buffer));
    write_folder(&folder, path);
    struct describer describer = {.with_secrets = true, .folder = text_span(&folder)};
    return describe_policy(&describer, policy);
}

/* --- the language: types of single values --- */

static json_t *string_schema(const char *pattern)
{
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *type_schema(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *words_schema(const char *const *words)
{
    json_t *list = json_array();
    for (; *words != NULL; words++) {
        const struct span word = span_of_text(*words);
        append(&list, json_string(*words));
        if (span_find(word, '.') == 1) { /* which YAML reads as a number */
            append(&list, json_real(strtod(*words, NULL)));
        } else if (span_equals(word, SPAN("true")) || span_equals(word, SPAN("false"))) {
            append(&list, value_of(word, true));
        }
    }
    return json_pack("{s:o}", "enum", list);
}

/* Add the schemas of the forms of a value to *any_of. */
static void add_forms(json_t **any_of, const struct value_type *type)
{
    switch (type->form) {
    case FORM_TEXT:
        if (type->words == NULL && type->pattern == NULL) {
            /* YAML may read it as a number or a boolean. */
            append(any_of, type_schema("string"));
            append(any_of, type_schema("number"));
            append(any_of, type_schema("boolean"));
        }
        break;
    case FORM_NUMBER:
        append(any_of, json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
                                 (json_int_t)type->min, "maximum", (json_int_t)type->max));
        append(any_of, string_schema("^[0-9]+$")); /* a quoted number is also valid */
        break;
    case FORM_SWITCH:
        append(any_of, type_schema("boolean"));
        append(any_of, string_schema("^(true|false)$"));
        break;
    }
    if (type->pattern != NULL) {
        append(any_of, string_schema(type->pattern));
    }
}

static void add_scalar(json_t **any_of, const struct value_type *type)
{
    if (type->words != NULL) {
        append(any_of, words_schema(type->words));
    }
    add_forms(any_of, type);
    append(any_of, json_pack("{s:s}", "$ref", "#/$defs/environment"));
}

/* --- the language: lists, maps, sections --- */

static json_t *section_schema(const struct section *section);

static json_t *list_schema(const struct value_type *type);

/* Add the schemas of a value to *any_of. Recursive; the depth is bounded by the tables. */
static void add_value(json_t **any_of, const struct value_type *type)
{
    if (type->kind != VALUE_SECTION) {
        add_scalar(any_of, type);
        return;
    }
    append(any_of, section_schema(type->section));
    if (type->section->shorthand != NULL) {
        const struct section_field *field = find_field(type->section, type->section->shorthand);
        add_value(any_of, field->type);
        if (field->shape == SHAPE_LIST) {
            append(any_of, list_schema(field->type));
        }
    }
}

static json_t *value_schema(const struct value_type *type)
{
    json_t *any_of = json_array();
    add_value(&any_of, type);
    return json_pack("{s:o}", "anyOf", any_of);
}

static json_t *list_schema(const struct value_type *type)
{
    return json_pack("{s:s, s:o}", "type", "array", "items", value_schema(type));
}

static json_t *field_schema(const struct section_field *field)
{
    /* A single value may replace a list, unless it is a section without a shorthand. */
    const bool stands_alone = field->shape == SHAPE_ONE || field->type->kind != VALUE_SECTION ||
                              field->type->section->shorthand != NULL;
    json_t *schema = json_pack("{s:s}", "description", field->doc);
    json_t *any_of = json_array();
    if (field->fallback != NULL) {
        const struct span text = span_of_text(field->fallback);
        set(&schema, "default", value_of(text, field->type->form != FORM_TEXT));
    }
    if (field->shape == SHAPE_MAP || field->shape == SHAPE_MAP_OF_LISTS) {
        json_t *values = json_array();
        add_value(&values, field->type);
        if (field->shape == SHAPE_MAP_OF_LISTS) {
            append(&values, list_schema(field->type));
        }
        append(&any_of, json_pack("{s:s, s:{s:o}}", "type", "object", "additionalProperties",
                                  "anyOf", values));
    } else if (stands_alone) {
        add_value(&any_of, field->type);
    }
    if (field->shape == SHAPE_LIST) {
        append(&any_of, list_schema(field->type));
    }
    set(&schema, "anyOf", any_of);
    return schema;
}

/* Set the members of a mapping's schema. */
static void set_members(json_t **schema, const struct section *section)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct section_field *field = &section->fields[i];
        set(&properties, field->key, field_schema(field));
        if (field->presence == KEY_REQUIRED) {
            append(&required, json_string(field->key));
        }
    }
    set(schema, "type", json_string("object"));
    set(schema, "properties", properties);
    if (section->others != NULL) {
        set(schema, "patternProperties",
            json_pack("{s:o}", section->others_pattern, value_schema(section->others->type)));
    }
    set(schema, "required", required);
    set(schema, "additionalProperties", json_false());
}

static json_t *section_schema(const struct section *section)
{
    json_t *schema = json_object();
    set_members(&schema, section);
    return schema;
}

json_t *description_of_language(enum description_language language)
{
    static const struct {
        const char *title;
        const struct value_type *type;
    } LANGUAGES[] = {
        [DESCRIPTION_POLICY] = {"A policy of sluice", &SECTIONS_POLICY},
        [DESCRIPTION_INCLUDED] = {"A file that a policy of sluice includes", &SECTIONS_INCLUDED},
        [DESCRIPTION_TESTS] = {"Tests of a policy of sluice", &SECTIONS_TEST_FILE},
    };
    json_t *schema =
        json_pack("{s:s, s:s}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
                  LANGUAGES[language].title);
    set_members(&schema, LANGUAGES[language].type->section);
    /* A value with an environment variable can be anything. */
    set(&schema, "$defs",
        json_pack("{s:{s:s, s:s, s:s}}", "environment", "description",
                  "${NAME}, or ${NAME:-default}, of the environment", "type", "string", "pattern",
                  "\\$\\{"));
    return schema;
}
