/* The field lines of a head, read by llhttp into the caller's array. */

#ifndef SLUICE_HTTP_HEAD_FIELDS_H
#define SLUICE_HTTP_HEAD_FIELDS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"

/* Fill head->fields from @lines, which head_scan() found good and which ends in an empty line.
 * False: head->error says why. */
MUST_USE bool head_read_fields(const struct head_parser *parser, struct span lines,
                               struct head *head);

/* Where the known fields of a head are. */
struct head_index {
    struct field *first[FIELD_ID_COUNT]; /* in head->fields, where there is one */
    uint16_t count[FIELD_ID_COUNT];
};

/* Sets head->known too. */
void head_index_fill(struct head_index *index, struct head *head);

#endif /* SLUICE_HTTP_HEAD_FIELDS_H */
