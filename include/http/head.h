/* Parser for heads of requests and responses. It works in place and is strict: ambiguous input is
 * refused.
 *
 * A scan enforces the line rules (only CR LF ends a line, no control byte, no folded line). Then
 * the start line and the field lines are read, and checks enforce the meaning (Host, framing,
 * persistence). Rule numbers in the sources are those of docs/http.md.
 *
 * Source: RFC 9112 sections 2 to 6, RFC 9110 sections 5 to 8. */

#ifndef SLUICE_HTTP_HEAD_H
#define SLUICE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "http/field.h"
#include "http/method.h"
#include "http/target.h"

enum parse_result {
    PARSE_DONE,    /* *consumed is the number of bytes read */
    PARSE_PARTIAL, /* call again with the same bytes and more */
    PARSE_BAD,     /* see head->error */
};

enum body_kind {
    BODY_NONE,
    BODY_LENGTH, /* head->content_length bytes, >= 1 */
    BODY_CHUNKED,
    BODY_UNTIL_CLOSE, /* responses alone */
};

/* Why a message is refused. @status is the answer to a client (400, 414, 417, 431, 501, 505 …). For
 * an upstream message the client gets 502 whatever @status is; there 431 means that the head has
 * too many bytes, or, if fields were read, too many of these. */
struct http_error {
    uint16_t status;
    const char *reason; /* static, for people; never quotes the message */
    /* Of a response that is well-formed up to a control byte in the value of a field, or in the
     * reason phrase, where a server may repeat what a client has sent. */
    bool is_in_value;
    bool is_of_count; /* too many fields; else a head of 431 has too many bytes */
};

struct head {
    /* of a request */
    struct span method;
    enum method_id method_id; /* METHOD_OTHER also if it was not looked up */
    struct target target;     /* the parts; path and query as received */
    /* value of Host, or the authority of an absolute target, port included. Empty in HTTP/1.0
     * without Host */
    struct span host;
    bool expect_continue;  /* 100-continue, in HTTP/1.1 */
    bool is_idempotent;    /* GET, HEAD, OPTIONS, TRACE, PUT, DELETE */
    bool has_max_forwards; /* for TRACE and OPTIONS only: ignored in other requests */
    uint64_t max_forwards; /* remaining hops */

    /* of a response */
    uint16_t status; /* 100 … 599 */
    struct span reason;

    /* of both */
    uint8_t minor; /* of the version: 0 or 1 */
    bool keep_alive;
    bool names_fields; /* Connection has options other than close, keep-alive and upgrade */
    bool has_upgrade;  /* Upgrade names a protocol, and Connection names Upgrade */
    enum body_kind body;
    uint64_t content_length; /* of BODY_LENGTH, or announced without a body (HEAD, 304) */
    bool has_content_length;
    struct field *fields; /* the caller's array */
    size_t n_fields;
    uint64_t known; /* bit set of the ids of these fields: see head_has() */

    struct http_error error; /* with PARSE_BAD */
};

/* The state of the parser between calls, and its limits. */
struct head_parser {
    struct field *fields;  /* the caller's, n_fields_max of them; must outlive the head */
    size_t n_fields_max;   /* more: 431 */
    size_t head_bytes_max; /* longer: 431, or 414 when the target alone is too long */
    size_t scanned;        /* bytes already searched for the end of the head; 0 for a new message */
    size_t line_start;     /* of the line that the scan has reached */
    size_t start_line_end; /* with its LF; valid once the scan has passed it */
    size_t n_lines;        /* field lines that the scan has passed; valid likewise */
};

/* Prepare for the next message with the same storage. */
void head_parser_reset(struct head_parser *parser);

/* Parse a request head at the start of @data. Spans in @head point into @data. Up to
 * HEAD_EMPTY_LINES_MAX empty lines before it are skipped and counted in *consumed; more are an
 * error. After PARSE_DONE the parser is ready for the next message. */
MUST_USE enum parse_result head_parse_request(struct head_parser *parser, struct span data,
                                              struct head *head, size_t *consumed);

/* Parse a response head in the same way. The answer to a HEAD request has no body, whatever its
 * fields say. A 1xx response is a separate message: the caller calls again. */
MUST_USE enum parse_result head_parse_response(struct head_parser *parser, struct span data,
                                               bool is_answer_to_head, struct head *head,
                                               size_t *consumed);

/* Whether a parsed head has a field with this id. */
static inline bool head_has(const struct head *head, enum field_id id)
{
    return (head->known >> id & 1) != 0;
}

/* The first field with this id, or NULL. */
const struct field *head_find(const struct head *head, enum field_id id);

/* The first field with this name, or NULL; case is ignored. */
const struct field *head_find_name(const struct head *head, struct span name);

/* The value of the only field with this name; empty: there is none, or several. */
struct span head_find_only(const struct head *head, struct span name);

#endif /* SLUICE_HTTP_HEAD_H */
