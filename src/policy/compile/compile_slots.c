/* Routes whose limits lie in several slots of a Redis cluster; limits whose charges may be
 * corrected, and their room for what responses report. */

#include <inttypes.h>

#include "limit/algorithms.h"
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

/* Limit number @i of @rule (@plan: 0), or that of its plan number @plan - 1, which has the same
 * state. NULL: the plan is unlimited. policy->limits is writable; rules point to the same limits
 * as const. */
static struct limit *limit_of(const struct policy *policy, const struct limit_rule *rule, size_t i,
                              size_t plan)
{
    const struct limit *limits = plan == 0 ? rule->limits : rule->plans[plan - 1].limits;
    return limits != NULL ? &policy->limits[limits[i].index] : NULL;
}

static void mark(const struct policy *policy, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        for (size_t plan = 0; plan <= rule->n_plans; plan++) {
            struct limit *limit = limit_of(policy, rule, i, plan);
            if (limit != NULL) {
                limit->is_settled = true;
                limit->params.settles = true;
            }
        }
    }
}

/* --- what is owed --- */

/* Responses that may report their costs at a time: so many have room, if a unit of time allows. */
enum { OWED_AT_A_TIME = 10 * 1000, OWED_AT_LEAST = 1000 };

/* Note what the responses of @route may report of its limits. */
static void note_route(const struct policy *policy, const struct route *route)
{
    const uint64_t owed = (uint64_t)OWED_AT_A_TIME * route->cost.max;
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        for (size_t j = 0; j < rule->n_limits && route_own_cost(route, i) == 0; j++) {
            struct limit *limit = limit_of(policy, rule, j, 0);
            limit->owed = limit->owed < owed ? owed : limit->owed;
        }
    }
}

/* Whether limit number @i of @rule and those of its plans all have room with a tick @factor times
 * as long, in *is_enough; false: one of them cannot have it. */
static bool is_coarser(const struct policy *policy, const struct limit_rule *rule, size_t i,
                       uint32_t factor, bool *is_enough)
{
    *is_enough = true;
    for (size_t plan = 0; plan <= rule->n_plans; plan++) {
        const struct limit *limit = limit_of(policy, rule, i, plan);
        if (limit != NULL) {
            struct limit coarse = *limit;
            if (factor > 1 && !limit_coarsen(limit, factor, &coarse)) {
                return false;
            }
            *is_enough = *is_enough && limit_owes_all(&coarse);
        }
    }
    return true;
}

/* Give limit number @i of @rule and those of its plans the finest tick in which all that is owed
 * has room, or the coarsest. */
static void make_room(const struct policy *policy, const struct limit_rule *rule, size_t i)
{
    static const uint32_t FACTORS[] = {1, 1000, 1000000};
    uint32_t factor = 1;
    bool is_enough = false;
    for (size_t plan = 1; plan <= rule->n_plans; plan++) {
        struct limit *limit = limit_of(policy, rule, i, plan);
        if (limit != NULL) {
            limit->owed = rule->limits[i].owed;
        }
    }
    for (size_t f = 0; f < ARRAY_LEN(FACTORS) && !is_enough; f++) {
        if (!is_coarser(policy, rule, i, FACTORS[f], &is_enough)) {
            break;
        }
        factor = FACTORS[f];
    }
    for (size_t plan = 0; plan <= rule->n_plans && factor > 1; plan++) {
        struct limit *limit = limit_of(policy, rule, i, plan);
        struct limit coarse;
        if (limit != NULL && limit_coarsen(limit, factor, &coarse)) {
            *limit = coarse;
        }
    }
}

/* The least that limit number @i of @rule, a bucket, and those of its plans can owe beyond a full
 * bucket. */
static uint64_t least_room(const struct policy *policy, const struct limit_rule *rule, size_t i)
{
    uint64_t least = UINT64_MAX;
    for (size_t plan = 0; plan <= rule->n_plans; plan++) {
        const struct limit *limit = limit_of(policy, rule, i, plan);
        const uint64_t room = limit != NULL ? limit_room(limit) : least;
        least = room < least ? room : least;
    }
    return least;
}

/* Warn of what limit number @i of @rule forgives of costs up to @max. False: of nothing. */
static bool warn_of_limit(struct compiler *compiler, const struct node *node,
                          const struct limit_rule *rule, size_t i, uint32_t max)
{
    const struct limit *limit = &rule->limits[i];
    if (limit->algorithm == &gcra_algorithm) {
        if (max > limit->params.burst) {
            node_warn(compiler->diags, node, WARNING_FORGIVEN_COST,
                      "what the response says beyond the burst of limit \"%.*s\" is forgiven: "
                      "gcra owes at most a full bucket; take token_bucket, or a max of %" PRIu32,
                      SPAN_ARGS(quote_clip(rule->name)), limit->params.burst);
        }
        return max > limit->params.burst;
    }
    const uint64_t room = least_room(compiler->policy, rule, i);
    if (limit->algorithm->has_burst && room / OWED_AT_LEAST < max) {
        node_warn(compiler->diags, node, WARNING_FORGIVEN_COST,
                  "limit \"%.*s\" can owe %" PRIu64 " units, and what responses say beyond that "
                  "is forgiven: %d at a time may say more; take a lower max, or a shorter period",
                  SPAN_ARGS(quote_clip(rule->name)), room, OWED_AT_LEAST);
        return true;
    }
    return false;
}

static void warn_of_forgiven(struct compiler *compiler, const struct route *route,
                             const struct node *node)
{
    for (size_t i = 0; node != NULL && i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        for (size_t j = 0; j < rule->n_limits && route_own_cost(route, i) == 0; j++) {
            if (warn_of_limit(compiler, node, rule, j, route->cost.max)) {
                return;
            }
        }
    }
}

static void compile_owed(struct compiler *compiler)
{
    const struct policy *policy = compiler->policy;
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (policy->routes[i].cost.kind == COST_RESPONSE_HEADER) {
            note_route(policy, &policy->routes[i]);
        }
    }
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit_rule *rule = &policy->rules[i];
        for (size_t j = 0; j < rule->n_limits; j++) {
            if (rule->limits[j].owed > 0) {
                make_room(policy, rule, j);
            }
        }
    }
    const struct spec_route *specs = compiler->spec->routes.items;
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (policy->routes[i].cost.kind == COST_RESPONSE_HEADER) {
            warn_of_forgiven(compiler, &policy->routes[i], specs[i].cost.position.node);
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
            mark(policy, &policy->rules[i]);
        }
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules && is_correcting(policy, route); j++) {
            mark(policy, route->rules[j]);
        }
    }
    if (compiler->diags->n_errors == 0) {
        compile_owed(compiler);
    }
}
