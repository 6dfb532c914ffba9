/* JSON Web Tokens in compact form (RFC 7519, 7515, 8725): a token, a set of keys, rules and a time
 * give claims or a refusal. No I/O, no clock.
 *
 *   length ─► parts ─► header: alg, typ, crit ─► claims: exp, nbf, iss, aud ─► signature
 *
 * What is cheap comes before the signature, which is what costs. */

#ifndef SLUICE_JWT_TOKEN_H
#define SLUICE_JWT_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "jwt/key_set.h"

enum {
    JWT_TOKEN_BYTES_MAX = 8 * 1024,
    JWT_CLAIMS_MAX = 64, /* that a policy reads */
    JWT_PATH_NAMES_MAX = 8,
    JWT_PATH_BYTES_MAX = 128,  /* of a path, as text */
    JWT_VALUES_MAX = 64,       /* of an array; further ones are not seen */
    JWT_VALUE_BYTES_MAX = 512, /* of one value; a longer one is not seen */
};

/* X(ID, "why a token is refused", whether its signature failed) */
#define JWT_RESULT_LIST(X)                                                                         \
    X(VALID, "")                                                                                   \
    X(TOO_LONG, "the token has more than 8 KiB")                                                   \
    X(SEVERAL, "the request has several tokens")                                                   \
    X(SPELLING, "the request has a token in a spelling that only some servers read")               \
    X(MALFORMED, "the token is not three parts in base64url")                                      \
    X(BAD_HEADER, "the token's header is not a JSON object, or names a member twice")              \
    X(BAD_PAYLOAD,                                                                                 \
      "the token's claims are not a JSON object, name a member twice, or cannot be read")          \
    X(ALGORITHM, "the token's alg is not allowed")                                                 \
    X(TYPE, "the token's typ is not allowed")                                                      \
    X(CRITICAL, "the token has crit, and no extension is known")                                   \
    X(NO_EXPIRY, "the token has no exp, or it is not a number")                                    \
    X(EXPIRED, "the token has expired")                                                            \
    X(NOT_BEFORE, "the token's nbf is not a number")                                               \
    X(TOO_EARLY, "the token is not valid yet")                                                     \
    X(ISSUER, "the token's iss is not allowed")                                                    \
    X(AUDIENCE, "the token's aud is not allowed")                                                  \
    X(UNKNOWN_KEY, "no key has the token's kid and fits its alg")                                  \
    X(KEYS_WITHDRAWN, "no key of the issuer can verify a token")                                   \
    X(MANY_KEYS, "the token has no kid, and too many keys fit")                                    \
    X(SIGNATURE_LENGTH, "the token's signature has not the length of its alg")                     \
    X(SIGNATURE, "the token's signature is wrong")                                                 \
    X(NO_KEYS, "there are no keys to verify tokens with yet")                                      \
    X(UNREAD, "the token was not read: a limit denied the request whatever it says")               \
    X(TOO_MANY_FAILURES, "too many tokens with wrong signatures came from this address")           \
    X(NO_MEMORY, "out of memory")

enum jwt_result {
#define JWT_RESULT_ENUM(id, text) JWT_##id,
    JWT_RESULT_LIST(JWT_RESULT_ENUM)
#undef JWT_RESULT_ENUM
        JWT_RESULTS,
};

/* Why a token is refused, for people. */
const char *jwt_result_text(enum jwt_result result);

/* The path to a claim: names of members from the outside in. */
struct jwt_path {
    struct span names[JWT_PATH_NAMES_MAX];
    size_t n_names;
    struct span text; /* as jwt_path_parse() writes it */
};

/* Read `sub`, `realm_access.roles` or `"https://example.com/x".plan`: names of letters, digits, `_`
 * and `-` separated by dots; any other name in quotes, in which a backslash stands before `"` and
 * `\`. Names are copied into @arena. False: @problem says why. */
MUST_USE bool jwt_path_parse(struct span text, struct arena *arena, struct jwt_path *path,
                             struct text *problem);

/* The digest that stands for a claim's value in keys: whoever reads the claim first computes it. */
struct jwt_digest {
    bool is_known;
    uint8_t bytes[HASH_IDENTITY_BYTES];
};

/* A claim. */
struct jwt_claim {
    const struct span *values; /* the value, or those of an array */
    struct jwt_digest *digest; /* NULL: the token is not remembered */
    uint16_t n_values;         /* 0: missing, or nothing of a kind that is read */
    bool is_single;            /* not an array */
    bool is_boolean;           /* and its text is `true` or `false` */
};

/* The value of a claim that is a string or a whole number of at most 53 bits; empty: it is missing,
 * or something else. */
static inline struct span jwt_claim_text(const struct jwt_claim *claim)
{
    return claim->n_values == 1 && claim->is_single && !claim->is_boolean ? claim->values[0]
                                                                          : span_of(NULL, 0);
}

/* The claims of a valid token that rules name. */
struct jwt_claims {
    uint64_t expires_us; /* us since the epoch, with the leeway: from then on it is invalid */
    const struct jwt_claim *claims; /* by index of rules->claims */
    size_t n_claims;
};

/* What is asked of a token. */
struct jwt_rules {
    unsigned algorithms; /* bit i: enum jwt_algorithm i is allowed */
    const struct span *issuers;
    size_t n_issuers; /* 0: any */
    const struct span *audiences;
    size_t n_audiences; /* 0: any */
    const struct span *types;
    size_t n_types; /* 0: any, and none */
    uint64_t leeway_us;
    const struct jwt_path *claims; /* that are read */
    size_t n_claims;
};

/* The times at which a token has a result, us since the epoch. */
struct jwt_period {
    uint64_t from_us;
    uint64_t until_us; /* from then on it has another */
};

/* Verify @token at @wall_us, us since the epoch. @keys: NULL gives JWT_NO_KEYS for a token with
 * nothing else wrong. JWT_VALID: @claims is set; its memory is of @arena. *period: when the same
 * rules and keys have the same result, unless that is JWT_NO_MEMORY. *n_computed: by how many keys
 * the signature was tried. */
enum jwt_result jwt_verify(const struct jwt_rules *rules, const struct jwt_key_set *keys,
                           struct span token, uint64_t wall_us, struct arena *arena,
                           struct jwt_claims *claims, struct jwt_period *period,
                           unsigned *n_computed);

#endif /* SLUICE_JWT_TOKEN_H */
