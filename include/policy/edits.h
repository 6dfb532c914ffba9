/* Changes that a route makes: a stripped path prefix, request fields, response fields; and the
 * answers that sluice gives itself. */

#ifndef SLUICE_POLICY_EDITS_H
#define SLUICE_POLICY_EDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/field.h"
#include "policy/key.h"

struct field_setting; /* policy/edits.h */
struct route;

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

/* Set *left to the path that the upstream of @route receives for @request: the client's bytes
 * without the prefix that the route strips, at least "/". Its normalised form is the matched path
 * without the prefix. @buffer has room for target.path.len + 1 bytes. Returns NULL, or a static
 * phrase that says why the path is refused. */
MUST_USE const char *edits_strip_prefix(const struct route *route,
                                        const struct request_view *request, char *buffer,
                                        struct span *left);

/* --- the answers that sluice gives itself --- */

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

#endif /* SLUICE_POLICY_EDITS_H */
