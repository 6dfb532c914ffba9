/* Keys that verify tokens: read from a JWK set (RFC 7517, 7518, 8037), from PEM, or a shared
 * secret. A set is immutable and shared by threads. */

#ifndef SLUICE_JWT_KEY_SET_H
#define SLUICE_JWT_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* X(ID, "name"): the algorithms of signatures. The order is of the bits of a mask. */
#define JWT_ALGORITHM_LIST(X)                                                                      \
    X(RS256, "RS256")                                                                              \
    X(RS384, "RS384")                                                                              \
    X(RS512, "RS512")                                                                              \
    X(PS256, "PS256")                                                                              \
    X(ES256, "ES256")                                                                              \
    X(ES384, "ES384")                                                                              \
    X(EDDSA, "EdDSA")                                                                              \
    X(HS256, "HS256")

enum jwt_algorithm {
#define JWT_ALGORITHM_ENUM(id, name) JWT_##id,
    JWT_ALGORITHM_LIST(JWT_ALGORITHM_ENUM)
#undef JWT_ALGORITHM_ENUM
        JWT_ALGORITHMS,
};

enum {
    JWT_KEYS_MAX = 64,                   /* in a set */
    JWT_KEY_SET_BYTES_MAX = 1024 * 1024, /* of its text */
    JWT_KID_BYTES_MAX = 256,
    JWT_RSA_BITS_MIN = 2048,
    JWT_RSA_BITS_MAX = 8192, /* a greater modulus costs more than a request may */
    JWT_SECRET_BYTES_MIN = 32,
    JWT_KEYS_TRIED_MAX = 8, /* for one token */
};

struct jwt_key_set;

/* The algorithm called @name; JWT_ALGORITHMS: there is none. Case-sensitive, as RFC 7515 says. */
enum jwt_algorithm jwt_algorithm_find(struct span name);

struct span jwt_algorithm_name(enum jwt_algorithm algorithm);

/* Read a JWK set if @text begins with `{`, else public keys in PEM. Keys of a set that cannot
 * verify a token are left out: of other types and curves, for encryption, symmetric, malformed, or
 * RSA of a size that is not allowed. The result may have no key: so an issuer withdraws its last.
 * NULL: @problem says why; more than JWT_KEYS_MAX keys are a problem. Release the result. */
MUST_USE struct jwt_key_set *jwt_key_set_read(struct span text, struct text *problem);

/* As jwt_key_set_read(), of the file at @path; no usable key is a problem. */
MUST_USE struct jwt_key_set *jwt_key_set_load(const char *path, struct text *problem);

/* A set of one secret of at least JWT_SECRET_BYTES_MIN bytes, for HS256. NULL: no memory. */
MUST_USE struct jwt_key_set *jwt_key_set_of_secret(struct span secret);

struct jwt_key_set *jwt_key_set_retain(struct jwt_key_set *set);

/* NULL is a no-op. */
void jwt_key_set_release(struct jwt_key_set *set);

size_t jwt_key_set_count(const struct jwt_key_set *set);

/* Whether @a and @b have the same keys in the same order. */
bool jwt_key_set_equals(const struct jwt_key_set *a, const struct jwt_key_set *b);

enum jwt_signature_result {
    JWT_SIGNATURE_GOOD,
    JWT_SIGNATURE_BAD,          /* a key was tried */
    JWT_SIGNATURE_NO_KEY,       /* none has this kid and fits: nothing was computed */
    JWT_SIGNATURE_MANY,         /* there is no kid, and more than JWT_KEYS_TRIED_MAX keys fit */
    JWT_SIGNATURE_LENGTH_WRONG, /* for the algorithm and key: nothing was computed */
};

/* Verify @signature, as bytes, of @input by the keys of @set that fit @algorithm and have the key
 * id @kid (data NULL: the token has none). A key without an id fits any. *n_computed: by how many
 * it was tried. */
enum jwt_signature_result jwt_key_set_verify(const struct jwt_key_set *set,
                                             enum jwt_algorithm algorithm, struct span kid,
                                             struct span input, struct span signature,
                                             unsigned *n_computed);

#endif /* SLUICE_JWT_KEY_SET_H */
