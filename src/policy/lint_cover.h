/* Whether one match takes every request that another one would. Exact but for what is told with
 * each: it may say no where the answer is yes, never yes where it is no. */

#ifndef SLUICE_POLICY_LINT_COVER_H
#define SLUICE_POLICY_LINT_COVER_H

#include <stdbool.h>

#include "base/address.h"
#include "base/span.h"
#include "policy/policy.h"

/* Some of the requests of a match: those of one method, and of clients in one prefix. */
struct cover_part {
    struct span method;                  /* empty: any */
    const struct address_prefix *client; /* NULL: any */
};

/* Whether @earlier takes all of what is @part of @later. Several prefixes of @earlier that together
 * make up one of @later are not put together. */
bool cover_takes(const struct route_match *earlier, const struct route_match *later,
                 const struct cover_part *part);

/* Whether the prefix @wide covers all of @narrow. */
bool cover_prefix(const struct address_prefix *wide, const struct address_prefix *narrow);

#endif /* SLUICE_POLICY_LINT_COVER_H */
