/* The conditions on fields of a policy's routes, for a reading of the fields in one pass: its cost
 * does not grow with the number of routes that ask for fields.
 *
 * The names are numbered once. The pass notes the lines of each; a condition looks at those of its
 * name alone. */

#ifndef SLUICE_POLICY_MATCH_FIELDS_H
#define SLUICE_POLICY_MATCH_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/status.h"
#include "http/head.h"
#include "policy/route_match.h"

struct route;

enum {
    MATCH_FIELD_NAMES_MAX = 1024,   /* conditions on further names are compared with each line */
    MATCH_FIELD_CONDITIONS_MIN = 8, /* fewer are compared so, too: that is as fast */
};

struct match_field_index;

/* The lines of a request's conditions. */
struct match_field_lines {
    const struct match_field_index *index;
    const struct head *head;
    bool is_read;                          /* else the rest is not set */
    uint16_t first[MATCH_FIELD_NAMES_MAX]; /* of each name: index + 1; 0: none */
    uint16_t next[HEAD_FIELDS_MAX];        /* of the same name, as above */
};

/* Number the names of the conditions of @routes, from 1. Everything is of @arena. *index: NULL if
 * there are fewer than MATCH_FIELD_CONDITIONS_MIN conditions; their numbers are 0 then, as those of
 * names beyond MATCH_FIELD_NAMES_MAX. STATUS_NO_MEMORY. */
MUST_USE enum status match_field_index_build(struct route *routes, size_t n_routes,
                                             struct arena *arena,
                                             const struct match_field_index **index);

/* Begin with @head, which has at most HEAD_FIELDS_MAX fields: nothing is read. */
void match_field_lines_init(struct match_field_lines *lines, const struct match_field_index *index,
                            const struct head *head);

/* The first line of the name with @number, which is not 0; NULL: none. The first call reads the
 * fields. */
const struct field *match_field_lines_first(struct match_field_lines *lines, uint32_t number);

/* The next line after @field, of the same name; NULL: none. */
const struct field *match_field_lines_next(const struct match_field_lines *lines,
                                           const struct field *field);

#endif /* SLUICE_POLICY_MATCH_FIELDS_H */
