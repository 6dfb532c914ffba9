/* Which limits and checks a request avoids if it matches one route but is served like another. */

#ifndef SLUICE_POLICY_ROUTE_RULES_H
#define SLUICE_POLICY_ROUTE_RULES_H

#include <stdbool.h>

#include "base/compiler.h"
#include "policy/policy.h"

/* The first enforced limit of @other that @route does not have, or NULL. */
MUST_USE const struct limit_rule *route_limits_find_missing(const struct route *route,
                                                            const struct route *other);

/* Whether all enforced limits of @other apply to @route too, at the same cost or more. */
MUST_USE bool route_limits_hold(const struct route *route, const struct route *other);

/* Whether an enforced limit of @other is stricter, in some time or for some client, than each limit
 * of @route that can be compared with it. Unlike !route_limits_hold(), a stricter limit of @route
 * does for one that it lacks. */
MUST_USE bool route_limits_are_laxer(const struct route *route, const struct route *other);

/* Whether @other also excepts each client that @rule excepts. */
MUST_USE bool rule_excepts_no_more(const struct limit_rule *rule, const struct limit_rule *other);

/* Whether @route too asks for the token that @other asks for, and drops the fields of requests that
 * @other removes or sets. */
MUST_USE bool route_checks_hold(const struct route *route, const struct route *other);

/* Whether the key of an enforced limit of @route reads the path. */
MUST_USE bool route_limits_read_path(const struct route *route);

#endif /* SLUICE_POLICY_ROUTE_RULES_H */
