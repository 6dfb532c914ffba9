#include "http/grpc.h"

#include "base/compiler.h"

static bool starts_with(struct span media_type, struct span start)
{
    return media_type.len >= start.len &&
           span_equals_ignore_case(span_of(media_type.data, start.len), start);
}

bool grpc_is_type(struct span media_type)
{
    const struct span grpc = SPAN("application/grpc");
    /* For most types all is said by the letter behind "application/". */
    const size_t i_letter = SPAN("application/").len;
    return media_type.len >= grpc.len && ascii_lower(media_type.data[i_letter]) == 'g' &&
           starts_with(media_type, grpc) &&
           (media_type.len == grpc.len || media_type.data[grpc.len] == '+' ||
            media_type.data[grpc.len] == ';');
}

bool grpc_is_like_type(struct span media_type)
{
    return starts_with(media_type, SPAN("application/grpc")) && !grpc_is_type(media_type) &&
           !starts_with(media_type, SPAN("application/grpc-web"));
}

bool grpc_is_call(const struct head *head)
{
    return grpc_is_type(head_find_only(head, SPAN("content-type")));
}

enum grpc_status grpc_status_of(uint16_t http_status)
{
    switch (http_status) {
    case 400:
    case 417:
    case 500:
    case 508:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
    case 501:
        return GRPC_UNIMPLEMENTED;
    case 408:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    case 413:
    case 429:
    case 431:
        return GRPC_RESOURCE_EXHAUSTED;
    default:
        return GRPC_UNKNOWN;
    }
}

uint16_t grpc_http_status(unsigned grpc_status)
{
    static const uint16_t STATUSES[GRPC_STATUSES] = {
        200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401,
    };
    return grpc_status < GRPC_STATUSES ? STATUSES[grpc_status] : 500;
}

enum { PREFIX_BYTES = 5 };

void grpc_messages_take(struct grpc_messages *messages, struct span piece)
{
    while (piece.len > 0) {
        size_t n = 1;
        if (messages->left > 0) {
            n = piece.len < messages->left ? piece.len : messages->left;
            messages->left -= (uint32_t)n;
            messages->has_whole = messages->has_whole || messages->left == 0;
        } else {
            messages->length =
                messages->n_prefix == 0 ? 0 : messages->length << 8 | (unsigned char)piece.data[0];
            messages->n_prefix++;
        }
        if (messages->n_prefix == PREFIX_BYTES) {
            messages->n_prefix = 0;
            messages->left = messages->length;
            messages->has_whole = messages->has_whole || messages->left == 0;
        }
        piece = span_from(piece, n);
    }
}

/* Of one or two digits. */
static unsigned read_status(struct span value)
{
    unsigned status = 0;
    for (size_t i = 0; i < value.len && i < 2; i++) {
        const unsigned digit = (unsigned char)value.data[i] - (unsigned)'0';
        status = digit <= 9 ? status * 10 + digit : GRPC_STATUSES;
    }
    return value.len >= 1 && value.len <= 2 && status < GRPC_STATUSES ? status : GRPC_UNKNOWN;
}

unsigned grpc_find_status(const struct field *fields, size_t n_fields)
{
    for (size_t i = 0; i < n_fields; i++) {
        if (span_equals_ignore_case(fields[i].name, SPAN("grpc-status"))) {
            return read_status(fields[i].value);
        }
    }
    return GRPC_NONE;
}

unsigned grpc_head_status(const struct head *response)
{
    const unsigned status = grpc_find_status(response->fields, response->n_fields);
    return response->status >= 300 || status == GRPC_NONE ? 0 : status;
}

/* Whether @response may have a grpc-status in its head, or the type of gRPC. Every answer is asked:
 * most names are not compared. */
static bool may_be_answer(const struct head *response)
{
    for (size_t i = 0; i < response->n_fields; i++) {
        const struct field *field = &response->fields[i];
        if ((field->name.len == SPAN("grpc-status").len && field->id == FIELD_OTHER) ||
            (field->name.len == SPAN("content-type").len && grpc_is_type(field->value))) {
            return true;
        }
    }
    return false;
}

unsigned grpc_begun_status(const struct head *response)
{
    if (LIKELY(!may_be_answer(response)) || response->status >= 300) {
        return 0;
    }
    const unsigned status = grpc_find_status(response->fields, response->n_fields);
    const bool is_to_come = response->status == 200 && grpc_is_call(response);
    return status == GRPC_NONE && !is_to_come ? 0 : status;
}

uint16_t grpc_answer_status(uint16_t http_status, unsigned grpc_status)
{
    return grpc_status == 0 ? http_status : grpc_http_status(grpc_status);
}

bool grpc_is_binary(struct span name)
{
    const struct span suffix = SPAN("-bin");
    return name.len >= suffix.len &&
           span_equals_ignore_case(span_of(name.data + name.len - suffix.len, suffix.len), suffix);
}

/* 0 to 63; 64: @c is no letter of base64. */
static unsigned value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (unsigned)(c - 'A');
    }
    if (c >= 'a' && c <= 'z') {
        return (unsigned)(c - 'a') + 26;
    }
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0') + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Cut the padding that makes the length of @value a multiple of four. */
static struct span cut_padding(struct span value)
{
    const size_t len = value.len;
    if (len % 4 == 0 && len > 0 && value.data[len - 1] == '=') {
        value.len -= value.data[len - 2] == '=' ? 2 : 1;
    }
    return value;
}

struct span grpc_unpadded(struct span value)
{
    return grpc_is_base64(value) ? cut_padding(value) : value;
}

bool grpc_is_base64(struct span value)
{
    unsigned last = 0;
    value = cut_padding(value);
    for (size_t i = 0; i < value.len; i++) {
        last = value_of(value.data[i]);
        if (last > 63) {
            return false;
        }
    }
    /* Bits of the last letter that are beyond the last byte are 0. */
    switch (value.len % 4) {
    case 0:
        return true;
    case 2:
        return last % 16 == 0;
    case 3:
        return last % 4 == 0;
    default:
        return false;
    }
}
