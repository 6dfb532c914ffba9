#include "policy/link.h"

/* The limits of a policy are its own to write; those that rules show are constant. */
static void mark(struct linker *linker, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        linker->policy->limits[rule->limits[i].index].is_settled = true;
    }
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
        for (size_t j = 0; j < route->n_rules && route->cost.kind == COST_RESPONSE_HEADER; j++) {
            mark(linker, route->rules[j]);
        }
    }
}
