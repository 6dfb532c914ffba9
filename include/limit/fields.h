/* The RateLimit fields that a client sees: draft-ietf-httpapi-ratelimit-headers-11, Structured
 * Fields (RFC 9651) Lists of Strings, and Retry-After (RFC 9110 section 10.2.3). */

#ifndef SLUICE_LIMIT_FIELDS_H
#define SLUICE_LIMIT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "limit/limit.h"
#include "limit/verdict.h"

/* One member of RateLimit-Policy: `"name";q=100;w=60`; w, rounded up, is left out below a second.
 * Slots are `"name";q=5;qu="concurrent-requests"`. Constant for a limit. Names are checked at load:
 * letters, digits, `.`, `_`, `-`. */
void fields_write_policy(struct text *text, const struct limit *limit);

/* One member of RateLimit: `"name";r=17;t=1`; t, rounded up, is left out when 0. */
void fields_write_state(struct text *text, const struct limit *limit,
                        const struct verdict *verdict);

/* Seconds for Retry-After of one limit that denied: whole, rounded up, at least 1, never beyond
 * reset_after plus a second. False, and *seconds untouched, when waiting cannot help or
 * nobody knows how long. */
MUST_USE bool fields_retry_after_s(const struct limit *limit, const struct verdict *verdict,
                                   uint64_t *seconds);

#endif /* SLUICE_LIMIT_FIELDS_H */
