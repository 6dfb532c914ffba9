/* Plans: other numbers that a limit has for some keys. */

#ifndef SLUICE_POLICY_PLANS_H
#define SLUICE_POLICY_PLANS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "limit/limit.h"
#include "policy/key.h"

struct policy;

/* Other numbers that a rule has for some keys. */
struct limit_plan {
    struct span name;
    const struct limit *limits; /* as many as the rule's, of the same states; NULL: unlimited */
};

/* Where the name of a key's plan is looked for. */
struct plan_source {
    bool is_tenant;       /* in the table of tenants, by key */
    struct key_term term; /* else: in this header, which trusted proxies alone may send */
};

/* Parse @written as key_parse() does, under the key of the first limit that looks for tenants and
 * takes it. False: none does, and @problem is that of the first, or empty: there is none. */
MUST_USE bool policy_parse_tenant(const struct policy *policy, struct span written,
                                  struct key_given *given, struct text *problem);

/* Whether a limit that looks for tenants has a plan named @name. */
bool policy_has_tenant_plan(const struct policy *policy, struct span name);

#endif /* SLUICE_POLICY_PLANS_H */
