/* Finds routes that can never match, and routes without limits. */

#include "policy/lint/lint.h"
#include "policy/route_index.h"

/* --- routes that can never match --- */

/* Only a policy built to be slow needs more: 20,000 routes take about 100 each. */
static const uint64_t STEPS_MAX = UINT64_C(20000000);

/* The routes that cover a route part by part: each host, path, method and client prefix of it. */
struct references {
    const struct route *first; /* NULL: a part is not covered */
    const struct route *other; /* another one, or NULL */
};

static bool add_taker(struct references *references, const struct route *taker)
{
    if (references->first == NULL) {
        references->first = taker;
    } else if (references->first != taker && references->other == NULL) {
        references->other = taker;
    }
    return taker != NULL;
}

/* Add the routes that cover @later, an entry of @route. False: a part of it is not covered. */
static bool cover_entry(const struct policy *policy, const struct route *route,
                        const struct route_entry *later, struct references *references,
                        uint64_t *steps)
{
    const struct route_match *match = &route->match;
    const size_t n_methods = match->n_methods > 0 ? match->n_methods : 1;
    const size_t n_clients = match->n_clients > 0 ? match->n_clients : 1;
    for (size_t i = 0; i < n_methods * n_clients; i++) {
        const struct cover_part part = {
            .method = match->n_methods > 0 ? match->methods[i / n_clients] : SPAN(""),
            .client = match->n_clients > 0 ? &match->clients[i % n_clients] : NULL,
        };
        const bool is_left = later->leaves_head && span_equals(part.method, SPAN("HEAD"));
        if (!is_left && !add_taker(references, cover_find_taker(policy, later, &part, steps))) {
            return false;
        }
    }
    return true;
}

/* @entries: those of @route. */
static struct references find_references(const struct policy *policy, const struct route *route,
                                         const struct route_entry *entries, uint64_t *steps)
{
    struct references references = {NULL, NULL};
    const size_t n_entries = route_index_count(&route->match);
    for (size_t i = 0; i < n_entries; i++) {
        if (!cover_entry(policy, route, &entries[i], &references, steps)) {
            return (struct references){NULL, NULL};
        }
    }
    return references;
}

static void warn_of_references(struct lint *lint, size_t i, const struct references *references)
{
    const struct span name = lint_name_of_route(lint, i);
    const struct span first = lint_name_of_route(lint, references->first->index);
    const struct node *node = lint->routes[i].position.node;
    if (references->other == NULL) {
        node_warn(lint->diags, node, WARNING_UNREACHABLE_ROUTE,
                  "route \"%.*s\" can never match: route \"%.*s\" before it takes everything "
                  "that it would; put it first, or remove it",
                  SPAN_ARGS(name), SPAN_ARGS(first));
        return;
    }
    node_warn(lint->diags, node, WARNING_UNREACHABLE_ROUTE,
              "route \"%.*s\" can never match: routes before it, among them \"%.*s\" and "
              "\"%.*s\", take everything that it would; put it first, or remove it",
              SPAN_ARGS(name), SPAN_ARGS(first),
              SPAN_ARGS(lint_name_of_route(lint, references->other->index)));
}

void lint_unreachable_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct route_entry *entries = policy->route_index->entries;
    uint64_t steps = STEPS_MAX;
    lint->is_unreachable =
        arena_calloc(lint->scratch, policy->n_routes + 1, sizeof(*lint->is_unreachable));
    lint->no_memory = lint->is_unreachable == NULL;
    for (size_t i = 0; i < policy->n_routes && !lint->no_memory; i++) {
        const struct route *route = &policy->routes[i];
        const struct references references = find_references(policy, route, entries, &steps);
        entries += route_index_count(&route->match);
        if (steps == 0) {
            node_warn(lint->diags, lint->routes[i].position.node, WARNING_UNREACHABLE_ROUTE,
                      "from route \"%.*s\" on it is not known whether routes can match: too many "
                      "have nearly the same host and path to compare them all",
                      SPAN_ARGS(lint_name_of_route(lint, i)));
            return;
        }
        if (references.first != NULL) {
            lint->is_unreachable[i] = true;
            warn_of_references(lint, i, &references);
        }
    }
}

/* --- routes without limits --- */

/* `limits: []` is explicit and gives no warning. Nor does a policy without any limits. */
void lint_unlimited_routes(struct lint *lint, const struct route *route,
                           const struct spec_route *spec)
{
    if (lint->policy->n_rules > 0 && route->upstream != NULL && spec->limits.node == NULL &&
        lint->spec->defaults.limits.node == NULL) {
        node_warn(lint->diags, spec->position.node, WARNING_UNLIMITED_ROUTE,
                  "route \"%.*s\" has no limits, and does not say so: write \"limits: []\" if "
                  "that is meant, or name \"defaults\"",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)));
    }
}
