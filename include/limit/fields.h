/* The RateLimit fields that a client sees: draft-ietf-httpapi-ratelimit-headers-11, Structured
 * Fields (RFC 9651) Lists of Strings, and Retry-After (RFC 9110 section 10.2.3). */

#ifndef SLUICE_LIMIT_FIELDS_H
#define SLUICE_LIMIT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "limit/limit.h"
#include "limit/verdict.h"

/* One member of RateLimit-Policy: `"name";q=100;w=60`; a period that is not whole seconds has no w.
 * Slots are `"name";q=5;qu="concurrent-requests"`. Constant for a limit. Names are checked at load:
 * letters, digits, `.`, `_`, `-`. */
void fields_write_policy(struct text *text, const struct limit *limit);

/* What the parameters of RateLimit are called: the working group is about to rename them, and to
 * add the cost of the request. */
enum fields_draft {
    FIELDS_DRAFT_11,
    FIELDS_DRAFT_NEXT,
};

/* One member of RateLimit: `"name";r=17;t=1`; the time, rounded up, is left out when 0, and where
 * nobody can tell it: of slots. */
void fields_write_state(struct text *text, enum fields_draft draft, const struct limit *limit,
                        const struct verdict *verdict, uint32_t cost);

/* What X-RateLimit-Limit, -Remaining and -Reset say. They tell of one limit alone. */
struct fields_legacy {
    uint64_t limit;
    uint64_t remaining;
    uint64_t reset_s; /* until it is untouched, rounded up */
};
struct fields_legacy fields_legacy_of(const struct limit *limit, const struct verdict *verdict);

/* Whether @a is nearer to its end than @b: a smaller part of it remains, or as small a one for
 * longer. */
bool fields_is_nearer(const struct fields_legacy *a, const struct fields_legacy *b);

/* Seconds for Retry-After of one limit that denied: whole, rounded up, at least 1, never beyond
 * reset_after plus a second. False, and *seconds untouched, when waiting cannot help or
 * nobody knows how long. */
MUST_USE bool fields_retry_after_s(const struct limit *limit, const struct verdict *verdict,
                                   uint64_t *seconds);

#endif /* SLUICE_LIMIT_FIELDS_H */
