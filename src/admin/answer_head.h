/* The head of an answer of the admin API. */

#ifndef SLUICE_ADMIN_ANSWER_HEAD_H
#define SLUICE_ADMIN_ANSWER_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/request.h"
#include "base/span.h"
#include "http/head.h"

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

#endif /* SLUICE_ADMIN_ANSWER_HEAD_H */
