#include "policy/jwt_provider.h"

const struct jwt_claims *token_view_claims(struct token_view *token,
                                           const struct request_view *request,
                                           const struct jwt_provider *provider)
{
    if (token->provider != provider) {
        token->read(token, request, provider);
    }
    return token->claims;
}

static bool is_wanted(const struct claim_match *match, struct span value)
{
    for (size_t i = 0; i < match->n_values; i++) {
        if (span_equals(match->values[i], value)) {
            return true;
        }
    }
    return false;
}

bool claim_match_holds(const struct claim_match *match, const struct jwt_claims *claims)
{
    const struct jwt_claim *claim = &claims->claims[match->claim];
    bool holds = false;
    for (size_t i = 0; i < claim->n_values && !holds; i++) {
        struct span rest = claim->values[i];
        struct span word;
        holds = is_wanted(match, rest);
        while (match->is_scope && claim->is_single && !holds && span_split(&rest, ' ', &word)) {
            holds = is_wanted(match, word);
        }
    }
    return holds;
}
