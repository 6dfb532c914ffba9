/* One request to the admin API as its resource sees it, and how it is answered.
 *
 * A handler answers once, with one of the functions below: before it returns, or later from the
 * loop; then it sets on_gone, which is called instead when nobody waits any more, and after
 * which the request is gone. */

#ifndef SLUICE_ADMIN_REQUEST_H
#define SLUICE_ADMIN_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "policy/policy.h"

enum {
    ADMIN_CAPTURES_MAX = 4,
    ADMIN_PATH_BYTES_MAX = 4096,
    ADMIN_BODY_BYTES_MAX = 16 * 1024,
    ADMIN_DETAIL_BYTES_MAX = 512,
    ADMIN_BY_BYTES_MAX = 48,
};

struct admin;

struct admin_request {
    struct admin *admin;
    const struct policy *policy;              /* as it is for as long as the request lasts */
    struct span method;                       /* GET for a HEAD */
    struct span captures[ADMIN_CAPTURES_MAX]; /* of the resource's path, in order, decoded */
    struct span query;                        /* as received */
    struct span body;                         /* what was sent, in full */
    char by[ADMIN_BY_BYTES_MAX];              /* who asks, a word; NUL-terminated */

    /* The handler's, while it has not answered. */
    void (*on_gone)(struct admin_request *request);
    void *context;

    /* The answer. */
    bool is_answered;
    uint16_t status;
    struct span content_type; /* static */
    char *content;            /* owned; of malloc */
    size_t content_bytes;
    struct span allow;                    /* with 405; static */
    char outcome[ADMIN_DETAIL_BYTES_MAX]; /* for the audit: what a change has done, or why not */
    void (*on_answer)(struct admin_request *request); /* the connection's */
};

/* Answer with @json, which is taken over; NULL: there was no memory for it, which is a 503. */
void answer_json(struct admin_request *request, uint16_t status, json_t *json);

/* Answer with @content, of malloc, which is taken over; @content_type is static. */
void answer_content(struct admin_request *request, uint16_t status, struct span content_type,
                    char *content, size_t content_bytes);

/* Answer with no content: 204. */
void answer_nothing(struct admin_request *request);

/* Answer with a problem document (RFC 9457) whose detail is @format's, for people: what is wrong
 * and what to do. Text from outside may be in it. A NULL @format: nothing is said. */
void answer_problem(struct admin_request *request, uint16_t status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* The same with the members of @json, which is taken over, beside those of a problem. */
void answer_problem_with(struct admin_request *request, uint16_t status, json_t *json,
                         const char *detail);

/* For the audit: what a change has done, or why it has not. Before the loop
 * goes on; the latest counts. */
void answer_note(struct admin_request *request, const char *format, ...) PRINTF_LIKE(2, 3);

/* For on_gone: the policy is the caller's now, to be given back when what was
 * begun under it has ended. */
MUST_USE const struct policy *request_keep_policy(struct admin_request *request);

/* The body as a JSON object; without one, an empty object. NULL: it is none, and the request was
 * answered with a 400 that says why. The caller's, of json_decref(). */
MUST_USE json_t *request_read_object(struct admin_request *request);

/* The value of @name in the query, decoded, in @buffer; false: it is not there. */
MUST_USE bool request_find_query(const struct admin_request *request, struct span name,
                                 char *buffer, size_t capacity, struct span *value);

/* @span as a JSON string; bytes that are no UTF-8 become U+FFFD. NULL: no memory. */
json_t *json_of_span(struct span span);

#endif /* SLUICE_ADMIN_REQUEST_H */
