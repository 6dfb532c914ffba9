/* Passes libyaml's events to the node builder; libyaml's document API is not used.
 *
 * libyaml needs quadratic time in the depth of flow collections, in the number of anchors (in its
 * documents), in the number of directives, and in the length of white space within a scalar. Each
 * is bounded. */

#include "policy/load/loader_yaml.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/limits.h"
#include "policy/load/node.h"

struct reader {
    const struct loader_source *source;
    struct node_builder *builder;
    struct diags *diags;
};

/* libyaml counts from 0. */
static uint32_t position_of(size_t mark)
{
    return mark < UINT32_MAX ? (uint32_t)mark + 1 : UINT32_MAX;
}

/* --- errors of YAML --- */

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

/* The problems that libyaml finds, in terms of the file. */
static const struct {
    const char *problem;
    const char *meaning;
} MEANINGS[] = {
    {"found character that cannot start any token",
     "a value cannot begin with this character; put it in quotes"},
    {"mapping values are not allowed in this context",
     "there is a \":\" too many: put a value that holds \": \" in quotes, or indent the line as "
     "its neighbours"},
    {"did not find expected key",
     "this line is not indented as the keys before it, or a quote or bracket is missing"},
    {"could not find expected ':'",
     "this line has no \"key: \", or is not indented as the lines before it"},
    {"did not find expected '-' indicator",
     "this line is not indented as the items of the list before it"},
    {"did not find expected ',' or ']'", "a list in [ ] lacks a comma or its \"]\""},
    {"did not find expected ',' or '}'", "a mapping in { } lacks a comma or its \"}\""},
    {"found unexpected end of stream", "a quote is not closed"},
};

/* Whether the byte at @mark is a tab. */
static bool is_tab(struct span yaml, yaml_mark_t mark)
{
    struct span line = {NULL, 0};
    for (size_t i = 0; i <= mark.line; i++) {
        if (!span_split(&yaml, '\n', &line)) {
            return false;
        }
    }
    return mark.column < line.len && line.data[mark.column] == '\t';
}

static const char *find_meaning(const yaml_parser_t *parser, struct span yaml)
{
    if (is_tab(yaml, parser->problem_mark)) {
        return "here is a tab: YAML is indented with spaces only";
    }
    for (size_t i = 0; i < ARRAY_LEN(MEANINGS) && parser->problem != NULL; i++) {
        if (strcmp(parser->problem, MEANINGS[i].problem) == 0) {
            return MEANINGS[i].meaning;
        }
    }
    return NULL;
}

static enum status report_parser_error(const yaml_parser_t *parser, struct span yaml,
                                       struct diags *diags)
{
    const char *meaning;
    if (parser->error == YAML_MEMORY_ERROR) {
        return STATUS_NO_MEMORY;
    }
    if (parser->error == YAML_READER_ERROR) {
        report_encoding(parser, yaml, diags);
        return STATUS_INVALID;
    }
    meaning = find_meaning(parser, yaml);
    const bool has_context = meaning == NULL && parser->context != NULL;
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";
    diags_add(diags, DIAG_ERROR, position_of(parser->problem_mark.line),
              position_of(parser->problem_mark.column), "not YAML: %s%s%s",
              meaning != NULL ? meaning : problem, has_context ? ", " : "",
              has_context ? parser->context : "");
    return STATUS_INVALID;
}

/* --- events --- */

static struct node_position place_at(yaml_mark_t mark)
{
    return (struct node_position){.line = position_of(mark.line),
                                  .column = position_of(mark.column)};
}

static struct span span_of_name(const yaml_char_t *name)
{
    return name != NULL ? span_of_text((const char *)name) : span_of(NULL, 0);
}

