/* What a captured segment of a path is: `{id:int}`, `{id:uuid}`.
 *
 * Servers that make a number or a UUID of a segment take several spellings for one value. Such a
 * segment has one spelling here; a request with another one is refused, so that it neither counts
 * in another bucket nor goes on to a laxer route.
 *
 * Source: Flask's and Django's converters, Python's int() and uuid.UUID(), Go's strconv.Atoi(),
 * JavaScript's parseInt(), PHP's casts, the UUIDs of PostgreSQL. */

#ifndef SLUICE_POLICY_CAPTURE_TYPE_H
#define SLUICE_POLICY_CAPTURE_TYPE_H

#include <stdbool.h>

#include "base/span.h"
#include "policy/policy.h"

/* The type that a policy calls @word; false: there is none. */
bool capture_type_parse(struct span word, enum capture_type *type);

/* The word of a policy; empty for CAPTURE_TEXT. */
struct span capture_type_word(enum capture_type type);

/* Whether @found, a segment of a normalised path, is of @type as it is written once: a decimal
 * number of at most 19 digits without sign and leading zeros, a UUID of 8-4-4-4-12 digits in lower
 * case. */
bool capture_type_is_canonical(enum capture_type type, struct span found);

/* Whether some server may read a value of @type from @found. */
bool capture_type_may_be(enum capture_type type, struct span found);

#endif /* SLUICE_POLICY_CAPTURE_TYPE_H */
