#include "policy/link.h"

/* The limits of a policy are its own to write; those that rules show are constant. */
static void mark(struct linker *linker, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        struct limit *limit = &linker->policy->limits[rule->limits[i].index];
        limit->is_settled = true;
        limit->params.settles = true;
    }
}

/* Whether all that @route charges may be corrected. */
static bool is_correcting(const struct policy *policy, const struct route *route)
{
    return route->cost.kind == COST_RESPONSE_HEADER ||
           (policy->store.redis.kind == REDIS_CLUSTER && link_other_slot(route) != NULL);
}

void link_settled(struct linker *linker)
{
    const struct policy *policy = linker->policy;
    for (size_t i = 0; i < policy->n_rules; i++) {
        if (policy->rules[i].count.is_said || policy->rules[i].refund.is_said) {
            mark(linker, &policy->rules[i]);
        }
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules && is_correcting(policy, route); j++) {
            mark(linker, route->rules[j]);
        }
    }
}
