/* Answers of the proxy's own to gRPC calls. A gRPC client reads the status of a call from trailers,
 * and waits as long as grpc-retry-pushback-ms says. The answer is "trailers-only": one head that
 * ends the stream. The exchange, its log line and its metrics keep the HTTP status. */

#include "base/text.h"
#include "http/grpc.h"
#include "http/head_builder.h"
#include "proxy/admission.h"
#include "proxy/client/http2_connection.h"

enum {
    FIELDS_MAX = 4, /* of gRPC */
    NUMBER_BYTES = 24,
};

/* Whether the limits denied the request: then that is what the answer says. */
static bool is_denied(const struct exchange *exchange)
{
    const struct decision *decision = &exchange->admission.decision;
    return decision->n_charges > 0 && exchange->admission.lacked == NULL &&
           !exchange->is_decision_pending && decision->status == STATUS_OK && !decision->allowed;
}

/* GRPC_NONE: the answer is one by HTTP. */
static enum grpc_status status_of(const struct exchange *exchange, uint16_t http_status)
{
    return is_denied(exchange) ? admission_grpc_status(&exchange->admission)
                               : grpc_status_of(http_status);
}

bool http2_grpc_maps(const struct http2_request *request, const struct response *response)
{
    return response->fields == NULL && response->status >= 400 &&
           grpc_is_call(&request->exchange->request) &&
           status_of(request->exchange, response->status) != GRPC_NONE;
}

bool http2_grpc_send(struct http2_request *request, const struct response *response)
{
    struct field own[OWN_FIELDS_MAX];
    char code_digits[NUMBER_BYTES];
    char wait_digits[NUMBER_BYTES];
    struct text code = text_of(code_digits, sizeof(code_digits));
    struct text wait = text_of(wait_digits, sizeof(wait_digits));
    struct field grpc[FIELDS_MAX];
    size_t n_own = 0;
    size_t n = 0;
    uint64_t wait_ms;
    for (size_t i = 0; i < response->n_own_fields; i++) {
        const struct field *field = &response->own_fields[i];
        if (field->id != FIELD_CONTENT_LENGTH &&
            !span_equals_ignore_case(field->name, SPAN("content-type"))) {
            own[n_own++] = *field;
        }
    }
    request->client.grpc_status = (uint8_t)status_of(request->exchange, response->status);
    text_add_u64(&code, request->client.grpc_status);
    grpc[n++] = (struct field){.name = SPAN("content-type"), .value = SPAN("application/grpc")};
    grpc[n++] = (struct field){.name = SPAN("grpc-status"), .value = text_span(&code)};
    grpc[n++] =
        (struct field){.name = SPAN("grpc-message"), .value = message_reason(response->status)};
    if (is_denied(request->exchange) &&
        admission_retry_after_ms(&request->exchange->admission, &wait_ms)) {
        text_add_u64(&wait, wait_ms);
        grpc[n++] =
            (struct field){.name = SPAN("grpc-retry-pushback-ms"), .value = text_span(&wait)};
    }
    const struct http2_fields lists[] = {{grpc, n}, {own, n_own}};
    request->exchange->response_bytes = 0; /* the body is not sent */
    return http2_stream_send_head(&request->stream, 200, lists, ARRAY_LEN(lists), true);
}
