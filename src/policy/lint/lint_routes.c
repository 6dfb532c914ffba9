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
    for (size_t i = 0; i < policy->n_routes; i++) {
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

/* Finds entries of `jwt` that take more tokens than is meant, or that nothing reads. */

static bool is_used(const struct policy *policy, const struct jwt_provider *provider)
{
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (policy->routes[i].jwt == provider) {
            return true;
        }
    }
    return false;
}

/* Whether @rule counts a request without a token by something else, or not at all. */
static bool goes_without_token(const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        for (size_t j = 0; j < part->n_terms; j++) {
            const bool is_last = j + 1 == part->n_terms;
            if (KEY_SOURCE_ROWS[part->terms[j].source].origin == KEY_FROM_TOKEN &&
                (!is_last || rule->missing == KEY_MISSING_SKIP)) {
                return true;
            }
        }
    }
    return false;
}

/* The first enforced limit of a route of @provider that goes without a token, or NULL. */
static const struct limit_rule *first_without_token(const struct policy *policy,
                                                    const struct jwt_provider *provider)
{
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules && route->jwt == provider; j++) {
            if (!route->rules[j]->limits[0].shadow && goes_without_token(route->rules[j])) {
                return route->rules[j];
            }
        }
    }
    return NULL;
}

static void find_ignored_tokens(struct lint *lint, const struct jwt_provider *provider,
                                const struct node *node)
{
    const struct limit_rule *rule = provider->on_invalid == JWT_INVALID_IS_MISSING
                                        ? first_without_token(lint->policy, provider)
                                        : NULL;
    if (rule != NULL) {
        node_warn(lint->diags, node_find(node, SPAN("on_invalid")), WARNING_IGNORED_TOKEN,
                  "jwt \"%.*s\" counts a token that is not valid as none, and limit \"%.*s\" lets "
                  "requests without one go past the count of their user: so does a token that the "
                  "server takes and these rules refuse, by its alg, iss, aud or exp; write "
                  "on_invalid: deny, or make sure that the server has the same rules",
                  SPAN_ARGS(provider->name), SPAN_ARGS(rule->name));
    }
}

void lint_providers(struct lint *lint)
{
    const struct spec_jwt *specs = lint->spec->jwt.items;
    for (size_t i = 0; i < lint->policy->n_providers; i++) {
        const struct jwt_provider *provider = &lint->policy->providers[i];
        const struct node *node = specs[i].position.name_node;
        if (!is_used(lint->policy, provider)) {
            node_warn(lint->diags, node, WARNING_NO_EFFECT,
                      "jwt \"%.*s\" has no effect: no route reads tokens by it",
                      SPAN_ARGS(provider->name));
        } else if (provider->source.rules.n_issuers == 0) {
            node_warn(lint->diags, node, WARNING_ANY_ISSUER,
                      "jwt \"%.*s\" takes a token of its keys whoever issued it, and for what: "
                      "write issuer, as iss stands in the tokens",
                      SPAN_ARGS(provider->name));
        }
        find_ignored_tokens(lint, provider, specs[i].position.node);
    }
}
