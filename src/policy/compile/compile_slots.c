/* Routes whose limits lie in several slots of a Redis cluster, and limits whose charges may be
 * corrected. */

#include "policy/compare.h"
#include "policy/compile/compile.h"
#include "policy/load/node.h"

/* The first limit of @route that may lie in another cluster slot than the limits before it, or
 * NULL. */
static const struct limit_rule *other_slot(const struct route *route)
{
    for (size_t i = 1; i < route->n_rules; i++) {
        /* Keys with the same first part have the same hash tag. */
        if (!compare_key_parts(&route->rules[0]->key.parts[0], &route->rules[i]->key.parts[0])) {
            return route->rules[i];
        }
    }
    return NULL;
}

static void warn_of_slots(struct compiler *compiler, const struct route *route,
                          const struct node *node)
{
    const struct limit_rule *other = other_slot(route);
    if (other != NULL) {
        node_warn(compiler->diags, node, WARNING_SEVERAL_SLOTS,
                  "the keys of limits \"%.*s\" and \"%.*s\" begin with different parts: in a "
                  "cluster a request then needs calls to several slots",
                  SPAN_ARGS(quote_clip(route->rules[0]->name)), SPAN_ARGS(quote_clip(other->name)));
    }
}

void compile_slots(struct compiler *compiler)
{
    const struct policy *policy = compiler->policy;
    const struct spec_route *specs = compiler->spec->routes.items;
    const struct node *defaults =
        compiler->spec->defaults.limits.node; /* NULL: no limits, or already reported */
    if (policy->store.redis.kind != REDIS_CLUSTER) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const bool has_own = specs[i].limits.node != NULL;
        const struct node *node = has_own ? specs[i].limits.node : defaults;
        if (node != NULL) {
            warn_of_slots(compiler, &policy->routes[i], node);
        }
        defaults = has_own ? defaults : NULL;
    }
}

/* --- corrected charges --- */

/* policy->limits is writable; the rules point to the same limits as const. */
static void mark(struct compiler *compiler, const struct limit_rule *rule)
{
    struct policy *policy = compiler->policy;
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        struct limit *limit = &policy->limits[i];
        if (&policy->limits[limit->base] >= rule->limits &&
            &policy->limits[limit->base] < rule->limits + rule->n_limits) {
            limit->is_settled = true;
            limit->params.settles = true;
        }
    }
}

/* Whether all charges of @route may be corrected. */
static bool is_correcting(const struct policy *policy, const struct route *route)
{
    return route->cost.kind == COST_RESPONSE_HEADER ||
           (policy->store.redis.kind == REDIS_CLUSTER && other_slot(route) != NULL);
}

void compile_settled(struct compiler *compiler)
{
    const struct policy *policy = compiler->policy;
    for (size_t i = 0; i < policy->n_rules; i++) {
        if (policy->rules[i].charge_on.is_said || policy->rules[i].refund_on.is_said) {
            mark(compiler, &policy->rules[i]);
        }
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules && is_correcting(policy, route); j++) {
            mark(compiler, route->rules[j]);
        }
    }
}
