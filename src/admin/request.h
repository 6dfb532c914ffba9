/* One request to the admin API, for its resource, and the functions that answer it.
 *
 * A handler answers once, with one of the functions below, before it returns or later from the
 * loop. In the latter case it sets on_gone, which is called instead if the client is gone; the
 * request is invalid after that call.
 *
 * A resource that receives a body (ADMIN_RECEIVES) is asked before the body has come. Unless it
 * answers at once it sets on_piece and on_body_end, too. It may answer before the end of the body,
 * the rest of which is then ignored. */

#ifndef SLUICE_ADMIN_REQUEST_H
#define SLUICE_ADMIN_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/chunked.h"
#include "http/head.h"
#include "policy/policy.h"

enum {
    ADMIN_CAPTURES_MAX = 4,
    ADMIN_PATH_BYTES_MAX = 4096,
    ADMIN_BODY_BYTES_MAX = 16 * 1024,
    ADMIN_RECEIVED_BYTES_MAX = 64 * 1024 * 1024,
    ADMIN_DETAIL_BYTES_MAX = 512,
    ADMIN_BY_BYTES_MAX = 48,
    ADMIN_ETAG_BYTES_MAX = 256,
};

struct admin;
struct page_body;
struct page_file;

struct admin_request {
    struct admin *admin;
    const struct policy *policy;              /* valid and constant during the request */
    struct span method;                       /* GET for a HEAD */
    struct span captures[ADMIN_CAPTURES_MAX]; /* of the resource's path, in order, decoded */
    struct span query;                        /* as received */
    struct span body;                         /* the whole body */
    bool takes_gzip;                          /* the client does */
    char known_etag[ADMIN_ETAG_BYTES_MAX];    /* If-None-Match; NUL-terminated, "": none */
    char by[ADMIN_BY_BYTES_MAX];              /* the author, one word; NUL-terminated */
    bool may_change;                          /* the author may change things, too */

    /* Set by a handler that has not answered yet. */
    void (*on_gone)(struct admin_request *request);
    void *context;
    bool watches_client; /* on_gone as soon as the client closes its side, not with the answer */

    /* Set by a handler that receives the body. */
    bool (*on_piece)(struct admin_request *request, struct span piece); /* false: no more for now */
    void (*on_body_end)(struct admin_request *request);
    void (*on_resume)(struct admin_request *request); /* set by the connection: more can come */

    /* The answer. */
    bool is_answered;
    uint16_t status;
    uint16_t retry_after_s;   /* 0: not said */
    struct span content_type; /* static */
    char *content;            /* owned; of malloc */
    size_t content_bytes;
    const struct page_file *page;         /* in place of content; NULL: it is content */
    bool is_stream;                       /* more lines follow the content */
    struct span allow;                    /* with 405; static */
    char outcome[ADMIN_DETAIL_BYTES_MAX]; /* for the audit: a change's effect or its failure */
    void (*on_answer)(struct admin_request *request); /* set by the connection */
};

/* Answer with @json, which is taken over; NULL: no memory, answered with 503. */
void answer_json(struct admin_request *request, uint16_t status, json_t *json);

/* Answer with @content, of malloc, which is taken over; @content_type is static. */
void answer_content(struct admin_request *request, uint16_t status, struct span content_type,
                    char *content, size_t content_bytes);

/* Of request->page, as the client takes it. */
const struct page_body *request_page_body(const struct admin_request *request);

/* Answer with @file, or with 304 where the client has it. */
void answer_page(struct admin_request *request, const struct page_file *file);

/* Answer with lines that come one after the other until the client leaves: @content, of malloc,
 * which is taken over, and what admin_viewers_send() sends. The request ends with the first. */
void answer_stream(struct admin_request *request, struct span content_type, char *content,
                   size_t content_bytes);

/* Answer with a problem document (RFC 9457). @format gives its detail, for people: the fault and
 * the remedy. It may contain untrusted text. NULL: no detail. */
void answer_problem(struct admin_request *request, uint16_t status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Answer with a problem document that also has the members of @json, which is taken over. */
void answer_problem_with(struct admin_request *request, uint16_t status, json_t *json,
                         const char *detail);

/* Set the outcome for the audit: a change's effect or its failure. Call it before control returns
 * to the loop; the last call wins. */
void answer_note(struct admin_request *request, const char *format, ...) PRINTF_LIKE(2, 3);

/* For on_gone: hand the policy to the caller, which gives it back when the operation that uses it
 * has ended. */
MUST_USE const struct policy *request_keep_policy(struct admin_request *request);

/* The body as a JSON object; an empty object if there is no body. NULL: the body is not a JSON
 * object, and the request was answered with 400 and the reason. The caller frees it with
 * json_decref(). */
MUST_USE json_t *request_read_object(struct admin_request *request);

/* The value of @name in the query, decoded into @buffer; false: it is absent. */
MUST_USE bool request_find_query(const struct admin_request *request, struct span name,
                                 char *buffer, size_t capacity, struct span *value);

/* The text of @json, which is released, with a line end behind it: of malloc, without a NUL. @flags
 * are jansson's. NULL: no memory, or @json is NULL. */
MUST_USE char *json_dump_line(json_t *json, size_t flags, size_t *bytes);

/* @span as a JSON string; invalid UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *json_of_span(struct span span);

/* The head of an answer of the admin API. */

enum { ANSWER_HEAD_BYTES = 1024 };

/* What the connection says of it. */
struct answer_head {
    bool keep_alive;
    uint8_t minor; /* of the request's version: HTTP/1.MINOR */
};

/* Write the head of the answer in @request to @buffer, of ANSWER_HEAD_BYTES. */
struct span answer_head_write(const struct admin_request *request, const struct answer_head *answer,
                              char *buffer);

/* The content that follows the head; of a stream, its first line. */
struct span answer_content_of(const struct admin_request *request);

/* Keep what @head says of the form of the answer. */
void request_keep_preferences(struct admin_request *request, const struct head *head);

/* The body of one request to the admin API: its framing and its bound. */

struct body_reader {
    enum body_kind kind;
    uint64_t left; /* BODY_LENGTH */
    struct chunked_decoder decoder;
    uint64_t bytes;     /* of content, so far */
    uint64_t bytes_max; /* of content */
};

/* Begin the body of @head. False: it is known to be longer than @bytes_max. */
MUST_USE bool body_reader_begin(struct body_reader *reader, const struct head *head,
                                uint64_t bytes_max);

/* Read the content of @data, in place. *content is within it; *consumed bytes of it were used, all
 * unless the body ended. PARSE_DONE: the body has ended. PARSE_PARTIAL: more is needed. PARSE_BAD:
 * see *error; 413 where there is more than bytes_max. */
MUST_USE enum parse_result body_reader_take(struct body_reader *reader, struct span data,
                                            struct span *content, size_t *consumed,
                                            struct http_error *error);

#endif /* SLUICE_ADMIN_REQUEST_H */
