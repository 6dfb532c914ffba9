/* Which plan a key has in a rule. */

#ifndef SLUICE_PROXY_PLAN_CHOICE_H
#define SLUICE_PROXY_PLAN_CHOICE_H

#include <stdint.h>

#include "base/limits.h"
#include "base/span.h"
#include "policy/policy.h"
#include "store/tenants.h"

struct plan_choice {
    const struct limit_plan *plan;    /* NULL: the rates of the rule itself count */
    const struct plan_source *source; /* that has named it, or an unknown one; NULL: none has */
    char unknown[NAME_BYTES_MAX];     /* the name that is of none of the rule's plans */
    size_t unknown_len;               /* 0: there is none; a longer name is cut */
};

/* Choose the plan of the identity @key in @rule. @tenants may be NULL: there are none. */
void plan_choose(const struct limit_rule *rule, const struct request_view *request,
                 struct tenants_view *tenants, struct span key, struct span secret, uint64_t now_us,
                 struct plan_choice *choice);

/* The plan of @rule named @name; NULL: there is none. */
const struct limit_plan *plan_find(const struct limit_rule *rule, struct span name);

#endif /* SLUICE_PROXY_PLAN_CHOICE_H */
