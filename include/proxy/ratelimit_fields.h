/* The response fields that report the limits, in the form that the policy chooses. */

#ifndef SLUICE_PROXY_RATELIMIT_FIELDS_H
#define SLUICE_PROXY_RATELIMIT_FIELDS_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "http/field.h"
#include "policy/policy.h"
#include "proxy/admission.h"

enum { RATELIMIT_FIELDS_MAX = 5 };

/* Fill @fields, an array of RATELIMIT_FIELDS_MAX, with the report on @admission, which was decided
 * under @route. Returns the number of fields. Values live in @arena; without memory they are
 * empty. */
MUST_USE size_t ratelimit_fields_make(const struct admission *admission, const struct route *route,
                                      enum headers_style style, struct arena *arena,
                                      struct field *fields);

#endif /* SLUICE_PROXY_RATELIMIT_FIELDS_H */
