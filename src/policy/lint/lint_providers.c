/* Finds entries of `jwt` that take more tokens than is meant, that nothing reads, or whose users
 * are counted with those of others. */

#include "policy/lint/lint.h"

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

/* --- claims of several issuers --- */

static bool have_common_issuer(const struct jwt_rules *a, const struct jwt_rules *b)
{
    for (size_t i = 0; i < a->n_issuers; i++) {
        for (size_t j = 0; j < b->n_issuers; j++) {
            if (span_equals(a->issuers[i], b->issuers[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Whether tokens of the two are never of the same issuer. One that takes any: see any-issuer. */
static bool are_of_others(const struct jwt_provider *a, const struct jwt_provider *b)
{
    const struct jwt_rules *rules = &a->source.rules;
    const struct jwt_rules *others = &b->source.rules;
    return rules->n_issuers > 0 && others->n_issuers > 0 && !have_common_issuer(rules, others);
}

/* Whether the issuer of @part is always known: a provider with issuers takes no token without. */
static bool begins_with_issuer(const struct lint *lint, const struct key_part *part)
{
    const struct key_term *term = &part->terms[0];
    return term->source == KEY_JWT &&
           span_equals(lint->policy->claims[term->claim].text, SPAN("iss"));
}

/* Whether @part may have another value in each route, or for each client whoever it says it is. A
 * client chooses what a named part of a path is. A host is compared by itself. */
static bool may_separate(const struct key_part *part)
{
    switch (KEY_SOURCE_ROWS[part->terms[0].source].origin) {
    case KEY_FROM_ADDRESS:
    case KEY_FROM_CERTIFICATE:
        return part->n_terms == 1;
    case KEY_FROM_PATH:
        return part->n_terms == 1 && part->terms[0].source != KEY_PATH_CAPTURE;
    case KEY_FROM_POLICY:
        return part->n_terms == 1 && part->terms[0].source == KEY_ROUTE;
    case KEY_FROM_DATABASE:
    case KEY_FROM_HANDSHAKE:
    case KEY_FROM_HEADER:
    case KEY_FROM_COOKIE:
    case KEY_FROM_QUERY:
    case KEY_FROM_HOST:
    case KEY_FROM_METHOD:
    case KEY_FROM_TOKEN:
    case KEY_FROM_POSITION:
        return false;
    }
    return false;
}

static bool counts_any_provider(const struct lint *lint, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        if (begins_with_issuer(lint, part) || may_separate(part)) {
            return false;
        }
    }
    return rule->reads_token;
}

static bool counts_by_host(const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        if (part->n_terms == 1 && part->terms[0].source == KEY_HOST) {
            return true;
        }
    }
    return false;
}

/* Whether both match a host in the same words, or any. Where one only covers that of the other, the
 * earlier of them may take all of it. */
static bool have_common_host(const struct route_match *a, const struct route_match *b)
{
    for (size_t i = 0; i < a->n_hosts; i++) {
        for (size_t j = 0; j < b->n_hosts; j++) {
            if (span_equals(a->hosts[i], b->hosts[j])) {
                return true;
            }
        }
    }
    return a->n_hosts == 0 && b->n_hosts == 0;
}

/* The first route before @route with @rule whose tokens are of other issuers, and which such a key
 * does not keep apart from it; or NULL. */
static const struct route *find_other(const struct policy *policy, const struct limit_rule *rule,
                                      const struct route *route)
{
    const bool has_host = counts_by_host(rule);
    for (const struct route *other = policy->routes; other < route; other++) {
        if (other->jwt != NULL && other->jwt != route->jwt &&
            are_of_others(route->jwt, other->jwt) && route_has_rule(other, rule) &&
            (!has_host || have_common_host(&route->match, &other->match))) {
            return other;
        }
    }
    return NULL;
}

static void warn_of_providers(struct lint *lint, const struct limit_rule *rule)
{
    const struct policy *policy = lint->policy;
    const struct route *other = NULL;
    for (size_t i = 0; i < policy->n_routes && other == NULL; i++) {
        const struct route *route = &policy->routes[i];
        if (route->jwt == NULL || !route_has_rule(route, rule)) {
            continue;
        }
        other = find_other(policy, rule, route);
        if (other != NULL) {
            node_warn(
                lint->diags, lint->limits[rule - policy->rules].key.node, WARNING_ANY_PROVIDER,
                "limit \"%.*s\" counts by a claim of tokens, and the issuers of jwt "
                "\"%.*s\" and \"%.*s\" may give the same: put jwt.iss beside it in the "
                "key, or give each a limit of its own",
                SPAN_ARGS(rule->name), SPAN_ARGS(other->jwt->name), SPAN_ARGS(route->jwt->name));
        }
    }
}

void lint_any_provider(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    for (size_t i = 0; i < policy->n_rules; i++) {
        if (counts_any_provider(lint, &policy->rules[i])) {
            warn_of_providers(lint, &policy->rules[i]);
        }
    }
}
