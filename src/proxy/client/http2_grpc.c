/* Answers of the proxy's own to gRPC calls. A gRPC client reads the status of a call from trailers,
 * and waits as long as grpc-retry-pushback-ms says. The answer is "trailers-only": one head that
 * ends the stream. The exchange, its log line and its metrics keep the HTTP status. */

#include "base/text.h"
#include "http/head_builder.h"
#include "proxy/admission.h"
#include "proxy/client/http2_connection.h"

enum {
    FIELDS_MAX = 4, /* of gRPC */
    NUMBER_BYTES = 24,
};

/* gRPC's codes, https://grpc.io/docs/guides/status-codes/ */
static unsigned code_of(uint16_t status)
{
    switch (status) {
    case 400:
    case 417:
    case 500:
    case 508:
        return 13; /* INTERNAL */
    case 401:
        return 16; /* UNAUTHENTICATED */
    case 403:
        return 7; /* PERMISSION_DENIED */
    case 404:
    case 501:
        return 12; /* UNIMPLEMENTED */
    case 408:
    case 502:
    case 503:
    case 504:
        return 14; /* UNAVAILABLE */
    case 413:
    case 429:
    case 431:
        return 8; /* RESOURCE_EXHAUSTED */
    default:
        return 2; /* UNKNOWN */
    }
}

static bool is_grpc(const struct head *head)
{
    const struct span type = head_find_only(head, SPAN("content-type"));
    const struct span grpc = SPAN("application/grpc");
    return type.len >= grpc.len && span_equals_ignore_case(span_of(type.data, grpc.len), grpc) &&
           (type.len == grpc.len || type.data[grpc.len] == '+' || type.data[grpc.len] == ';');
}

bool http2_grpc_maps(const struct http2_request *request, const struct response *response)
{
    return response->fields == NULL && response->status >= 400 &&
           is_grpc(&request->exchange->request);
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
    text_add_u64(&code, code_of(response->status));
    grpc[n++] = (struct field){.name = SPAN("content-type"), .value = SPAN("application/grpc")};
    grpc[n++] = (struct field){.name = SPAN("grpc-status"), .value = text_span(&code)};
    grpc[n++] =
        (struct field){.name = SPAN("grpc-message"), .value = message_reason(response->status)};
    if (admission_retry_after_ms(&request->exchange->admission, &wait_ms)) {
        text_add_u64(&wait, wait_ms);
        grpc[n++] =
            (struct field){.name = SPAN("grpc-retry-pushback-ms"), .value = text_span(&wait)};
    }
    const struct http2_fields lists[] = {{grpc, n}, {own, n_own}};
    request->exchange->response_bytes = 0; /* the body is not sent */
    return http2_stream_send_head(&request->stream, 200, lists, ARRAY_LEN(lists), true);
}
