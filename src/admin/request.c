#include "admin/request.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/head_builder.h"
#include "http/values.h"
#include "page/page.h"

enum { JSON_DEPTH_FLAGS = JSON_REJECT_DUPLICATES };

static void answer(struct admin_request *request, uint16_t status)
{
    assert(!request->is_answered);
    request->is_answered = true;
    request->status = status;
    request->on_answer(request);
}

void answer_content(struct admin_request *request, uint16_t status, struct span content_type,
                    char *content, size_t content_bytes)
{
    request->content_type = content_type;
    request->content = content;
    request->content_bytes = content_bytes;
    answer(request, status);
}

char *json_dump_line(json_t *json, size_t flags, size_t *bytes)
{
    char *text = json != NULL ? json_dumps(json, flags | JSON_ENSURE_ASCII) : NULL;
    json_decref(json);
    if (text == NULL) {
        return NULL;
    }
    *bytes = strlen(text) + 1;
    text[*bytes - 1] = '\n'; /* where the NUL stood */
    return text;
}

void answer_json(struct admin_request *request, uint16_t status, json_t *json)
{
    size_t bytes = 0;
    char *text = json_dump_line(json, JSON_INDENT(2), &bytes);
    answer_content(request, text != NULL ? status : 503, SPAN("application/json"), text, bytes);
}

void answer_stream(struct admin_request *request, struct span content_type, char *content,
                   size_t content_bytes)
{
    request->is_stream = true;
    answer_content(request, 200, content_type, content, content_bytes);
}

const struct page_body *request_page_body(const struct admin_request *request)
{
    return request->takes_gzip ? &request->page->gzip : &request->page->plain;
}

void answer_page(struct admin_request *request, const struct page_file *file)
{
    request->page = file;
    request->content_type = file->content_type;
    const struct span etag = request_page_body(request)->etag;
    /* Weak or in a list, it stands there with its quotes: RFC 9110 section 13.1.2. */
    const bool is_known =
        memmem(request->known_etag, strlen(request->known_etag), etag.data, etag.len) != NULL;
    answer(request, is_known ? 304 : 200);
}

void answer_problem_with(struct admin_request *request, uint16_t status, json_t *json,
                         const char *detail)
{
    size_t bytes = 0;
    json_t *problem = json_pack("{ss, so, si}", "type", "about:blank", "title",
                                json_of_span(message_reason(status)), "status", (int)status);
    const bool is_whole =
        (detail == NULL ||
         json_object_set_new(problem, "detail", json_of_span(span_of_text(detail))) == 0) &&
        (json == NULL || json_object_update(problem, json) == 0);
    json_decref(json);
    if (!is_whole) {
        json_decref(problem);
        problem = NULL;
    }
    char *text = json_dump_line(problem, JSON_INDENT(2), &bytes);
    answer_content(request, status, SPAN("application/problem+json"), text, bytes);
}

void answer_problem(struct admin_request *request, uint16_t status, const char *format, ...)
{
    char detail[ADMIN_DETAIL_BYTES_MAX] = "";
    if (format != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(detail, sizeof(detail), format, arguments);
        va_end(arguments);
        answer_note(request, "%s", detail);
    }
    answer_problem_with(request, status, NULL, format != NULL ? detail : NULL);
}

void answer_note(struct admin_request *request, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(request->outcome, sizeof(request->outcome), format, arguments);
    va_end(arguments);
}

const struct policy *request_keep_policy(struct admin_request *request)
{
    const struct policy *policy = request->policy;
    request->policy = NULL;
    return policy;
}

json_t *request_read_object(struct admin_request *request)
{
    json_error_t error;
    if (span_trim(request->body).len == 0) {
        json_t *empty = json_object();
        if (empty == NULL) {
            answer_problem(request, 503, "out of memory");
        }
        return empty;
    }
    json_t *json = json_loadb(request->body.data, request->body.len, JSON_DEPTH_FLAGS, &error);
    if (json == NULL) {
        answer_problem(request, 400, "the body is no JSON: line %d, column %d: %s", error.line,
                       error.column, error.text);
        return NULL;
    }
    if (!json_is_object(json)) {
        answer_problem(request, 400, "the body must be a JSON object");
        json_decref(json);
        return NULL;
    }
    return json;
}

bool request_find_query(const struct admin_request *request, struct span name, char *buffer,
                        size_t capacity, struct span *value)
{
    return query_find(request->query, name, buffer, capacity, value);
}

/* jansson takes UTF-8 alone: text_add_json() makes that of anything, and jansson reads it back. */
json_t *json_of_span(struct span span)
{
    json_t *json = json_stringn(span.data != NULL ? span.data : "", span.len);
    if (json != NULL || span.len > ADMIN_BODY_BYTES_MAX) {
        return json;
    }
    char *quoted = malloc(6 * span.len + 2);
    if (quoted == NULL) {
        return NULL;
    }
    struct text text = text_of(quoted, 6 * span.len + 2);
    text_add_json(&text, span);
    json = json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    free(quoted);
    return json;
}

/* The fields of a file of the page. It loads nothing from elsewhere, and is in no frame. */
static void write_page_fields(struct text *head, const struct admin_request *request)
{
    message_write_field(head, SPAN("Cache-Control"), SPAN("no-cache"));
    message_write_field(head, SPAN("ETag"), request_page_body(request)->etag);
    message_write_field(head, SPAN("Vary"), SPAN("Accept-Encoding"));
    message_write_field(head, SPAN("Content-Security-Policy"),
                        SPAN("default-src 'none'; script-src 'self'; style-src 'self'; "
                             "connect-src 'self'; img-src 'self'; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'"));
    message_write_field(head, SPAN("Referrer-Policy"), SPAN("no-referrer"));
    if (request->takes_gzip) {
        message_write_field(head, SPAN("Content-Encoding"), SPAN("gzip"));
    }
}

