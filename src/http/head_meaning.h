/* What the parts of a head mean for its message: the version, where the body ends, whether the
 * connection goes on, which fields stay on this hop. The same for requests and responses; each
 * returns false with head->error.
 *
 * Source: RFC 9112 sections 2.3, 6 and 9, RFC 9110 sections 2.5 and 7.6.1. */

#ifndef SLUICE_HTTP_HEAD_MEANING_H
#define SLUICE_HTTP_HEAD_MEANING_H

#include <stdbool.h>

#include "base/compiler.h"
#include "http/head.h"
#include "http/head_fields.h"

/* "HTTP/1.1" */
enum { VERSION_BYTES = 8 };

/* Set head->minor: 0 or 1; a later minor is read as 1. 400 when malformed, 505 for another
 * major. */
MUST_USE bool head_read_version(struct head *head, struct span version);

/* Set head->body, content_length and has_content_length from Content-Length and Transfer-Encoding;
 * BODY_NONE without either. head->minor is known. */
MUST_USE bool head_read_framing(struct head *head, const struct head_index *index);

/* Set head->keep_alive and has_upgrade, and mark the fields that stay on this hop. head->minor is
 * known. */
MUST_USE bool head_read_connection(struct head *head, const struct head_index *index);

/* Set head->error; returns false, for the caller to return. */
bool head_refuse(struct head *head, uint16_t status, const char *reason);

#endif /* SLUICE_HTTP_HEAD_MEANING_H */
