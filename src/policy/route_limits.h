/* How the limits of two routes compare: what a request loses that takes one route and is served as
 * one of the other. */

#ifndef SLUICE_POLICY_ROUTE_LIMITS_H
#define SLUICE_POLICY_ROUTE_LIMITS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "policy/policy.h"

/* The first enforced limit of @other that @route does not have; NULL: it has all of them. */
MUST_USE const struct limit_rule *route_limits_find_missing(const struct route *route,
                                                            const struct route *other);

/* Whether a request costs as much on @route as on @other, whatever its method and fields are. May
 * say no where the answer is yes. */
MUST_USE bool route_limits_cost_holds(const struct route *route, const struct route *other);

/* Whether a request of @route is limited as it would be on @other: by all enforced limits of
 * @other, at the same cost or more. */
MUST_USE bool route_limits_hold(const struct route *route, const struct route *other);

/* Whether the key of an enforced limit of @route has a part of the path. */
MUST_USE bool route_limits_read_path(const struct route *route);

#endif /* SLUICE_POLICY_ROUTE_LIMITS_H */