struct span answer_content_of(const struct admin_request *request)
{
    if (request->page != NULL) {
        return request->status == 200 ? request_page_body(request)->content : SPAN("");
    }
    return span_of(request->content, request->content_bytes);
}

/* A stream ends with the connection where the client knows no chunks: RFC 9112 section 6.3. */
static void write_length(const struct admin_request *request, uint8_t minor, struct text *head)
{
    if (request->is_stream && minor > 0) {
        message_write_field(head, SPAN("Transfer-Encoding"), SPAN("chunked"));
    } else if (!request->is_stream && request->status != 204 && request->status != 304) {
        message_write_field_u64(head, SPAN("Content-Length"), answer_content_of(request).len);
    }
}

struct span answer_head_write(const struct admin_request *request, const struct answer_head *answer,
                              char *buffer)
{
    struct text head = text_of(buffer, ANSWER_HEAD_BYTES);
    char date[MESSAGE_DATE_BYTES];
    message_write_date(date, clock_wall_us());
    message_write_status_line(&head, request->status);
    message_write_field(&head, SPAN("Date"), span_of(date, sizeof(date)));
    message_write_field(&head, SPAN("Server"), SPAN("sluice"));
    if (request->page != NULL) {
        write_page_fields(&head, request);
    } else {
        message_write_field(&head, SPAN("Cache-Control"), SPAN("no-store"));
    }
    /* Nothing here is for pages of others, not even as an image. */
    message_write_field(&head, SPAN("Cross-Origin-Resource-Policy"), SPAN("same-origin"));
    message_write_field(&head, SPAN("X-Content-Type-Options"), SPAN("nosniff"));
    if (request->status == 401) {
        message_write_field(&head, SPAN("WWW-Authenticate"), SPAN("Bearer realm=\"sluice\""));
    }
    if (request->status == 405) {
        message_write_field(&head, SPAN("Allow"), request->allow);
    }
    if (request->retry_after_s > 0) {
        message_write_field_u64(&head, SPAN("Retry-After"), request->retry_after_s);
    }
    if (answer_content_of(request).len > 0) {
        message_write_field(&head, SPAN("Content-Type"), request->content_type);
    }
    write_length(request, answer->minor, &head);
    if (!answer->keep_alive) {
        message_write_field(&head, SPAN("Connection"), SPAN("close"));
    } else if (answer->minor == 0) {
        message_write_field(&head, SPAN("Connection"), SPAN("keep-alive"));
    }
    text_add_literal(&head, "\r\n");
    return text_span(&head);
}

/* --- what the client takes --- */

/* Whether "q=0", "q=0.0" and the like is what is said of a coding: RFC 9110 section 12.4.2. */
static bool is_refused(struct span weight)
{
    weight = span_trim(weight);
    if (weight.len < 3 || ascii_lower(weight.data[0]) != 'q' || weight.data[1] != '=') {
        return false;
    }
    for (size_t i = 2; i < weight.len; i++) {
        if (weight.data[i] != '0' && weight.data[i] != '.') {
            return false;
        }
    }
    return true;
}

/* Whether Accept-Encoding names gzip: RFC 9110 section 12.5.3. */
static bool takes_gzip(const struct head *head)
{
    const struct field *field = head_find_name(head, SPAN("Accept-Encoding"));
    struct span rest = field != NULL ? field->value : SPAN("");
    struct span coding;
    while (span_split(&rest, ',', &coding)) {
        const size_t end = span_find(coding, ';');
        if (span_equals_ignore_case(span_trim(span_of(coding.data, end)), SPAN("gzip"))) {
            return end == coding.len || !is_refused(span_from(coding, end + 1));
        }
    }
    return false;
}

void request_keep_preferences(struct admin_request *request, const struct head *head)
{
    const struct field *known = head_find_name(head, SPAN("If-None-Match"));
    request->takes_gzip = takes_gzip(head);
    if (known != NULL && known->value.len < sizeof(request->known_etag)) {
        memcpy(request->known_etag, known->value.data, known->value.len);
        request->known_etag[known->value.len] = '\0';
    }
}

static const struct http_error TOO_LONG = {.status = 413,
                                           .reason = "the body is longer than any here"};

bool body_reader_begin(struct body_reader *reader, const struct head *head, uint64_t bytes_max)
{
    reader->kind = head->body;
    reader->left = head->body == BODY_LENGTH ? head->content_length : 0;
    reader->bytes = 0;
    reader->bytes_max = bytes_max;
    chunked_decoder_init(&reader->decoder);
    return reader->left <= bytes_max;
}

enum parse_result body_reader_take(struct body_reader *reader, struct span data,
                                   struct span *content, size_t *consumed, struct http_error *error)
{
    if (reader->kind != BODY_CHUNKED) {
        *content = span_of(data.data, data.len < reader->left ? data.len : (size_t)reader->left);
        *consumed = content->len;
        reader->left -= content->len;
        return reader->left == 0 ? PARSE_DONE : PARSE_PARTIAL;
    }
    const enum parse_result result = chunked_decode(&reader->decoder, (char *)(uintptr_t)data.data,
                                                    data.len, content, consumed, error);
    if (result != PARSE_BAD && content->len > reader->bytes_max - reader->bytes) {
        *error = TOO_LONG;
        return PARSE_BAD;
    }
    reader->bytes += content->len;
    return result;
}
