/* Heads of requests and responses, parsed in place and strictly: what is ambiguous is refused.
 *
 * A scan holds the line discipline (CR LF alone ends a line, no control byte, no folded line); the
 * start line is read by hand, since llhttp knows a fixed list of methods; llhttp reads the field
 * lines; checks after it hold the meaning (Host, framing, persistence). Rule numbers in the sources
 * are those of docs/http.md.
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
    PARSE_DONE,    /* and *consumed says how many bytes it took */
    PARSE_PARTIAL, /* give the same bytes and more */
    PARSE_BAD,     /* head->error says what is wrong */
};

enum body_kind {
    BODY_NONE,
    BODY_LENGTH, /* head->content_length bytes, >= 1 */
    BODY_CHUNKED,
    BODY_UNTIL_CLOSE, /* responses alone */
};

/* What is wrong with a message. @status is the answer to a client (400, 414, 417, 431, 501, 505 …);
 * upstream messages are answered with 502 whatever it says, and 431 is told of those that are too
 * large alone. */
struct http_error {
    uint16_t status;
    const char *reason; /* static, for people; never quotes the message */
};

struct head {
    /* of a request */
    struct span method;
    enum method_id method_id; /* METHOD_OTHER also where nobody has looked */
    struct target target;     /* split; the path and query as received */
    struct span host;      /* Host's value, or the authority of an absolute target; no port cut off.
                           * Empty in HTTP/1.0 without Host */
    bool expect_continue;  /* 100-continue, in HTTP/1.1 */
    bool is_idempotent;    /* GET, HEAD, OPTIONS, TRACE, PUT, DELETE */
    bool has_max_forwards; /* of TRACE and OPTIONS alone: elsewhere the field means nothing */
    uint64_t max_forwards; /* hops that may follow */

    /* of a response */
    uint16_t status; /* 100 … 599 */
    struct span reason;

    /* of both */
    uint8_t minor; /* of the version: 0 or 1 */
    bool keep_alive;
    bool names_fields; /* Connection has options beside close, keep-alive and upgrade */
    bool has_upgrade;  /* names a protocol in Upgrade, and Connection names Upgrade */
    enum body_kind body;
    uint64_t content_length; /* BODY_LENGTH, or what a bodyless response (HEAD, 304) announced */
    bool has_content_length;
    struct field *fields; /* the caller's array */
    size_t n_fields;
    uint64_t known; /* bit set of the ids that stand among them: see head_has() */

    struct http_error error; /* with PARSE_BAD */
};

/* What the parser remembers between calls, and what it is allowed. */
struct head_parser {
    struct field *fields;  /* the caller's, n_fields_max of them; outlive the head */
    size_t n_fields_max;   /* more: 431 */
    size_t head_bytes_max; /* longer: 431, or 414 when the target alone is too long */
    size_t scanned;        /* bytes known to hold no end of head yet; 0 for a new message */
    size_t line_start;     /* of the line the scan is in */
};

/* Ready for the next message with the same storage. */
void head_parser_reset(struct head_parser *parser);

/* Parse a request's head at the start of @data. Spans in @head point into @data. Empty lines before
 * it are skipped (HEAD_EMPTY_LINES_MAX: more is bad) and counted in *consumed. With PARSE_DONE
 * the parser is ready for the next message. */
MUST_USE enum parse_result head_parse_request(struct head_parser *parser, struct span data,
                                              struct head *head, size_t *consumed);

/* Parse a response's head, in the same way. The answer to a HEAD has no body, whatever its fields
 * say. A 1xx is a message of its own: the caller parses on. */
MUST_USE enum parse_result head_parse_response(struct head_parser *parser, struct span data,
                                               bool is_answer_to_head, struct head *head,
                                               size_t *consumed);

/* Whether a field with this id stands in a head that was parsed. */
static inline bool head_has(const struct head *head, enum field_id id)
{
    return (head->known >> id & 1) != 0;
}

/* The first field with this id, or NULL. */
const struct field *head_find(const struct head *head, enum field_id id);

/* The first field of this name, in any case, or NULL. */
const struct field *head_find_name(const struct head *head, struct span name);

#endif /* SLUICE_HTTP_HEAD_H */
