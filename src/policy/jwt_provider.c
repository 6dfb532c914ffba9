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

/* Whether nothing was judged of the token but its form. */
static bool is_unread(enum jwt_result result)
{
    return result == JWT_TOO_LONG || result == JWT_MALFORMED || result == JWT_BAD_HEADER ||
           result == JWT_BAD_PAYLOAD || result == JWT_MANY_KEYS || result == JWT_SIGNATURE_LENGTH;
}

/* Whether a server may take the token though it was not verified here. Its user may have brought
 * that about, by a claim that he writes, such as a nickname, or by digits without a meaning. */
static bool may_be_taken(const struct token_view *token)
{
    const enum jwt_result result = token->result;
    return (token->has_form && is_unread(result)) || result == JWT_SEVERAL ||
           result == JWT_SPELLING || result == JWT_TOO_MANY_FAILURES || result == JWT_UNREAD ||
           result == JWT_NO_MEMORY;
}

bool token_view_is_refused(const struct token_view *token)
{
    return token->is_sent && token->claims == NULL &&
           (token->provider->on_invalid == JWT_INVALID_IS_DENIED || may_be_taken(token));
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
