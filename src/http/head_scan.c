#include "http/head_scan.h"

#include "http/octet.h"

enum { CRLF_BYTES = 2 };

static const char *first_octet_fault(char octet)
{
    if (octet == ' ' || octet == '\t') {
        return "a line is folded, or starts with white space";
    }
    return octet == ':' ? "a field has no name" : "a line does not start with a token";
}

/* @line ends in LF. */
static const char *line_fault(struct span line)
{
    if (line.len < CRLF_BYTES || line.data[line.len - CRLF_BYTES] != '\r') {
        return "a line ends in LF without CR";
    }
    const struct span content = span_of(line.data, line.len - CRLF_BYTES);
    if (content.len > 0 && !octet_is(content.data[0], OCTET_TCHAR)) {
        return first_octet_fault(content.data[0]);
    }
    if (!field_is_value(content)) {
        return memchr(content.data, '\r', content.len) != NULL
                   ? "a CR stands alone"
                   : "a control byte stands in the head";
    }
    return NULL;
}

static enum parse_result bad(struct http_error *error, uint16_t status, const char *reason)
{
    *error = (struct http_error){.status = status, .reason = reason};
    return PARSE_BAD;
}

static void cut_lines(struct span data, size_t start, size_t end, struct head_lines *lines)
{
    const struct span head = span_of(data.data + start, end - start);
    const size_t lf = span_find(head, '\n');

    lines->start_line = span_of(head.data, lf - 1);
    lines->field_lines = span_of(head.data + lf + 1, head.len - lf - 1);
    lines->end = end;
}

/* Read on to the end of the line at parser->line_start, which must lie before @limit. */
static enum parse_result next_line(struct head_parser *parser, struct span data, size_t limit,
                                   struct span *line, struct http_error *error)
{
    const size_t window = data.len < limit ? data.len : limit;
    const size_t scanned = parser->scanned;
    const size_t found = span_find(span_of(data.data + scanned, window - scanned), '\n');

    if (scanned + found == window) {
        parser->scanned = window;
        return window < limit ? PARSE_PARTIAL : bad(error, 431, "the head is too large");
    }
    parser->scanned = scanned + found + 1;
    *line = span_of(data.data + parser->line_start, parser->scanned - parser->line_start);
    const char *fault = line_fault(*line);
    return fault == NULL ? PARSE_DONE : bad(error, 400, fault);
}

enum parse_result head_scan(struct head_parser *parser, struct span data, size_t start,
                            size_t start_line_bytes_max, struct head_lines *lines,
                            struct http_error *error)
{
    if (parser->line_start < start) {
        parser->line_start = start;
        parser->scanned = start;
    }
    /* What is no HTTP at all (TLS, say) shows in its first byte. */
    if (data.len > start && !octet_is(data.data[start], OCTET_TCHAR)) {
        return bad(error, 400, "the start line does not start with a token");
    }
    for (;;) {
        const bool is_start_line = parser->line_start == start;
        const bool is_shorter = is_start_line && start_line_bytes_max < parser->head_bytes_max;
        const size_t bytes_max = is_shorter ? start_line_bytes_max : parser->head_bytes_max;
        struct span line;
        const enum parse_result result = next_line(parser, data, start + bytes_max, &line, error);
        if (result != PARSE_DONE) {
            return result;
        }
        if (line.len == CRLF_BYTES) {
            cut_lines(data, start, parser->scanned, lines);
            return PARSE_DONE;
        }
        parser->line_start = parser->scanned;
    }
}
