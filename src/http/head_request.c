/* Request heads: request line, Host, framing, Expect. */

#include "http/head_parts.h"

/* Longer than any request line whose parts are within their limits. */
enum { REQUEST_LINE_BYTES_MAX = METHOD_BYTES_MAX + 1 + TARGET_BYTES_MAX + 1 + VERSION_BYTES + 2 };

/* False: more empty lines may follow. */
static bool skip_empty_lines(struct span data, size_t *start)
{
    size_t i = 0;

    for (size_t n = 0; n < HEAD_EMPTY_LINES_MAX && i < data.len && data.data[i] == '\r'; n++) {
        if (i + 1 == data.len) {
            return false;
        }
        if (data.data[i + 1] != '\n') {
            break;
        }
        i += 2;
    }
    *start = i;
    return true;
}

/* Set the error for a request line without an end, by the part that is too long. */
static bool refuse_long_line(struct head *head, struct span line)
{
    const size_t window = line.len <= METHOD_BYTES_MAX ? line.len : METHOD_BYTES_MAX + 1;
    const struct span start = span_of(line.data, window);
    const size_t method_len = span_find(start, ' ');

    if (!field_is_token(span_of(line.data, method_len))) {
        return head_refuse(head, 400, "the method is not a token");
    }
    return method_len == start.len ? head_refuse(head, 501, "the method is too long")
                                   : head_refuse(head, 414, "the target is too long");
}

static bool read_method(struct head *head, struct span method)
{
    head->method = method;
    if (!field_is_token(method)) {
        return head_refuse(head, 400, "the method is not a token");
    }
    if (method.len > METHOD_BYTES_MAX) {
        return head_refuse(head, 501, "the method is too long");
    }
    head->method_id = method_identify(method);
    head->is_idempotent = method_is_idempotent(head->method_id);
    if (head->method_id == METHOD_CONNECT) {
        return head_refuse(head, 501, "CONNECT is not served");
    }
    return true;
}

static bool read_target(struct head *head, struct span target)
{
    if (target.len > TARGET_BYTES_MAX) {
        return head_refuse(head, 414, "the target is too long");
    }
    const char *fault = target_parse(target, head->method, &head->target);
    return fault == NULL || head_refuse(head, 400, fault);
}

/* method SP target SP version, with exactly one space each: a further space would be part of the
 * target or of the version, where none is allowed. */
static bool read_request_line(struct head *head, struct span line)
{
    const size_t method_len = span_find(line, ' ');
    size_t version_at = line.len > VERSION_BYTES ? line.len - VERSION_BYTES : 0;

    while (version_at > method_len && line.data[version_at - 1] != ' ') {
        version_at--;
    }
    if (version_at <= method_len + 1) {
        return head_refuse(head, 400, "the request line is not method, target and version");
    }
    const struct span version = span_from(line, version_at);
    const struct span target =
        span_of(line.data + method_len + 1, version_at - 1 - (method_len + 1));
    return read_method(head, span_of(line.data, method_len)) && head_read_version(head, version) &&
           read_target(head, target);
}

static bool read_host(struct head *head, const struct head_index *index)
{
    const struct field *field = index->count[FIELD_HOST] > 0 ? index->first[FIELD_HOST] : NULL;

    if (index->count[FIELD_HOST] > 1) {
        return head_refuse(head, 400, "Host is repeated");
    }
    if (field == NULL && head->minor > 0) {
        return head_refuse(head, 400, "Host is missing");
    }
    if (field != NULL && !target_is_host(field->value)) {
        return head_refuse(head, 400, "Host is not a host");
    }
    if (head->target.form == TARGET_ABSOLUTE) {
        head->host = head->target.authority;
    } else {
        head->host = field != NULL ? field->value : span_of(NULL, 0);
    }
    return true;
}

