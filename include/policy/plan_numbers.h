/* Numbers in place of a plan, which the table of tenants may give a key: `1000/minute`, with a
 * burst `1000/minute:200`, and of a limit with several rates all of them, `100/minute,5/hour`. They
 * are checked as the loader checks a plan, and are limits of the same states.
 *
 * A policy keeps those that were asked for, at most NUMBERED_PLANS_MAX. */

#ifndef SLUICE_POLICY_PLAN_NUMBERS_H
#define SLUICE_POLICY_PLAN_NUMBERS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "policy/limit_rule.h"
#include "policy/policy.h"

struct plan_numbers;

/* Why @text is not numbers of @rule, which looks for tenants; NULL: it is. A static phrase. */
MUST_USE const char *plan_numbers_fault(const struct limit_rule *rule, struct span text);

/* The plan that @text is for @rule, which looks for tenants; as long as @policy. NULL: it is none,
 * or there is no room for another one. From any thread. */
const struct limit_plan *plan_numbers_find(const struct policy *policy,
                                           const struct limit_rule *rule, struct span text);

/* --- for the compiler --- */

/* Prepares @numbers, all zero, whose limits will be the @n behind @limits, the first of which has
 * @index. */
void plan_numbers_init(struct plan_numbers *numbers, struct limit *limits, uint32_t index,
                       size_t n);
size_t plan_numbers_bytes(void);

#endif /* SLUICE_POLICY_PLAN_NUMBERS_H */
