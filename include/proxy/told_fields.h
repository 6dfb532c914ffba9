/* The fields that tell a client of its limits: in the form that the policy chooses. */

#ifndef SLUICE_PROXY_TOLD_FIELDS_H
#define SLUICE_PROXY_TOLD_FIELDS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "http/field.h"
#include "policy/policy.h"
#include "proxy/admission.h"

enum { TOLD_FIELDS_MAX = 5 };

/* Fill @fields, TOLD_FIELDS_MAX of them, with what is told of @admission, which was decided under
 * @route; returns how many. Values live in @arena; without memory they are empty. */
MUST_USE size_t told_fields_make(const struct admission *admission, const struct route *route,
                                 enum headers_style style, struct arena *arena,
                                 struct field *fields);

#endif /* SLUICE_PROXY_TOLD_FIELDS_H */
