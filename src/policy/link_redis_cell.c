/* Which limits CL.THROTTLE decides: those of gcra that it can express, alone on each route that
 * names them (a limit is one limit: were it alone on one route and not on another, it would be
 * counted twice), whose charges are never corrected. */

#include "limit/cl_throttle.h"
#include "policy/link.h"
#include "policy/quote.h"

enum { PROBLEM_BYTES_MAX = 128 };

/* What the routes have against it, by rule; NULL: nothing. */
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

/* What @rule itself has against it, or NULL. */
static const char *misfit_of(const struct limit_rule *rule)
{
    if (rule->n_limits > 1) {
        return "it has several rates";
    }
    if (rule->count.is_said || rule->refund.is_said) {
        return "answers decide what it charges";
    }
    return cl_throttle_misfit(&rule->limits[0]);
}

static void warn(struct linker *linker, const struct spec_limit *spec, const char *misfit,
                 const struct objection *objection)
{
    const struct node *node = spec->place.name_node;
    char buffer[PROBLEM_BYTES_MAX];
    struct text reason = text_of(buffer, sizeof(buffer));
    if (misfit != NULL) {
        text_add(&reason, span_of_text(misfit));
    } else {
        text_add_format(&reason, "routes.%u %s", objection->route->index + 1, objection->because);
    }
    diags_warn(linker->diags, warning_name(WARNING_NOT_REDIS_CELL), node->line, node->column,
               "limit \"%.*s\" is not decided by redis-cell: %.*s",
               SPAN_ARGS(quote_clip(spec->place.name)), SPAN_ARGS(text_span(&reason)));
}

static void warn_of_none(struct linker *linker)
{
    const struct node *value = node_find(linker->spec->store.place.node, SPAN("redis_cell"));
    diags_warn(linker->diags, warning_name(WARNING_NO_EFFECT), value->line, value->column,
               "redis_cell has no effect: no limit that a route uses has the algorithm gcra");
}

static void link_rules(struct linker *linker, const struct objection *objections)
{
    struct policy *policy = linker->policy;
    const struct spec_limit *specs = linker->spec->limits.items;
    bool has_gcra = false;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit_rule *rule = &policy->rules[i];
        struct limit *limit = &policy->limits[rule->limits - policy->limits];
        if (!linker->limit_is_used[i] ||
            !span_equals(span_of_text(limit->algorithm->name), SPAN("gcra"))) {
            continue;
        }
        const char *misfit = misfit_of(rule);
        has_gcra = true;
        limit->by_cell = objections[i].route == NULL && misfit == NULL;
        if (!limit->by_cell) {
            warn(linker, &specs[i], misfit, &objections[i]);
        }
    }
    if (!has_gcra) {
        warn_of_none(linker);
    }
}

void link_redis_cell(struct linker *linker)
{
    const struct policy *policy = linker->policy;
    if (!linker->spec->store.redis_cell || linker->diags->n_errors > 0) {
        return;
    }
    struct objection *objections =
        arena_calloc(linker->scratch, policy->n_rules + 1, sizeof(*objections));
    if (objections == NULL) {
        linker->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        ask_route(policy, &policy->routes[i], objections);
    }
    link_rules(linker, objections);
}
