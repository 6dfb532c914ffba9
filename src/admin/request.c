#include "admin/request.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