static enum status read_event(struct reader *reader, const yaml_event_t *event)
{
    const struct node_position position = place_at(event->start_mark);
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return node_builder_alias(reader->builder, position,
                                  span_of_name(event->data.alias.anchor));
    case YAML_SCALAR_EVENT:
        return node_builder_scalar(
            reader->builder, position, span_of_name(event->data.scalar.anchor),
            span_of((const char *)event->data.scalar.value, event->data.scalar.length),
            event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE);
    case YAML_SEQUENCE_START_EVENT:
        return node_builder_begin(reader->builder, NODE_LIST, position,
                                  span_of_name(event->data.sequence_start.anchor));
    case YAML_MAPPING_START_EVENT:
        return node_builder_begin(reader->builder, NODE_MAPPING, position,
                                  span_of_name(event->data.mapping_start.anchor));
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return node_builder_end(reader->builder);
    case YAML_STREAM_END_EVENT:
        diags_add(reader->diags, DIAG_ERROR, 1, 1, "the file is empty");
        return STATUS_INVALID;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return STATUS_OK;
}

/* --- the file --- */

/* Only UTF-8 is accepted, because white space is searched for in the bytes. */
static void set_input(yaml_parser_t *parser, struct span yaml)
{
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)yaml.data, yaml.len);
}

/* Up to the end of the first document. */
static enum status read_document(struct reader *reader, yaml_parser_t *parser)
{
    enum status status = STATUS_OK;
    bool is_over = false;
    while (status == STATUS_OK && !is_over) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            return report_parser_error(parser, reader->source->yaml, reader->diags);
        }
        status = read_event(reader, &event);
        is_over = event.type == YAML_DOCUMENT_END_EVENT;
        yaml_event_delete(&event);
    }
    return status;
}

/* Check that nothing follows the first document. Only tokens are read, so that the rest is not
 * parsed. */
static enum status check_end(struct reader *reader, yaml_parser_t *parser)
{
    yaml_token_type_t type = YAML_DOCUMENT_END_TOKEN;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && type == YAML_DOCUMENT_END_TOKEN) {
        yaml_token_t token;
        if (!yaml_parser_scan(parser, &token)) {
            return report_parser_error(parser, reader->source->yaml, reader->diags);
        }
        type = token.type;
        if (type != YAML_DOCUMENT_END_TOKEN && type != YAML_STREAM_END_TOKEN &&
            type != YAML_NO_TOKEN) {
            status = node_builder_refuse(reader->builder, place_at(token.start_mark),
                                         "%s is one document; a second starts here",
                                         reader->source->noun);
        }
        yaml_token_delete(&token);
    }
    return status;
}

/* Check the number of directives at the start of the file. Errors in them are reported when they
 * are parsed. */
static enum status check_directives(struct reader *reader)
{
    yaml_parser_t parser;
    size_t n_directives = 0;
    bool is_over = false;
    enum status status = STATUS_OK;
    if (!yaml_parser_initialize(&parser)) {
        return STATUS_NO_MEMORY;
    }
    set_input(&parser, reader->source->yaml);
    while (status == STATUS_OK && !is_over) {
        yaml_token_t token;
        if (!yaml_parser_scan(&parser, &token)) {
            break;
        }
        const bool is_directive =
            token.type == YAML_VERSION_DIRECTIVE_TOKEN || token.type == YAML_TAG_DIRECTIVE_TOKEN;
        is_over = !is_directive && token.type != YAML_STREAM_START_TOKEN;
        n_directives += is_directive;
        if (n_directives > POLICY_DIRECTIVES_MAX) {
            status = node_builder_refuse(reader->builder, place_at(token.start_mark),
                                         "more than %d directives", POLICY_DIRECTIVES_MAX);
        }
        yaml_token_delete(&token);
    }
    yaml_parser_delete(&parser);
    return status;
}

/* How many bytes at @at are white space to YAML: 0, 1, or a line break of several. */
static size_t white_space_at(struct span yaml, size_t at)
{
    static const struct span BREAKS[] = {{"\xc2\x85", 2}, {"\xe2\x80\xa8", 3}, {"\xe2\x80\xa9", 3}};
    const char c = yaml.data[at];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(BREAKS) && (uint8_t)c >= 0x80; i++) {
        if (yaml.len - at >= BREAKS[i].len &&
            memcmp(yaml.data + at, BREAKS[i].data, BREAKS[i].len) == 0) {
            return BREAKS[i].len;
        }
    }
    return 0;
}

