/* From bytes to fields. Field lines are parsed by llhttp. It knows a fixed list of methods and acts
 * on some of them, so it does not get the real start line, which head_request.c and head_response.c
 * parse. It gets a constant start line, then the field lines, and is stopped at their end, before
 * it expects a body. */

#include "http/head.h"

#include <llhttp.h>

#include "http/head_parts.h"
#include "http/octet.h"

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

struct span head_find_only(const struct head *head, struct span name)
{
    struct span value = span_of("", 0);
    for (size_t i = 0, n = 0; i < head->n_fields; i++) {
        if (span_equals_ignore_case(head->fields[i].name, name)) {
            value = ++n == 1 ? head->fields[i].value : span_of("", 0);
        }
    }
    return value;
}

/* --- lines --- */

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

static void cut_lines(struct span data, size_t start, size_t fields_at, size_t end,
                      struct head_lines *lines)
{
    lines->start_line = span_of(data.data + start, fields_at - CRLF_BYTES - start);
    lines->field_lines = span_of(data.data + fields_at, end - fields_at);
    lines->end = end;
}

/* Scan to the end of the line at parser->line_start, which must be before @limit. */
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
    /* Input that is not HTTP (TLS, for example) is recognised by its first byte. */
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
            cut_lines(data, start, parser->start_line_end, parser->scanned, lines);
            return PARSE_DONE;
        }
        if (is_start_line) {
            parser->start_line_end = parser->scanned;
        }
        parser->line_start = parser->scanned;
    }
}

/* --- fields --- */

struct reader {
    const struct head_parser *parser;
    struct head *head;
};

/* A name or a value may come in several pieces, which lie one behind the other. */
static int on_name(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *reader = llhttp->data;
    struct head *head = reader->head;

    if (head->n_fields > 0) {
        struct span *name = &head->fields[head->n_fields - 1].name;
        if (name->data + name->len == at) {
            name->len += len;
            return HPE_OK;
        }
    }
    if (head->n_fields == reader->parser->n_fields_max) {
        head_refuse(head, 431, "the head has too many fields");
        return HPE_USER;
    }
    head->fields[head->n_fields++] = (struct field){.name = span_of(at, len)};
    return HPE_OK;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *reader = llhttp->data;
    struct span *value = &reader->head->fields[reader->head->n_fields - 1].value;

    if (value->data == NULL) {
        value->data = at;
    }
    value->len = (size_t)(at - value->data) + len;
    return HPE_OK;
}

static int on_fields_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_fields_complete,
};

static const char *fault_of(llhttp_errno_t error)
{
    if (error == HPE_UNEXPECTED_CONTENT_LENGTH) {
        return "Content-Length is repeated, or beside Transfer-Encoding";
    }
    if (error == HPE_INVALID_CONTENT_LENGTH) {
        return "Content-Length is not a number";
    }
    if (error == HPE_INVALID_TRANSFER_ENCODING) {
        return "Transfer-Encoding is not chunked, once and last";
    }
    return "a field line is malformed";
}

/* The parser's state after the start line: made once per thread, and copied for each head. */
static const llhttp_t *behind_start_line(void)
{
    static const struct span START_LINE = {"GET / HTTP/1.1\r\n", 16};
    static _Thread_local llhttp_t llhttp; /* settings is set once it is ready */
    if (llhttp.settings == NULL) {
        llhttp_init(&llhttp, HTTP_REQUEST, &SETTINGS);
        (void)llhttp_execute(&llhttp, START_LINE.data, START_LINE.len);
    }
    return &llhttp;
}

static bool read_lines(const struct head_parser *parser, struct span lines, struct head *head)
{
    struct reader reader = {.parser = parser, .head = head};
    llhttp_t llhttp = *behind_start_line();

    head->fields = parser->fields;
    head->n_fields = 0;
    llhttp.data = &reader;
    const llhttp_errno_t error = llhttp_execute(&llhttp, lines.data, lines.len);
    const bool read_all = llhttp_get_error_pos(&llhttp) == lines.data + lines.len;
    if (error == HPE_PAUSED && read_all) {
        return true;
    }
    return error != HPE_USER && head_refuse(head, 400, fault_of(error));
}

bool head_read_fields(const struct head_parser *parser, struct span lines, struct head *head,
                      struct head_index *index)
{
    if (!read_lines(parser, lines, head)) {
        return false;
    }
    for (size_t i = 0; i < head->n_fields; i++) {
        struct field *field = &head->fields[i];
        field->id = field_identify(field->name);
        if (field->id == FIELD_OTHER && !field_is_token(field->name)) { /* known ones are tokens */
            return head_refuse(head, 400, "the name of a field is not a token");
        }
        field->value = span_trim(field->value);
        field->hop_by_hop = field_is_hop_by_hop(field->id);
    }
    head_index_fill(index, head);
    return true;
}

void head_index_fill(struct head_index *index, struct head *head)
{
    _Static_assert(FIELD_ID_COUNT <= 64, "an id is a bit of a word");
    uint64_t known = 0;

    memset(index->count, 0, sizeof(index->count)); /* entries with a count of 0 are not read */
    for (size_t i = 0; i < head->n_fields; i++) {
        struct field *field = &head->fields[i];
        known |= UINT64_C(1) << field->id;
        if (index->count[field->id]++ == 0) {
            index->first[field->id] = field;
        }
    }
    head->known = known;
}
