#include "policy/match_fields.h"

#include <string.h>

#include "base/span.h"
#include "policy/policy.h"

enum { NAME_BYTES = 256 }; /* no condition has a longer one: see compile_match.c */

/* All names in lower case, sorted. */
struct match_field_index {
    struct span *names;
    size_t n_names;
    size_t bytes_max; /* of a name */
};

/* @name in lower case, in @buffer. */
static struct span lower(struct span name, char *buffer)
{
    for (size_t i = 0; i < name.len; i++) {
        buffer[i] = ascii_lower(name.data[i]);
    }
    return span_of(buffer, name.len);
}

static size_t find(const struct match_field_index *index, struct span name)
{
    char buffer[NAME_BYTES];
    return name.len <= index->bytes_max
               ? span_set_find(index->names, index->n_names, lower(name, buffer))
               : index->n_names;
}

/* --- building --- */

static size_t count_conditions(const struct route *routes, size_t n_routes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_routes; i++) {
        n += routes[i].match.n_fields;
    }
    return n;
}

static bool list_names(struct match_field_index *index, const struct route *routes, size_t n_routes,
                       struct arena *arena)
{
    for (size_t i = 0; i < n_routes; i++) {
        for (size_t j = 0; j < routes[i].match.n_fields; j++) {
            const struct span name = routes[i].match.fields[j].name;
            char *buffer = arena_alloc(arena, name.len + 1);
            if (buffer == NULL) {
                return false;
            }
            if (name.len <= NAME_BYTES) {
                index->names[index->n_names++] = lower(name, buffer);
                index->bytes_max = name.len > index->bytes_max ? name.len : index->bytes_max;
            }
        }
    }
    index->n_names = span_set_sort(index->names, index->n_names);
    return true;
}

enum status match_field_index_build(struct route *routes, size_t n_routes, struct arena *arena,
                                    const struct match_field_index **index)
{
    const size_t n = count_conditions(routes, n_routes);
    *index = NULL;
    if (n < MATCH_FIELD_CONDITIONS_MIN) {
        return STATUS_OK;
    }
    struct match_field_index *built = arena_calloc(arena, 1, sizeof(*built));
    struct span *names = arena_calloc(arena, n, sizeof(*names));
    if (built == NULL || names == NULL) {
        return STATUS_NO_MEMORY;
    }
    built->names = names;
    if (!list_names(built, routes, n_routes, arena)) {
        return STATUS_NO_MEMORY;
    }
    built->n_names =
        built->n_names < MATCH_FIELD_NAMES_MAX ? built->n_names : MATCH_FIELD_NAMES_MAX;
    for (size_t i = 0; i < n_routes; i++) {
        for (size_t j = 0; j < routes[i].match.n_fields; j++) {
            struct value_match *condition = &routes[i].match.fields[j];
            const size_t at = find(built, condition->name);
            condition->name_number = at < built->n_names ? (uint32_t)at + 1 : 0;
        }
    }
    *index = built;
    return STATUS_OK;
}

/* --- reading --- */

void match_field_lines_init(struct match_field_lines *lines, const struct match_field_index *index,
                            const struct head *head)
{
    lines->index = index;
    lines->head = head;
    lines->is_read = false;
}

static NEVER_INLINE void read_lines(struct match_field_lines *lines)
{
    const struct match_field_index *index = lines->index;
    lines->is_read = true;
    memset(lines->first, 0, index->n_names * sizeof(lines->first[0]));
    for (size_t i = lines->head->n_fields; i-- > 0;) { /* the first line of a name is put last */
        const size_t at = find(index, lines->head->fields[i].name);
        if (at < index->n_names) {
            lines->next[i] = lines->first[at];
            lines->first[at] = (uint16_t)(i + 1);
        }
    }
}

static const struct field *line_at(const struct match_field_lines *lines, uint16_t number)
{
    return number > 0 ? &lines->head->fields[number - 1] : NULL;
}

const struct field *match_field_lines_first(struct match_field_lines *lines, uint32_t number)
{
    if (!lines->is_read) {
        read_lines(lines);
    }
    return line_at(lines, lines->first[number - 1]);
}

const struct field *match_field_lines_next(const struct match_field_lines *lines,
                                           const struct field *field)
{
    return line_at(lines, lines->next[field - lines->head->fields]);
}
