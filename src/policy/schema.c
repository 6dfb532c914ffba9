#include "policy/schema.h"

#include "policy/sections.h"
#include "policy/sections_test.h"

/* --- words to the sink --- */

struct writer {
    const struct description_sink *sink;
    void *context;
};

static void begin(const struct writer *writer, bool is_list)
{
    writer->sink->open(writer->context, is_list);
}

static void end(const struct writer *writer)
{
    writer->sink->close(writer->context);
}

static void key(const struct writer *writer, const char *name)
{
    writer->sink->key(writer->context, span_of_text(name));
}

static void string(const struct writer *writer, const char *text)
{
    writer->sink->value(writer->context, span_of_text(text), false);
}

static void plain(const struct writer *writer, struct span text)
{
    writer->sink->value(writer->context, text, true);
}

static void number(const struct writer *writer, uint64_t value)
{
    char buffer[24];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_u64(&text, value);
    plain(writer, text_span(&text));
}

static void pair(const struct writer *writer, const char *name, const char *text)
{
    key(writer, name);
    string(writer, text);
}

/* {"type": "string", "pattern": @pattern} */
static void string_schema(const struct writer *writer, const char *pattern)
{
    begin(writer, false);
    pair(writer, "type", "string");
    pair(writer, "pattern", pattern);
    end(writer);
}

/* {"type": @type} */
static void type_schema(const struct writer *writer, const char *type)
{
    begin(writer, false);
    pair(writer, "type", type);
    end(writer);
}

/* --- single values --- */

/* Where a value of the environment stands nothing is known of the whole. */
static void define_environment(const struct writer *writer)
{
    key(writer, "$defs");
    begin(writer, false);
    key(writer, "environment");
    begin(writer, false);
    pair(writer, "description", "${NAME}, or ${NAME:-default}, of the environment");
    pair(writer, "type", "string");
    pair(writer, "pattern", "\\$\\{");
    end(writer);
    end(writer);
}

static void environment_schema(const struct writer *writer)
{
    begin(writer, false);
    pair(writer, "$ref", "#/$defs/environment");
    end(writer);
}

static void number_schema(const struct writer *writer, const struct value_type *type)
{
    begin(writer, false);
    pair(writer, "type", "integer");
    key(writer, "minimum");
    number(writer, type->min);
    key(writer, "maximum");
    number(writer, type->max);
    end(writer);
    string_schema(writer, "^[0-9]+$"); /* in quotes it is a number too */
}

static void words_schema(const struct writer *writer, const struct value_word *words)
{
    begin(writer, false);
    key(writer, "enum");
    begin(writer, true);
    for (; words->text != NULL; words++) {
        if (!words->not_yet) {
            string(writer, words->text);
        }
    }
    end(writer);
    end(writer);
}

static void switch_schema(const struct writer *writer)
{
    type_schema(writer, "boolean");
    string_schema(writer, "^(true|false)$");
}

/* A text of any form may be one that YAML takes for a number or a switch. */
static void text_schema(const struct writer *writer, const struct value_type *type)
{
    if (type->pattern != NULL) {
        string_schema(writer, type->pattern);
        return;
    }
    type_schema(writer, "string");
    type_schema(writer, "number");
    type_schema(writer, "boolean");
}

/* The alternatives of a single value, to stand in an `anyOf`. */
static void scalar_alternatives(const struct writer *writer, const struct value_type *type)
{
    if (type->words != NULL) {
        words_schema(writer, type->words);
    }
    switch (type->form) {
    case FORM_TEXT:
        if (type->words == NULL || type->pattern != NULL) {
            text_schema(writer, type);
        }
        break;
    case FORM_NUMBER:
        number_schema(writer, type);
        if (type->pattern != NULL) {
            string_schema(writer, type->pattern);
        }
        break;
    case FORM_SWITCH:
        switch_schema(writer);
        break;
    }
    environment_schema(writer);
}

/* --- mappings, lists --- */

static void section_schema(const struct writer *writer, const struct section *section);

static const struct section_field *find_field(const struct section *section, const char *name)
{
    const struct section_field *field = section->fields;
    while (!span_equals(span_of_text(field->key), span_of_text(name))) {
        field++;
    }
    return field;
}

static void list_schema(const struct writer *writer, const struct value_type *type);

