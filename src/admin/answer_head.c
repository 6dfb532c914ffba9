#include "admin/answer_head.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/head_builder.h"
#include "page/page.h"

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