static enum status check_white_space(struct reader *reader)
{
    const struct span yaml = reader->source->yaml;
    size_t n_before = 0;
    uint32_t line = 1;
    for (size_t i = 0; i < yaml.len;) {
        const size_t n = white_space_at(yaml, i);
        n_before = n > 0 ? n_before + n : 0;
        line += yaml.data[i] == '\n';
        if (n_before > POLICY_WHITE_SPACE_MAX) {
            diags_add(reader->diags, DIAG_ERROR, line, 1, "more than %d bytes of white space",
                      POLICY_WHITE_SPACE_MAX);
            return STATUS_INVALID;
        }
        i += n > 0 ? n : 1;
    }
    return STATUS_OK;
}

static enum status read_file(struct reader *reader, yaml_parser_t *parser)
{
    enum status status = check_white_space(reader);
    if (status == STATUS_OK) {
        status = check_directives(reader);
    }
    if (status == STATUS_OK) {
        status = read_document(reader, parser);
    }
    return status == STATUS_OK ? check_end(reader, parser) : status;
}

enum status loader_yaml_read(const struct loader_source *source, environment_lookup lookup,
                             struct arena *arena, struct diags *diags, struct node **root)
{
    yaml_parser_t parser;
    assert(lookup != NULL);

    if (source->yaml.len > POLICY_FILE_BYTES_MAX) {
        diags_add(diags, DIAG_ERROR, 0, 0, "the file is larger than %d bytes",
                  POLICY_FILE_BYTES_MAX);
        return STATUS_INVALID;
    }
    struct reader reader = {
        .source = source,
        .builder = node_builder_new(source, lookup, arena, diags),
        .diags = diags,
    };
    *root = arena_calloc(arena, 1, sizeof(**root));
    if (reader.builder == NULL || *root == NULL || !yaml_parser_initialize(&parser)) {
        node_builder_free(reader.builder);
        return STATUS_NO_MEMORY;
    }
    set_input(&parser, source->yaml);
    const enum status status = read_file(&reader, &parser);
    **root = node_builder_root(reader.builder);
    yaml_parser_delete(&parser);
    node_builder_free(reader.builder);
    return status;
}

/* --- files --- */

enum { FIRST_BYTES = 64 * 1024 };

enum status loader_yaml_read_all(FILE *file, char **bytes, size_t *len)
{
    size_t capacity = 0;
    *bytes = NULL;
    *len = 0;
    do {
        capacity = capacity == 0 ? FIRST_BYTES : 2 * capacity;
        char *larger = realloc(*bytes, capacity);
        if (larger == NULL) {
            return STATUS_NO_MEMORY;
        }
        *bytes = larger;
        *len += fread(*bytes + *len, 1, capacity - *len, file);
    } while (*len == capacity && capacity <= POLICY_FILE_BYTES_MAX);
    return ferror(file) ? STATUS_IO : STATUS_OK;
}

