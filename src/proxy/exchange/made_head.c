#include "proxy/exchange/made_head.h"

#include "http/grpc.h"
#include "http/head.h"

enum { PACKED_NOTHING_BYTES_MAX = 20 }; /* by gzip; "{}" has 22 */

enum made_head made_head_of(const struct head *response)
{
    const uint16_t status = response->status;
    if (status < 200 || status >= 300 || status == 204 || status == 205 ||
        head_find_name(response, SPAN("content-type")) == NULL || grpc_is_call(response) ||
        grpc_find_status(response->fields, response->n_fields) != GRPC_NONE) {
        return MADE_HEAD_NONE;
    }
    const bool is_packed = head_find_name(response, SPAN("content-encoding")) != NULL;
    const enum made_head kind = is_packed ? MADE_HEAD_PACKED : MADE_HEAD_PLAIN;
    return !response->has_content_length || made_head_is_empty(kind, response->content_length)
               ? kind
               : MADE_HEAD_NONE;
}

bool made_head_is_empty(enum made_head kind, uint64_t body_bytes)
{
    switch (kind) {
    case MADE_HEAD_PLAIN:
        return body_bytes == 0;
    case MADE_HEAD_PACKED:
        return body_bytes <= PACKED_NOTHING_BYTES_MAX;
    case MADE_HEAD_NONE:
        break;
    }
    return false;
}
