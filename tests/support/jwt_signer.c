#include "support/jwt_signer.h"

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "jwt_signer: %s failed\n", what);
        abort();
    }
}

/* The @n texts, one behind the other. */
static char *join(const char *const *texts, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len += strlen(texts[i]);
    }
    char *whole = malloc(len + 1);
    must(whole != NULL, "malloc");
    char *end = whole;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(texts[i]);
        memcpy(end, texts[i], bytes);
        end += bytes;
    }
    *end = '\0';
    return whole;
}

#define JOIN(...)                                                                                  \
    join((const char *const[]){__VA_ARGS__},                                                       \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

EVP_PKEY *signer_key(enum jwt_algorithm algorithm, unsigned rsa_bits)
{
    EVP_PKEY *key = NULL;
    switch (algorithm) {
    case JWT_RS256:
    case JWT_RS384:
    case JWT_RS512:
    case JWT_PS256:
        key = EVP_RSA_gen(rsa_bits);
        break;
    case JWT_ES256:
        key = EVP_EC_gen("P-256");
        break;
    case JWT_ES384:
        key = EVP_EC_gen("P-384");
        break;
    case JWT_EDDSA:
        key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        break;
    case JWT_HS256:
    case JWT_ALGORITHMS:
        break;
    }
    must(key != NULL, "key generation");
    return key;
}

void signer_free(EVP_PKEY *key)
{
    EVP_PKEY_free(key);
}

char *signer_base64(const void *bytes, size_t len)
{
    char *text = malloc(len / 3 * 4 + 5);
    must(text != NULL, "malloc");
    int n = EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
    while (n > 0 && text[n - 1] == '=') {
        n--;
    }
    text[n] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    }
    return text;
}

static char *number_base64(EVP_PKEY *key, const char *name, int len)
{
    unsigned char bytes[2048];
    BIGNUM *number = NULL;
    must(EVP_PKEY_get_bn_param(key, name, &number) == 1, "reading a number");
    const int n = len > 0 ? len : BN_num_bytes(number);
    must(BN_bn2binpad(number, bytes, n) == n, "writing a number");
    BN_free(number);
    return signer_base64(bytes, (size_t)n);
}

char *signer_jwk(EVP_PKEY *key, const char *more)
{
    char *first;
    char *second = NULL;
    char *jwk;
    unsigned char raw[32];
    size_t len = sizeof(raw);
    if (EVP_PKEY_is_a(key, "RSA")) {
        first = number_base64(key, OSSL_PKEY_PARAM_RSA_N, 0);
        second = number_base64(key, OSSL_PKEY_PARAM_RSA_E, 0);
        jwk = JOIN("{\"kty\":\"RSA\",\"n\":\"", first, "\",\"e\":\"", second, "\"", more, "}");
    } else if (EVP_PKEY_is_a(key, "EC")) {
        const bool is_256 = EVP_PKEY_get_bits(key) == 256;
        first = number_base64(key, OSSL_PKEY_PARAM_EC_PUB_X, is_256 ? 32 : 48);
        second = number_base64(key, OSSL_PKEY_PARAM_EC_PUB_Y, is_256 ? 32 : 48);
        jwk = JOIN("{\"kty\":\"EC\",\"crv\":\"", is_256 ? "P-256" : "P-384", "\",\"x\":\"", first,
                   "\",\"y\":\"", second, "\"", more, "}");
    } else {
        must(EVP_PKEY_get_raw_public_key(key, raw, &len) == 1, "reading a raw key");
        first = signer_base64(raw, len);
        jwk = JOIN("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"", first, "\"", more, "}");
    }
    free(first);
    free(second);
    return jwk;
}

char *signer_pem(EVP_PKEY *key)
{
    char *bytes;
    BIO *bio = BIO_new(BIO_s_mem());
    must(bio != NULL && PEM_write_bio_PUBKEY(bio, key) == 1, "writing PEM");
    const long len = BIO_get_mem_data(bio, &bytes);
    char *text = strndup(bytes, (size_t)len);
    BIO_free(bio);
    must(text != NULL, "strndup");
    return text;
}

/* r‖s of the DER signature *@signature, each of @half bytes. */
static void flatten(unsigned char *signature, size_t *len, int half)
{
    const unsigned char *at = signature;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)*len);
    must(pair != NULL, "reading a signature");
    must(BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, half) == half, "writing r");
    must(BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + half, half) == half, "writing s");
    ECDSA_SIG_free(pair);
    *len = 2 * (size_t)half;
}

static const char *digest_of(enum jwt_algorithm algorithm)
{
    if (algorithm == JWT_EDDSA) {
        return NULL;
    }
    return algorithm == JWT_RS384 || algorithm == JWT_ES384 ? "SHA384"
           : algorithm == JWT_RS512                         ? "SHA512"
                                                            : "SHA256";
}

static void sign(enum jwt_algorithm algorithm, EVP_PKEY *key, const char *input,
                 unsigned char *signature, size_t *len)
{
    EVP_PKEY_CTX *options;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    must(EVP_DigestSignInit_ex(context, &options, digest_of(algorithm), NULL, NULL, key, NULL) == 1,
         "starting a signature");
    if (algorithm == JWT_PS256) {
        must(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
                 EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1,
             "padding");
    }
    must(EVP_DigestSign(context, signature, len, (const unsigned char *)input, strlen(input)) == 1,
         "signing");
    EVP_MD_CTX_free(context);
    if (algorithm == JWT_ES256 || algorithm == JWT_ES384) {
        flatten(signature, len, algorithm == JWT_ES256 ? 32 : 48);
    }
}

char *signer_token(enum jwt_algorithm algorithm, EVP_PKEY *key, const char *secret,
                   const char *header, const char *payload)
{
    unsigned char signature[2048];
    size_t len = sizeof(signature);
    unsigned code_len = 0;
    char *first = signer_base64(header, strlen(header));
    char *second = signer_base64(payload, strlen(payload));
    char *input = JOIN(first, ".", second);
    if (algorithm == JWT_HS256) {
        must(HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)input,
                  strlen(input), signature, &code_len) != NULL,
             "HMAC");
        len = code_len;
    } else {
        sign(algorithm, key, input, signature, &len);
    }
    char *third = signer_base64(signature, len);
    char *token = JOIN(input, ".", third);
    free(first);
    free(second);
    free(third);
    free(input);
    return token;
}