/* The alternatives of one value; tables end somewhere, and so does this. */
static void value_alternatives(const struct writer *writer, const struct value_type *type)
{
    if (type->kind != VALUE_SECTION) {
        scalar_alternatives(writer, type);
        return;
    }
    section_schema(writer, type->section);
    if (type->section->shorthand != NULL) {
        const struct section_field *field = find_field(type->section, type->section->shorthand);
        value_alternatives(writer, field->type);
        if (field->shape == SHAPE_LIST) {
            list_schema(writer, field->type);
        }
    }
}

static void value_schema(const struct writer *writer, const struct value_type *type)
{
    begin(writer, false);
    key(writer, "anyOf");
    begin(writer, true);
    value_alternatives(writer, type);
    end(writer);
    end(writer);
}

static void list_schema(const struct writer *writer, const struct value_type *type)
{
    begin(writer, false);
    pair(writer, "type", "array");
    key(writer, "items");
    value_schema(writer, type);
    end(writer);
}

/* Whether one value may stand for a list of it. */
static bool stands_alone(const struct value_type *type)
{
    return type->kind != VALUE_SECTION || type->section->shorthand != NULL;
}

static void map_schema(const struct writer *writer, const struct section_field *field)
{
    begin(writer, false);
    pair(writer, "type", "object");
    key(writer, "additionalProperties");
    value_schema(writer, field->type);
    end(writer);
}

static void field_alternatives(const struct writer *writer, const struct section_field *field)
{
    switch (field->shape) {
    case SHAPE_ONE:
        value_alternatives(writer, field->type);
        return;
    case SHAPE_LIST:
        if (stands_alone(field->type)) {
            value_alternatives(writer, field->type);
        }
        list_schema(writer, field->type);
        return;
    case SHAPE_MAP:
        map_schema(writer, field);
        return;
    }
}

/* Of the kind that the value is. */
static void default_value(const struct writer *writer, const struct section_field *field)
{
    const struct span text = span_of_text(field->fallback);
    uint64_t unread;
    const bool is_number = field->type->form == FORM_NUMBER &&
                           span_to_u64(text, UINT64_MAX, &unread) &&
                           (text.len == 1 || text.data[0] != '0'); /* 0660 */
    const bool is_plain = is_number || field->type->form == FORM_SWITCH;
    key(writer, "default");
    writer->sink->value(writer->context, text, is_plain);
}

static void field_schema(const struct writer *writer, const struct section_field *field)
{
    begin(writer, false);
    pair(writer, "description", field->doc);
    if (field->fallback != NULL) {
        default_value(writer, field);
    }
    key(writer, "anyOf");
    begin(writer, true);
    field_alternatives(writer, field);
    end(writer);
    end(writer);
}

static void properties(const struct writer *writer, const struct section *section)
{
    key(writer, "properties");
    begin(writer, false);
    for (size_t i = 0; i < section->n_fields; i++) {
        if (section->fields[i].standing != KEY_NOT_YET) {
            key(writer, section->fields[i].key);
            field_schema(writer, &section->fields[i]);
        }
    }
    end(writer);
}

static void required(const struct writer *writer, const struct section *section)
{
    key(writer, "required");
    begin(writer, true);
    for (size_t i = 0; i < section->n_fields; i++) {
        if (section->fields[i].standing == KEY_REQUIRED) {
            string(writer, section->fields[i].key);
        }
    }
    end(writer);
}

/* The members of a mapping's schema, within its braces. */
static void section_members(const struct writer *writer, const struct section *section)
{
    pair(writer, "type", "object");
    properties(writer, section);
    if (section->others != NULL) {
        key(writer, "patternProperties");
        begin(writer, false);
        key(writer, section->others_pattern);
        value_schema(writer, section->others->type);
        end(writer);
    }
    required(writer, section);
    key(writer, "additionalProperties");
    plain(writer, SPAN("false"));
}

static void section_schema(const struct writer *writer, const struct section *section)
{
    begin(writer, false);
    section_members(writer, section);
    end(writer);
}

void schema_tell(enum schema_language language, const struct description_sink *sink, void *context)
{
    static const struct {
        const char *title;
        const struct section *section;
    } LANGUAGES[] = {
        [SCHEMA_POLICY] = {"A policy of sluice", &SECTIONS_POLICY},
        [SCHEMA_TESTS] = {"Tests of a policy of sluice", &SECTIONS_TEST_FILE},
    };
    const struct writer writer = {sink, context};
    begin(&writer, false);
    pair(&writer, "$schema", "https://json-schema.org/draft/2020-12/schema");
    pair(&writer, "title", LANGUAGES[language].title);
    section_members(&writer, LANGUAGES[language].section);
    define_environment(&writer);
    end(&writer);
}
