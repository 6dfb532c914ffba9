#include "policy/link.h"
#include "policy/quote.h"

static bool is_same_term(const struct key_term *a, const struct key_term *b)
{
    return a->source == b->source && span_equals(a->name, b->name) && a->number == b->number &&
           a->ipv4_bits == b->ipv4_bits && a->ipv6_bits == b->ipv6_bits;
}

bool link_is_same_part(const struct key_part *a, const struct key_part *b)
{
    bool is_same = a->n_terms == b->n_terms;
    for (size_t i = 0; is_same && i < a->n_terms; i++) {
        is_same = is_same_term(&a->terms[i], &b->terms[i]);
    }
    return is_same;
}

const struct limit_rule *link_other_slot(const struct route *route)
{
    for (size_t i = 1; i < route->n_rules; i++) {
        /* Keys that begin alike have one tag. */
        if (!link_is_same_part(&route->rules[0]->key.parts[0], &route->rules[i]->key.parts[0])) {
            return route->rules[i];
        }
    }
    return NULL;
}

static void warn_of_slots(struct linker *linker, const struct route *route, const struct node *node)
{
    const struct limit_rule *other = link_other_slot(route);
    if (other != NULL) {
        diags_warn(linker->diags, warning_name(WARNING_SEVERAL_SLOTS), node->line, node->column,
                   "the keys of limits \"%.*s\" and \"%.*s\" begin with different parts: in a "
                   "cluster a request then needs calls to several slots",
                   SPAN_ARGS(quote_clip(route->rules[0]->name)),
                   SPAN_ARGS(quote_clip(other->name)));
    }
}

void link_slots(struct linker *linker)
{
    const struct policy *policy = linker->policy;
    const struct spec_route *specs = linker->spec->routes.items;
    const struct node *defaults =
        linker->spec->defaults.limits.node; /* NULL: there are none, or told */
    if (policy->store.redis.kind != REDIS_CLUSTER) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const bool has_own = specs[i].limits.node != NULL;
        const struct node *node = has_own ? specs[i].limits.node : defaults;
        if (node != NULL) {
            warn_of_slots(linker, &policy->routes[i], node);
        }
        defaults = has_own ? defaults : NULL;
    }
}
