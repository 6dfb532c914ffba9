/* gRPC, as far as HTTP shows it: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */

#ifndef SLUICE_HTTP_GRPC_H
#define SLUICE_HTTP_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "http/head.h"

/* The statuses of calls that are used here. */
enum grpc_status {
    GRPC_UNKNOWN = 2,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
    GRPC_STATUSES = 17, /* 0 to 16 */
    GRPC_NONE = 17,     /* a call without a status */
};

/* Whether @media_type is that of gRPC: "application/grpc", alone or followed by "+" or ";". That of
 * gRPC-Web is not. */
bool grpc_is_type(struct span media_type);

/* Whether @media_type begins as that of gRPC and is neither it nor that of gRPC-Web: servers that
 * compare the start alone run such a call. */
bool grpc_is_like_type(struct span media_type);

/* Whether the request is a gRPC call, or the response to one, by its only Content-Type. */
bool grpc_is_call(const struct head *head);

/* The status in the head of @response, which an answer of gRPC without messages has there, of
 * gateways with 204 too; 0: none, or no error. */
unsigned grpc_head_status(const struct head *response);

/* The same, but GRPC_NONE where @response is of gRPC and its trailers are to have the status. */
unsigned grpc_begun_status(const struct head *response);

/* The HTTP status that an answer of @http_status with @grpc_status stands for. 0: none, or OK. */
uint16_t grpc_answer_status(uint16_t http_status, unsigned grpc_status);

/* The status of a call that an HTTP status from 400 on ends. */
enum grpc_status grpc_status_of(uint16_t http_status);

/* The HTTP status for @grpc_status, 500 for what is none:
 * https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto */
uint16_t grpc_http_status(unsigned grpc_status);

/* The value of the field grpc-status among @fields: 0 to 16, or GRPC_UNKNOWN for any other value.
 * GRPC_NONE: there is no such field. */
unsigned grpc_find_status(const struct field *fields, size_t n_fields);

/* Whether a field called @name has binary values: it ends in "-bin". */
bool grpc_is_binary(struct span name);

/* Whether @value is one that a server of gRPC can decode: base64 without or with its padding. */
bool grpc_is_base64(struct span value);

/* @value without its padding, which makes no difference to servers of gRPC. What grpc_is_base64()
 * does not take stays as it is. */
struct span grpc_unpadded(struct span value);

/* Where a body is among the messages of a call. Each has a prefix: a flag, and its length in 4
 * bytes. */
struct grpc_messages {
    uint8_t n_prefix; /* bytes of a prefix that is not whole yet */
    uint32_t length;  /* of these bytes, without the flag */
    uint32_t left;    /* bytes of a message whose prefix is whole */
    bool has_whole;   /* a message, at least one */
};

/* The next bytes of the body. */
void grpc_messages_take(struct grpc_messages *messages, struct span piece);

/* Whether a message has begun that is not whole. */
static inline bool grpc_messages_is_inside(const struct grpc_messages *messages)
{
    return messages->n_prefix > 0 || messages->left > 0;
}

#endif /* SLUICE_HTTP_GRPC_H */
