/* Makes keys and signed tokens for tests. Everything returned is of malloc() unless said otherwise;
 * failures end the test program. */

#ifndef SLUICE_SUPPORT_JWT_SIGNER_H
#define SLUICE_SUPPORT_JWT_SIGNER_H

#include <stddef.h>

#include "jwt/key_set.h"

struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* A new private key that fits @algorithm; @rsa_bits is of RSA keys. Free it by signer_free(). */
struct evp_pkey_st *signer_key(enum jwt_algorithm algorithm, unsigned rsa_bits);
void signer_free(struct evp_pkey_st *key);

/* Base64url of @len bytes, NUL-terminated. */
char *signer_base64(const void *bytes, size_t len);

/* The public key as a JWK with the further members @more, as `,"kid":"a"`. */
char *signer_jwk(struct evp_pkey_st *key, const char *more);

/* The public key in PEM. */
char *signer_pem(struct evp_pkey_st *key);

/* A token of the JSON texts @header and @payload, signed by @key under @algorithm; HS256: by
 * @secret. */
char *signer_token(enum jwt_algorithm algorithm, struct evp_pkey_st *key, const char *secret,
                   const char *header, const char *payload);

#endif /* SLUICE_SUPPORT_JWT_SIGNER_H */
