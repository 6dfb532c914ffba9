/* Changes that a route makes: a stripped path prefix, request fields, response fields. */

#ifndef SLUICE_POLICY_EDITS_H
#define SLUICE_POLICY_EDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/field.h"
#include "policy/key.h"

struct field_setting {
    struct span name;
    struct span value;
    bool is_claim;  /* the value is that of a claim, and the field is left out if it is missing */
    uint16_t claim; /* index of the policy's claims */
};

/* Field changes in one direction. Names are case-insensitive. */
struct field_edits {
    struct field_setting *set; /* in the order of the file */
    size_t n_set;
    size_t n_claims;    /* of them */
    uint64_t known;     /* bit set of ids of fields that are set or removed */
    struct span *names; /* names of such fields without an id */
    size_t n_names;
    bool folds_names; /* of requests: spellings that servers fold into a name are dropped too */
};

struct route_edits {
    struct span prefix; /* stripped from the path; "/a/b", normalised; empty: none */
    struct field_edits request;
    struct field_edits response;
};

/* Whether the received @field is dropped, because the route removes or replaces it. */
bool field_edits_drop(const struct field_edits *edits, const struct field *field);

/* Whether fields named @name are removed and not replaced. For `explain`. */
bool field_edits_removes(const struct field_edits *edits, struct span name);

struct route;

/* Set *left to the path that the upstream of @route receives for @request: the client's bytes
 * without the prefix that the route strips, at least "/". Its normalised form is the matched path
 * without the prefix. @buffer has room for target.path.len + 1 bytes. Returns NULL, or a static
 * phrase that says why the path is refused. */
MUST_USE const char *edits_strip_prefix(const struct route *route,
                                        const struct request_view *request, char *buffer,
                                        struct span *left);

#endif /* SLUICE_POLICY_EDITS_H */
