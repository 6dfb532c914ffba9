/* From bytes to lines, and from lines to fields. */

#include "http/head.h"

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

static enum parse_result bad(struct http_error *error, uint16_t status, const char *reason)
{
    *error = (struct http_error){.status = status, .reason = reason};
    return PARSE_BAD;
}

/* Why the line at data[@line] is refused, which goes up to data[@at], the first octet that no value
 * has, and one more; NULL if it starts with a token, or is empty, and ends there in CR LF. */
static const char *line_fault(const char *data, size_t line, size_t at)
{
    if (at > line && !octet_is(data[line], OCTET_TCHAR)) {
        if (data[line] == ' ' || data[line] == '\t') {
            return "a line is folded, or starts with white space";
        }
        return data[line] == ':' ? "a field has no name" : "a line does not start with a token";
    }
    if (data[at] == '\r') {
        return data[at + 1] == '\n' ? NULL : "a CR stands alone";
    }
    return data[at] == '\n' ? "a line ends in LF without CR" : "a control byte stands in the head";
}

/* Whether the octet at data[@at], which no value has, stands in the value of a field, or behind the
 * version in a status line. */
static bool is_in_value(const char *data, size_t start, size_t line, size_t at)
{
    const struct span text = span_of(data + line, at - line);
    if (line == start) {
        return span_starts_with(text, SPAN("HTTP/1.")) && data[at] != '\r' && data[at] != '\n';
    }
    return text.len > 0 && octet_is(text.data[0], OCTET_TCHAR) && span_find(text, ':') < text.len;
}

static void note_line(struct head_parser *parser, struct span line)
{
    if (parser->n_lines < parser->n_fields_max) {
        parser->fields[parser->n_lines].value = line;
    }
    parser->n_lines++;
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum parse_result head_scan(struct head_parser *parser, struct span data, size_t start,
                            size_t start_line_bytes_max, struct head_lines *lines,
                            struct http_error *error)
{
    /* Input that is not HTTP (TLS, for example) is recognised by its first byte. */
    if (data.len > start && !octet_is(data.data[start], OCTET_TCHAR)) {
        return bad(error, 400, "the start line does not start with a token");
    }
    const bool is_resumed = parser->scanned > start;
    size_t line = parser->line_start > start ? parser->line_start : start;
    size_t at = parser->scanned > start ? parser->scanned : start;
    size_t bytes_max = line == start ? lesser(start_line_bytes_max, parser->head_bytes_max)
                                     : parser->head_bytes_max;
    for (;;) {
        const size_t window = lesser(data.len, start + bytes_max);
        at = octet_skip_values(data.data, at, window);
        if (at == window || (at + 1 == window && data.data[at] == '\r')) {
            parser->line_start = line;
            parser->scanned = at;
            return window < start + bytes_max ? PARSE_PARTIAL
                                              : bad(error, 431, "the head is too large");
        }
        const char *fault = line_fault(data.data, line, at);
        if (fault != NULL) {
            (void)bad(error, 400, fault);
            error->is_in_value = is_in_value(data.data, start, line, at);
            return PARSE_BAD;
        }
        const bool is_empty = at == line;
        at += CRLF_BYTES;
        if (is_empty) {
            break;
        }
        if (line == start) {
            parser->start_line_end = at;
            parser->n_lines = 0;
            bytes_max = parser->head_bytes_max;
        } else {
            note_line(parser, span_of(data.data + line, at - CRLF_BYTES - line));
        }
        line = at;
    }
    if (is_resumed) {
        /* In an earlier call the bytes may have been elsewhere: note all lines again. */
        head_parser_reset(parser);
        return head_scan(parser, data, start, start_line_bytes_max, lines, error);
    }
    lines->start_line = span_of(data.data + start, parser->start_line_end - CRLF_BYTES - start);
    lines->end = at;
    return PARSE_DONE;
}

/* --- fields --- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Read the line that is the value of @field, behind which there is CR LF. False: it is not a token,
 * a colon and a value. */
static bool read_field(struct field *field)
{
    const struct span line = field->value;
    const size_t name_len = octet_find_colon(line);
    if (name_len == line.len) {
        return false;
    }
    const char *colon = line.data + name_len;
    const char *value = colon + 1;
    const char *end = line.data + line.len;
    while (is_blank(*value)) {
        value++;
    }
    while (end > value && is_blank(end[-1])) {
        end--;
    }
    field->name = span_of(line.data, name_len);
    field->value = span_of(value, (size_t)(end - value));
    field->is_line = value == colon + 2 && colon[1] == ' ' && end == line.data + line.len;
    field->id = field_identify(field->name);
    field->hop_by_hop = field_is_hop_by_hop(field->id);
    /* A known name is a token, and so are letters and hyphens. */
    return field->id != FIELD_OTHER || octet_are_letters(line, name_len) ||
           field_is_token(field->name);
}

/* Whether there is a tab in the white space behind @value, which ends in CR. */
static bool has_tab_behind(struct span value)
{
    const char *at = value.data + value.len;
    while (*at == ' ') {
        at++;
    }
    return *at == '\t';
}

static bool read_lines(const struct head_parser *parser, struct head *head)
{
    head->fields = parser->fields;
    for (head->n_fields = 0; head->n_fields < parser->n_lines; head->n_fields++) {
        if (head->n_fields == parser->n_fields_max) {
            (void)head_refuse(head, 431, "the head has too many fields");
            head->error.is_of_count = true;
            return false;
        }
        struct field *field = &head->fields[head->n_fields];
        if (!read_field(field)) {
            return head_refuse(head, 400, "a field line is not a token, a colon and a value");
        }
        if (field->id == FIELD_CONTENT_LENGTH && has_tab_behind(field->value)) {
            return head_refuse(head, 400, "a tab stands behind Content-Length");
        }
    }
    return true;
}

bool head_read_fields(const struct head_parser *parser, struct head *head, struct head_index *index)
{
    if (!read_lines(parser, head)) {
        return false;
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
