/* The line discipline of a head: CR LF alone ends a line, no control byte stands in one, no line is
 * folded. Incremental: no byte is looked at twice, however slowly they come. */

#ifndef SLUICE_HTTP_HEAD_SCAN_H
#define SLUICE_HTTP_HEAD_SCAN_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"

/* A complete head. */
struct head_lines {
    struct span start_line;  /* without its CR LF */
    struct span field_lines; /* with theirs, and the empty line */
    size_t end;              /* of the head in the data */
};

/* Find the end of the head that starts at data[@start], the start line; goes on from where
 * @parser was left. A start line above @start_line_bytes_max, its CR LF counted, or a head above
 * parser->head_bytes_max is bad: 431, and parser->line_start tells which line it was. */
MUST_USE enum parse_result head_scan(struct head_parser *parser, struct span data, size_t start,
                                     size_t start_line_bytes_max, struct head_lines *lines,
                                     struct http_error *error);

#endif /* SLUICE_HTTP_HEAD_SCAN_H */
