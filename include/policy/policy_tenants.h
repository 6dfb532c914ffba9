/* What a policy says of tenants, for those who set their plans. */

#ifndef SLUICE_POLICY_POLICY_TENANTS_H
#define SLUICE_POLICY_POLICY_TENANTS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/key.h"
#include "policy/policy.h"

/* Parse @written as key_parse() does, under the key of the first limit that looks for tenants and
 * takes it. False: none does, and @problem is that of the first, or empty: there is none. */
MUST_USE bool policy_parse_tenant(const struct policy *policy, struct span written,
                                  struct key_given *given, struct text *problem);

/* Whether a limit that looks for tenants has a plan named @name. */
bool policy_has_tenant_plan(const struct policy *policy, struct span name);

#endif /* SLUICE_POLICY_POLICY_TENANTS_H */
