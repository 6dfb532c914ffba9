/* The RateLimit fields of a response: draft-ietf-httpapi-ratelimit-headers-11, Structured
 * Fields (RFC 9651) Lists of Strings, and Retry-After (RFC 9110 section 10.2.3). */

#ifndef SLUICE_LIMIT_FIELDS_H
#define SLUICE_LIMIT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "limit/limit.h"

/* One member of RateLimit-Policy: `"name";q=100;w=60`; a period that is not whole seconds has no w.
 * Slots are `"name";q=5;qu="concurrent-requests"`. Constant for a limit. Names are checked at load:
 * letters, digits, `.`, `_`, `-`. */
void fields_write_policy(struct text *text, const struct limit *limit);

/* Names of the parameters of RateLimit. The working group plans to rename them and to add the cost
 * of the request. */
enum fields_draft {
    FIELDS_DRAFT_11,
    FIELDS_DRAFT_NEXT,
};

/* One member of RateLimit: `"name";r=17;t=1`. The time is rounded up; it is left out when it is 0
 * or unknown, as for slots. */
void fields_write_state(struct text *text, enum fields_draft draft, const struct limit *limit,
                        const struct verdict *verdict, uint32_t cost);

/* Values of X-RateLimit-Limit, -Remaining and -Reset. They describe one limit. */
struct fields_legacy {
    uint64_t limit;
    uint64_t remaining;
    uint64_t reset_s; /* until it is untouched, rounded up */
};
struct fields_legacy fields_legacy_of(const struct limit *limit, const struct verdict *verdict);

/* Whether @a is closer to exhaustion than @b: a smaller fraction remains, or an equal one with a
 * longer reset time. */
bool fields_is_nearer(const struct fields_legacy *a, const struct fields_legacy *b);

/* Seconds for Retry-After of one limit that denied: whole, rounded up, at least 1, at most
 * reset_after plus a second. False, and *seconds untouched: waiting cannot help, or the time is
 * unknown. */
MUST_USE bool fields_retry_after_s(const struct limit *limit, const struct verdict *verdict,
                                   uint64_t *seconds);

#endif /* SLUICE_LIMIT_FIELDS_H */
