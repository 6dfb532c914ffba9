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

bool token_view_is_refused(const struct token_view *token)
{
    if (!token->is_sent || token->claims != NULL) {
        return false;
    }
    const enum jwt_result result = token->result;
    return token->provider->on_invalid == JWT_INVALID_IS_DENIED || result == JWT_SEVERAL ||
           result == JWT_SPELLING || result == JWT_TOO_MANY_FAILURES || result == JWT_UNREAD ||
           result == JWT_NO_MEMORY;
}

const struct jwt_claims *given_token_claims(const struct given_token *token,
                                            const struct jwt_rules *rules, struct arena *arena)
{
    struct jwt_claims *claims = arena_alloc(arena, sizeof(*claims));
    struct jwt_claim *list = arena_calloc(arena, rules->n_claims + 1, sizeof(*list));
    if (claims == NULL || list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < token->n_claims; i++) {
        const struct given_claim *given = &token->claims[i];
        for (size_t j = 0; j < rules->n_claims; j++) {
            if (span_equals(rules->claims[j].text, given->path.text)) {
                list[j] = (struct jwt_claim){.values = given->values,
                                             .n_values = (uint16_t)given->n_values,
                                             .is_single = !given->is_array,
                                             .is_boolean = given->is_boolean};
            }
        }
    }
    *claims =
        (struct jwt_claims){.expires_us = UINT64_MAX, .claims = list, .n_claims = rules->n_claims};
    return claims;
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
