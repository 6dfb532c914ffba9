/* A line of JSON: one object. Members of objects within it are known by their path, `request.uri`;
 * lists are passed over. No tree is made, and nothing is allocated. */

#include <string.h>

#include "simulation/log_fields.h"
#include "simulation/log_line.h"

enum { DEPTH_MAX = 8 };

struct reader {
    char *next;
    char *end;
    const struct log_fields *fields;
    struct log_values values;
    char path[LOG_NAME_BYTES_MAX]; /* of the object that is being read, with a point at its end */
    size_t path_len;
};

static void skip_space(struct reader *reader)
{
    while (reader->next < reader->end &&
           (*reader->next == ' ' || *reader->next == '\t' || *reader->next == '\r')) {
        reader->next++;
    }
}

static bool take(struct reader *reader, char wanted)
{
    skip_space(reader);
    if (reader->next == reader->end || *reader->next != wanted) {
        return false;
    }
    reader->next++;
    return true;
}

/* A string, its opening quote taken. Escapes are undone where it @is_wanted. */
static bool take_string(struct reader *reader, bool is_wanted, struct span *text)
{
    return log_quoted_read(&reader->next, reader->end, is_wanted, text);
}

/* true, null, 12.5: up to what ends it. */
static struct span take_bare(struct reader *reader)
{
    char *start = reader->next;
    while (reader->next < reader->end && *reader->next != ',' && *reader->next != '}' &&
           *reader->next != ']' && *reader->next != ' ' && *reader->next != '\t') {
        reader->next++;
    }
    return span_of(start, (size_t)(reader->next - start));
}

/* A list, its bracket taken, with all that is in it. */
static bool skip_list(struct reader *reader)
{
    struct span skipped;
    unsigned depth = 1;
    while (reader->next < reader->end) {
        const char c = *reader->next++;
        if (c == '"' && !take_string(reader, false, &skipped)) {
            return false;
        }
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        if (depth == 0) {
            return true;
        }
    }
    return false;
}

static const struct log_field_name *find_name(struct reader *reader, struct span key)
{
    if (reader->path_len == 0) {
        return log_fields_find(reader->fields, key);
    }
    if (key.len > sizeof(reader->path) - reader->path_len) {
        return NULL;
    }
    memcpy(reader->path + reader->path_len, key.data, key.len);
    return log_fields_find(reader->fields, span_of(reader->path, reader->path_len + key.len));
}

/* The value of a member that is no object. */
static bool read_value(struct reader *reader, const struct log_field_name *name)
{
    struct span value;
    if (take(reader, '"')) {
        if (!take_string(reader, name != NULL, &value)) {
            return false;
        }
    } else if (take(reader, '[')) {
        return skip_list(reader);
    } else {
        skip_space(reader);
        value = take_bare(reader);
        if (value.len == 0) {
            return false;
        }
        if (span_equals(value, SPAN("null"))) {
            return true;
        }
    }
    if (name != NULL) {
        log_values_add(&reader->values, name, value);
    }
    return true;
}

/* Into the object that is the value of @key; what does not fit is known by no name. */
static void enter(struct reader *reader, struct span key, size_t *was)
{
    *was = reader->path_len;
    if (key.len + 1 < sizeof(reader->path) - reader->path_len) {
        memcpy(reader->path + reader->path_len, key.data, key.len);
        reader->path_len += key.len;
        reader->path[reader->path_len++] = '.';
    } else {
        reader->path_len = sizeof(reader->path);
    }
}

/* The members of the outermost object, its brace taken, and of those within it. */
static bool read_members(struct reader *reader)
{
    size_t lengths[DEPTH_MAX];
    size_t depth = 0;
    bool is_first = true;
    for (;;) {
        struct span key;
        if (take(reader, '}')) {
            if (depth == 0) {
                return true;
            }
            reader->path_len = lengths[--depth];
            is_first = false;
            continue;
        }
        if ((!is_first && !take(reader, ',')) || !take(reader, '"') ||
            !take_string(reader, true, &key) || !take(reader, ':')) {
            return false;
        }
        is_first = take(reader, '{');
        if (is_first && depth == DEPTH_MAX) {
            return false;
        }
        if (is_first) {
            enter(reader, key, &lengths[depth++]);
        } else if (!read_value(reader, find_name(reader, key))) {
            return false;
        }
    }
}

bool log_json_read(char *line, size_t len, const struct log_fields *fields, struct log_clock *clock,
                   struct log_line *out)
{
    struct reader reader = {.next = line, .end = line + len, .fields = fields};
    if (!take(&reader, '{') || !read_members(&reader)) {
        return false;
    }
    skip_space(&reader);
    return reader.next == reader.end && log_values_read(&reader.values, clock, out);
}
