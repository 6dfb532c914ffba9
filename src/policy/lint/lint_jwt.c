/* Finds entries of `jwt` that take more tokens than is meant, or that nothing reads. */

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
    }
}
