/* The methods that a policy names and the registry does not have, and what becomes of requests
 * whose method is neither. */

#ifndef SLUICE_POLICY_METHOD_NAMES_H
#define SLUICE_POLICY_METHOD_NAMES_H

#include "base/compiler.h"
#include "policy/policy.h"

/* What counts for @method in keys: itself where it is registered or @policy names it, else one
 * value for all others, which no method can have. Returns NULL, or why a request with it is
 * refused: it is a known one but for its case, and servers that fold the case would take it for
 * that. The text lives as long as @policy. */
MUST_USE const char *method_names_read(const struct policy *policy, struct span method,
                                       struct span *counted);

#endif /* SLUICE_POLICY_METHOD_NAMES_H */
