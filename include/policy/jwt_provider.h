/* Whose tokens a policy takes, and what a request's token says to the routes that read it. */

#ifndef SLUICE_POLICY_JWT_PROVIDER_H
#define SLUICE_POLICY_JWT_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "jwt/verifier.h"
#include "policy/key_parts.h"

enum jwt_on_invalid {
    JWT_INVALID_IS_DENIED,  /* 401 */
    JWT_INVALID_IS_MISSING, /* as if there were no token */
};

/* An entry of the section `jwt`. */
struct jwt_provider {
    struct span name;
    /* keys: a reference that policy_free() releases; NULL: the file that has them was not read,
     * which only loader_load_file_to_serve() and loader_check_file() do */
    struct jwt_source source;
    struct key_part from; /* headers, cookies and parameters that may hold the token */
    enum jwt_on_invalid on_invalid;
};

/* What is known of a request's token. Each route with a provider reads it by its own; the last
 * reading is kept. */
struct token_view {
    /* Set by the caller. Reads the token of @request by @provider and sets the rest. */
    void (*read)(struct token_view *token, const struct request_view *request,
                 const struct jwt_provider *provider);
    const struct jwt_provider *provider; /* NULL: nothing was read yet, and the rest is not set */
    bool is_sent;                        /* the request has a token */
    bool has_form;                       /* it has the form of a JWT, valid or not */
    enum jwt_result result;              /* of a token that is sent */
    const struct jwt_claims *claims;     /* of a valid one; else NULL */
};

/* A claim of a token that is described in place of being sent. */
struct given_claim {
    struct jwt_path path;
    const struct span *values;
    size_t n_values;
    bool is_array; /* true also of more than one value */
    bool is_boolean;
};

/* A token that counts as valid for each provider. */
struct given_token {
    const struct given_claim *claims;
    size_t n_claims;
};

/* A condition of a route: a claim is one of the values, is an array with one of them, or is `scope`
 * and one of its words is. */
struct claim_match {
    struct span path;
    uint16_t claim; /* index of the policy's claims */
    bool is_scope;
    struct span *values;
    size_t n_values;
};

/* Read the token of @request by @provider, unless it was. NULL: it is missing or not valid. */
const struct jwt_claims *token_view_claims(struct token_view *token,
                                           const struct request_view *request,
                                           const struct jwt_provider *provider);

/* Whether the token of the latest reading is a reason to refuse the request: it is not valid, and
 * on_invalid denies it; or a server may take one that was not read or not verified. */
bool token_view_is_refused(const struct token_view *token);

/* The claims of @token that @rules name, in @arena, with the values borrowed. NULL: no memory. */
MUST_USE const struct jwt_claims *given_token_claims(const struct given_token *token,
                                                     const struct jwt_rules *rules,
                                                     struct arena *arena);

bool claim_match_holds(const struct claim_match *match, const struct jwt_claims *claims);

#endif /* SLUICE_POLICY_JWT_PROVIDER_H */
