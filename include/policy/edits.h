/* What a route changes on the way: the start of the path, fields of
 * requests, fields of responses. */

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
};

/* Changes of one direction. Names count in any case. */
struct field_edits {
    struct field_setting *set; /* in the order of the file */
    size_t n_set;
    uint64_t known;     /* bit set of the ids that do not pass: fields that are set or removed */
    struct span *names; /* likewise, of fields without an id */
    size_t n_names;
};

struct route_edits {
    struct span prefix; /* taken off the path; "/a/b", normalised; empty: none */
    struct field_edits request;
    struct field_edits response;
};

/* Whether @field, as it came, does not pass: it is removed, or another is set in its place. */
bool field_edits_drop(const struct field_edits *edits, const struct field *field);

/* Whether fields called @name are removed, and none is set in their
 * place. For those who explain. */
bool field_edits_removes(const struct field_edits *edits, struct span name);

struct route;

/* The path that the upstream of @route gets in place of the one of @request, which led there:
 * without the prefix that the route strips, the client's bytes otherwise; at least "/". It is,
 * normalised, the path that was matched without the prefix. @buffer has room for target.path.len +
 * 1 bytes. Returns NULL, or a static phrase: why the path is refused. */
MUST_USE const char *edits_strip_prefix(const struct route *route,
                                        const struct request_view *request, char *buffer,
                                        struct span *left);

#endif /* SLUICE_POLICY_EDITS_H */
