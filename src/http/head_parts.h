/* The parts of the parser for heads, which requests and responses share: from bytes to lines, from
 * lines to fields, from fields to what a head means. */

#ifndef SLUICE_HTTP_HEAD_PARTS_H
#define SLUICE_HTTP_HEAD_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"

/* --- lines ---
 *
 * Only CR LF ends a line, a line has no control byte, and no line is folded. The scan is
 * incremental: no byte is scanned more than twice, however slowly bytes arrive. */

/* A complete head. */
struct head_lines {
    struct span start_line; /* without its CR LF */
    size_t end;             /* of the head in the data */
};

/* Find the end of the head whose start line is at data[@start], continuing where @parser stopped.
 * Each field line, without CR LF, becomes the value of its field in parser->fields, as far as there
 * are so many. A start line longer than @start_line_bytes_max, CR LF included, or a head longer
 * than parser->head_bytes_max is an error: 431, and parser->line_start shows which line it was. */
MUST_USE enum parse_result head_scan(struct head_parser *parser, struct span data, size_t start,
                                     size_t start_line_bytes_max, struct head_lines *lines,
                                     struct http_error *error);

/* --- fields --- */

/* The positions of the known fields of a head. */
struct head_index {
    struct field *first[FIELD_ID_COUNT]; /* in head->fields; valid if the count is not 0 */
    uint16_t count[FIELD_ID_COUNT];
};

/* Fill head->fields and @index from the lines that head_scan() has found with @parser. Fields that
 * are hop-by-hop by definition are marked. False: see head->error. */
MUST_USE bool head_read_fields(const struct head_parser *parser, struct head *head,
                               struct head_index *index);

/* Fill @index, and set head->known. */
void head_index_fill(struct head_index *index, struct head *head);

/* --- meaning ---
 *
 * The version, where the body ends, whether the connection persists, which fields are hop-by-hop.
 * Each function returns false with head->error.
 *
 * Source: RFC 9112 sections 2.3, 6 and 9, RFC 9110 sections 2.5 and 7.6.1. */

/* "HTTP/1.1" */
enum { VERSION_BYTES = 8 };

/* Set head->minor: 0 or 1; a later minor version counts as 1. Errors: 400 if malformed, 505 for
 * another major version. */
MUST_USE bool head_read_version(struct head *head, struct span version);

/* Set head->body, content_length and has_content_length from Content-Length and Transfer-Encoding;
 * BODY_NONE without either. head->minor must be set. */
MUST_USE bool head_read_framing(struct head *head, const struct head_index *index);

/* Set head->keep_alive and has_upgrade, and mark the fields that Connection names as hop-by-hop.
 * head->minor must be set. */
MUST_USE bool head_read_connection(struct head *head, const struct head_index *index);

/* Of requests, for a builder of heads: what head_parse_request() does with these parts.
 * head->minor must be set; expectations need head->body. */
MUST_USE bool head_read_method_and_target(struct head *head, struct span method,
                                          struct span target);
MUST_USE bool head_read_host_and_names(struct head *head, const struct head_index *index);
MUST_USE bool head_read_expectations(struct head *head, const struct head_index *index);

/* Set head->error and return false, so that the caller can return the result. */
bool head_refuse(struct head *head, uint16_t status, const char *reason);

#endif /* SLUICE_HTTP_HEAD_PARTS_H */
