/* Routes whose limits lie in several slots of a Redis cluster, and limits whose charges may be
 * corrected. */

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

/* --- what is owed --- */

/* Responses that may report their costs at a time: so many have room, if a unit of time allows. */
enum { OWED_AT_A_TIME = 10 * 1000, OWED_AT_LEAST = 1000 };

static bool is_of(const struct limit *limit, const struct limit *base)
{
    return limit->base == base->index;
}

/* Note in @limit and its plans what the responses of @route may report of them. */
static void note_owed(struct policy *policy, const struct limit *base, const struct route *route)
{
    const uint64_t owed = (uint64_t)OWED_AT_A_TIME * route->cost.max;
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        struct limit *limit = &policy->limits[i];
        if (is_of(limit, base) && limit->owed < owed) {
            limit->owed = owed;
        }
    }
}

static void note_route(struct policy *policy, const struct route *route)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        for (size_t j = 0; j < rule->n_limits && route_own_cost(route, i) == 0; j++) {
            note_owed(policy, &rule->limits[j], route);
        }
    }
}

/* Whether @base and its plans, which share states, all have room with a tick @factor times as
 * long, in *is_enough; false: one of them cannot have it. */
static bool is_coarser(const struct policy *policy, const struct limit *base, uint32_t factor,
                       bool *is_enough)
{
    *is_enough = true;
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        struct limit coarse = policy->limits[i];
        if (is_of(&coarse, base)) {
            if (factor > 1 && !limit_coarsen(&policy->limits[i], factor, &coarse)) {
                return false;
            }
            *is_enough = *is_enough && limit_owes_all(&coarse);
        }
    }
    return true;
}

/* Give @base and its plans the finest tick in which all that is owed has room, or the coarsest. */
static void make_room(struct policy *policy, const struct limit *base)
{
    static const uint32_t FACTORS[] = {1, 1000, 1000000};
    uint32_t factor = 1;
    bool is_enough = false;
    for (size_t i = 0; i < ARRAY_LEN(FACTORS) && !is_enough; i++) {
        if (!is_coarser(policy, base, FACTORS[i], &is_enough)) {
            break;
        }
        factor = FACTORS[i];
    }
    const uint32_t index = base->index;
    for (size_t i = 0; i < policy->n_all_limits && factor > 1; i++) {
        struct limit coarse;
        if (policy->limits[i].base == index && limit_coarsen(&policy->limits[i], factor, &coarse)) {
            policy->limits[i] = coarse;
        }
    }
}

/* The least that @base, a bucket, and its plans can owe beyond a full bucket. */
static uint64_t least_room(const struct policy *policy, const struct limit *base)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        const uint64_t room =
            is_of(&policy->limits[i], base) ? limit_room(&policy->limits[i]) : least;
        least = room < least ? room : least;
    }
    return least;
}

/* Warn of what @limit forgives of costs up to @max. False: of nothing. */
static bool warn_of_limit(struct compiler *compiler, const struct node *node,
                          const struct limit_rule *rule, const struct limit *limit, uint32_t max)
{
    if (limit->algorithm == &gcra_algorithm) {
        if (max > limit->params.burst) {
            node_warn(compiler->diags, node, WARNING_FORGIVEN_COST,
                      "what the response says beyond the burst of limit \"%.*s\" is forgiven: "
                      "gcra owes at most a full bucket; take token_bucket, or a max of %" PRIu32,
                      SPAN_ARGS(quote_clip(rule->name)), limit->params.burst);
        }
        return max > limit->params.burst;
    }
    const uint64_t room = least_room(compiler->policy, limit);
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
            if (warn_of_limit(compiler, node, rule, &rule->limits[j], route->cost.max)) {
                return;
            }
        }
    }
}

static void compile_owed(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (policy->routes[i].cost.kind == COST_RESPONSE_HEADER) {
            note_route(policy, &policy->routes[i]);
        }
    }
    for (size_t i = 0; i < policy->n_limits; i++) {
        if (policy->limits[i].owed > 0) {
            make_room(policy, &policy->limits[i]);
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
            mark(compiler, &policy->rules[i]);
        }
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules && is_correcting(policy, route); j++) {
            mark(compiler, route->rules[j]);
        }
    }
    if (compiler->diags->n_errors == 0) {
        compile_owed(compiler);
    }
}
