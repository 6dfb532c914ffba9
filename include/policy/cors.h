/* Which pages of other origins may use a route, as browsers ask: the CORS protocol of
 * https://fetch.spec.whatwg.org/#http-cors-protocol. */

#ifndef SLUICE_POLICY_CORS_H
#define SLUICE_POLICY_CORS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

struct cors {
    struct span *origins; /* as browsers send them; compared byte by byte */
    size_t n_origins;
    bool any_origin;     /* "*" */
    bool credentials;    /* never with any_origin */
    struct span methods; /* values of the fields of an answer; empty: the field is left out */
    struct span headers;
    struct span max_age;
    struct span exposed;     /* of sluice's own answers: own_exposed, and what the policy exposes */
    struct span own_exposed; /* the fields that sluice adds to the upstream's answers */
};

#endif /* SLUICE_POLICY_CORS_H */
