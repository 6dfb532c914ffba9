/* A response that sluice gives itself: to a denied request, to one that lacks its key, or of a
 * route without an upstream. */

#ifndef SLUICE_POLICY_REPLY_SPEC_H
#define SLUICE_POLICY_REPLY_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct field_setting; /* policy/edits.h */

struct reply_spec {
    uint16_t status;
    bool has_values; /* the body or a field contains a value of the request, as {limit} */
    bool to_https;   /* Location is the URL of the request with the scheme https */
    struct span body;
    struct span content_type;
    struct span location; /* of a redirect elsewhere; the request's query follows if it has none */
    const struct field_setting *set; /* in the order of the file, <= REPLY_SETS_MAX */
    size_t n_set;
};

/* What stands for a word in braces. All values are of letters, digits and -._~+/=:@ alone, so they
 * need no escape in JSON, HTML or a field. */
enum reply_value {
    REPLY_VALUE_LIMIT,      /* {limit}: the name of the limit that denies */
    REPLY_VALUE_WAIT,       /* {wait}: seconds until a request may pass; null: unknown */
    REPLY_VALUE_REQUEST_ID, /* {request_id}: as in the access log */
    REPLY_VALUE_NONE,       /* an unknown word */
};

/* Find the first word in braces, {a-z_}, of *rest. Set *before to what stands before it, *rest to
 * what stands behind it, and *value. False: there is none, and *before is all of *rest. */
bool reply_next_value(struct span *rest, struct span *before, enum reply_value *value);

#endif /* SLUICE_POLICY_REPLY_SPEC_H */