static bool read_expectations(struct head *head, struct span list)
{
    struct span expectation;

    while (field_list_next(&list, &expectation)) {
        if (!span_equals_ignore_case(expectation, SPAN("100-continue"))) {
            return head_refuse(head, 417, "the expectation is not 100-continue");
        }
        head->expect_continue = head->body != BODY_NONE;
    }
    return true;
}

static bool read_expect(struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        struct field *field = &head->fields[i];
        if (field->id != FIELD_EXPECT) {
            continue;
        }
        if (head->minor == 0) {
            /* In HTTP/1.0 it has no meaning; in the forwarded HTTP/1.1 request it would have
             * one. */
            field->hop_by_hop = true;
        } else if (!read_expectations(head, field->value)) {
            return false;
        }
    }
    return true;
}

static bool has_digits_alone(struct span span)
{
    for (size_t i = 0; i < span.len; i++) {
        if (span.data[i] < '0' || span.data[i] > '9') {
            return false;
        }
    }
    return span.len > 0;
}

/* The received field is hop-by-hop: a new one is written for the next hop. */
static bool read_max_forwards(struct head *head, const struct head_index *index)
{
    struct field *field = index->first[FIELD_MAX_FORWARDS];

    if (head->method_id != METHOD_TRACE && head->method_id != METHOD_OPTIONS) {
        return true;
    }
    if (index->count[FIELD_MAX_FORWARDS] > 1 || !has_digits_alone(field->value)) {
        return head_refuse(head, 400, "Max-Forwards is not one number");
    }
    if (!span_to_u64(field->value, INT64_MAX, &head->max_forwards)) {
        head->max_forwards = INT64_MAX;
    }
    head->has_max_forwards = true;
    field->hop_by_hop = true;
    return true;
}

static bool has_no_underscore_variant(struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id == FIELD_OTHER &&
            field_is_underscore_variant(head->fields[i].name)) {
            return head_refuse(head, 400,
                               "a field's name is a known one with other punctuation, or CGI's");
        }
    }
    return true;
}

static bool read_request(const struct head_parser *parser, const struct head_lines *lines,
                         struct head *head)
{
    struct head_index index;

    if (!read_request_line(head, lines->start_line) || !head_read_fields(parser, head, &index)) {
        return false;
    }
    return has_no_underscore_variant(head) && read_host(head, &index) &&
           head_read_framing(head, &index) && head_read_connection(head, &index) &&
           (index.count[FIELD_EXPECT] == 0 || read_expect(head)) &&
           (index.count[FIELD_MAX_FORWARDS] == 0 || read_max_forwards(head, &index));
}

bool head_read_method_and_target(struct head *head, struct span method, struct span target)
{
    return read_method(head, method) && read_target(head, target);
}

bool head_read_host_and_names(struct head *head, const struct head_index *index)
{
    return has_no_underscore_variant(head) && read_host(head, index);
}

bool head_read_expectations(struct head *head, const struct head_index *index)
{
    return (index->count[FIELD_EXPECT] == 0 || read_expect(head)) &&
           (index->count[FIELD_MAX_FORWARDS] == 0 || read_max_forwards(head, index));
}

enum parse_result head_parse_request(struct head_parser *parser, struct span data,
                                     struct head *head, size_t *consumed)
{
    struct head_lines lines;
    size_t start;

    *head = (struct head){0};
    if (!skip_empty_lines(data, &start)) {
        return PARSE_PARTIAL;
    }
    const enum parse_result result =
        head_scan(parser, data, start, REQUEST_LINE_BYTES_MAX, &lines, &head->error);
    if (result == PARSE_BAD && head->error.status == 431 && parser->line_start == start) {
        refuse_long_line(head, span_from(data, start));
    }
    if (result != PARSE_DONE) {
        return result;
    }
    if (!read_request(parser, &lines, head)) {
        return PARSE_BAD;
    }
    head_parser_reset(parser);
    *consumed = lines.end;
    return PARSE_DONE;
}
