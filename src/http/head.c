#include "http/head.h"

void head_parser_reset(struct head_parser *parser)
{
    parser->scanned = 0;
    parser->line_start = 0;
}

const struct field *head_find(const struct head *head, enum field_id id)
{
    for (size_t i = 0; head_has(head, id) && i < head->n_fields; i++) {
        if (head->fields[i].id == id) {
            return &head->fields[i];
        }
    }
    return NULL;
}

const struct field *head_find_name(const struct head *head, struct span name)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (span_equals_ignore_case(head->fields[i].name, name)) {
            return &head->fields[i];
        }
    }
    return NULL;
}