enum status loader_yaml_read_file(const char *path, char **bytes, size_t *len, struct diags *diags)
{
    FILE *file = fopen(path, "rb");
    *bytes = NULL;
    *len = 0;
    const enum status status = file != NULL ? loader_yaml_read_all(file, bytes, len) : STATUS_IO;
    if (status == STATUS_IO) {
        diags_add(diags, DIAG_ERROR, 0, 0, "cannot be read: %s", strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    return status;
}

/* --- the environment --- */

enum { NAME_MAX_BYTES = 255 };

/* One piece of a scalar: literal text, or a reference. */
struct piece {
    struct span text; /* the literal, or the value of the reference */
    bool from_environment;
};

static bool is_name(struct span name)
{
    return name.len > 0 && name.len <= NAME_MAX_BYTES && span_has_only(name, "_") &&
           !(name.data[0] >= '0' && name.data[0] <= '9');
}

/* Look up @inside, the text between the braces. */
static bool read_reference(struct span inside, environment_lookup lookup, struct piece *piece,
                           struct text *problem)
{
    struct span name = inside;
    struct span fallback = {NULL, 0};
    const size_t colon = span_find(inside, ':');
    if (colon + 1 < inside.len && inside.data[colon + 1] == '-') {
        name.len = colon;
        fallback = span_from(inside, colon + 2);
    }
    if (!is_name(name)) {
        return text_refuse(problem,
                           "\"${\" must be followed by a name of letters, digits and \"_\", "
                           "and \"}\" or \":-default}\"; a dollar is written \"$$\"");
    }
    char name_text[NAME_MAX_BYTES + 1];
    memcpy(name_text, name.data, name.len);
    name_text[name.len] = '\0';
    const char *found = lookup(name_text);
    if (fallback.data != NULL && (found == NULL || *found == '\0')) {
        *piece = (struct piece){.text = fallback};
        return true;
    }
    if (found == NULL) {
        return text_refuse(problem, "the environment has no %s; set it, or write ${%s:-a default}",
                           name_text, name_text);
    }
    *piece = (struct piece){.text = span_of_text(found), .from_environment = true};
    return true;
}

/* Remove the next piece from the start of @rest, which is not empty. */
static bool next_piece(struct span *rest, environment_lookup lookup, struct piece *piece,
                       struct text *problem)
{
    size_t taken = span_find(*rest, '$');
    if (taken > 0) {
        *piece = (struct piece){.text = span_of(rest->data, taken)};
    } else if (rest->len > 1 && rest->data[1] == '$') {
        *piece = (struct piece){.text = SPAN("$")};
        taken = 2;
    } else if (rest->len > 1 && rest->data[1] == '{') {
        const struct span inside = span_from(*rest, 2);
        const size_t end = span_find(inside, '}');
        if (end == inside.len) {
            return text_refuse(problem, "\"${\" has no \"}\"");
        }
        if (!read_reference(span_of(inside.data, end), lookup, piece, problem)) {
            return false;
        }
        taken = end + 3;
    } else {
        return text_refuse(problem, "a dollar is written \"$$\", a variable \"${NAME}\"");
    }
    *rest = span_from(*rest, taken);
    return true;
}

/* Walk all pieces of @text: add up their length, and copy them to @out unless it is NULL. */
static bool join_pieces(struct span text, environment_lookup lookup, char *out, size_t *len,
                        bool *secret, struct text *problem)
{
    *len = 0;
    while (text.len > 0) {
        struct piece piece;
        if (!next_piece(&text, lookup, &piece, problem)) {
            return false;
        }
        if (out != NULL && piece.text.len > 0) {
            memcpy(out + *len, piece.text.data, piece.text.len);
        }
        *len += piece.text.len;
        *secret = *secret || piece.from_environment;
    }
    return true;
}

const char *environment_of_process(const char *name)
{
    return getenv(name);
}

bool environment_expand(struct environment *environment, struct span text, struct span *value,
                        bool *secret, struct text *problem)
{
    *secret = false;
    if (span_find(text, '$') == text.len) {
        *value = text;
        return true;
    }
    size_t len = 0;
    if (!join_pieces(text, environment->lookup, NULL, &len, secret, problem)) {
        return false;
    }
    if (len > environment->room) {
        return text_refuse(problem, "the file is too large with its environment expanded");
    }
    char *out = arena_alloc(environment->arena, len + 1);
    if (out == NULL) {
        return text_refuse(problem, "out of memory");
    }
    if (!join_pieces(text, environment->lookup, out, &len, secret, problem)) {
        return false;
    }
    out[len] = '\0';
    environment->room -= len;
    *value = span_of(out, len);
    return true;
}
