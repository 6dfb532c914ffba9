/* Finds the limits that CL.THROTTLE decides: gcra limits that it can express, whose charges are
 * never corrected, whose key has one value in each request, and that are the only limit on each of
 * their routes. A limit that is alone on one route but not on another would be counted twice. */

#include "limit/script_source.h"
#include "policy/compile/compile.h"
#include "policy/key.h"
#include "policy/load/node.h"

enum { PROBLEM_BYTES_MAX = 128 };

/* Why the routes of a rule exclude it, by rule; NULL: no reason. */
struct objection {
    const struct route *route;
    const char *because;
};

static void object(struct objection *objection, const struct route *route, const char *because)
{
    if (objection->route == NULL) {
        *objection = (struct objection){.route = route, .because = because};
    }
}

static void ask_route(const struct policy *policy, const struct route *route,
                      struct objection *objections)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        struct objection *objection = &objections[route->rules[i] - policy->rules];
        if (route->n_limits > 1) {
            object(objection, route, "has other limits beside it");
        } else if (route->cost.kind == COST_RESPONSE_HEADER) {
            object(objection, route, "learns its cost from the response");
        }
    }
}

/* Why @rule itself is excluded, or NULL. The two states know nothing of each other: what differs
 * between requests must never choose between them. gcra has no plans. */
static const char *misfit_of(const struct limit_rule *rule)
{
    if (rule->n_limits > 1) {
        return "it has several rates";
    }
    if (rule->charge_on.is_said || rule->refund_on.is_said) {
        return "answers decide what it charges";
    }
    if (key_may_have_several(&rule->key)) {
        return "its key may have several values";
    }
    return cl_throttle_misfit(&rule->limits[0]);
}

static void warn(struct compiler *compiler, const struct spec_limit *spec, const char *misfit,
                 const struct objection *objection)
{
    const struct node *node = spec->position.name_node;
    char buffer[PROBLEM_BYTES_MAX];
    struct text reason = text_of(buffer, sizeof(buffer));
    if (misfit != NULL) {
        text_add(&reason, span_of_text(misfit));
    } else {
        text_add_format(&reason, "routes.%u %s", objection->route->index + 1, objection->because);
    }
    node_warn(compiler->diags, node, WARNING_NOT_REDIS_CELL,
              "limit \"%.*s\" is not decided by redis-cell: %.*s",
              SPAN_ARGS(quote_clip(spec->position.name)), SPAN_ARGS(text_span(&reason)));
}

static void warn_of_none(struct compiler *compiler)
{
    const struct node *value = node_find(compiler->spec->store.position.node, SPAN("redis_cell"));
    node_warn(compiler->diags, value, WARNING_NO_EFFECT,
              "redis_cell has no effect: no limit that a route uses has the algorithm gcra");
}

static void compile_rules(struct compiler *compiler, const struct objection *objections)
{
    struct policy *policy = compiler->policy;
    const struct spec_limit *specs = compiler->spec->limits.items;
    bool has_gcra = false;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit_rule *rule = &policy->rules[i];
        struct limit *limit = &policy->limits[rule->limits - policy->limits];
        if (!compiler->limit_is_used[i] ||
            !span_equals(span_of_text(limit->algorithm->name), SPAN("gcra"))) {
            continue;
        }
        const char *misfit = misfit_of(rule);
        has_gcra = true;
        limit->by_cell = objections[i].route == NULL && misfit == NULL;
        if (!limit->by_cell) {
            warn(compiler, &specs[i], misfit, &objections[i]);
        }
    }
    if (!has_gcra) {
        warn_of_none(compiler);
    }
}

void compile_redis_cell(struct compiler *compiler)
{
    const struct policy *policy = compiler->policy;
    if (!compiler->spec->store.redis_cell || compiler->diags->n_errors > 0) {
        return;
    }
    struct objection *objections =
        arena_calloc(compiler->scratch, policy->n_rules + 1, sizeof(*objections));
    if (objections == NULL) {
        compiler->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        ask_route(policy, &policy->routes[i], objections);
    }
    compile_rules(compiler, objections);
}
