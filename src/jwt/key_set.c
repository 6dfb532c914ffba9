#include "jwt/key_set.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/text.h"

enum {
    NUMBER_BYTES_MAX = JWT_RSA_BITS_MAX / 8 + 1, /* with a leading zero */
    EC_BYTES_MAX = 48,
    EC_DER_BYTES_MAX = 2 * EC_BYTES_MAX + 16,
    ED25519_BYTES = 32,
    ED25519_SIGNATURE_BYTES = 64,
    HS256_BYTES = 32,
};

enum key_kind {
    KIND_RSA,
    KIND_P256,
    KIND_P384,
    KIND_ED25519,
    KIND_SECRET,
};

/* What each algorithm needs. */
static const struct {
    struct span name;
    enum key_kind kind;
    const char *digest; /* NULL: the algorithm has its own */
    bool is_pss;
} ALGORITHMS[JWT_ALGORITHMS] = {
    [JWT_RS256] = {{"RS256", 5}, KIND_RSA, "SHA256", false},
    [JWT_RS384] = {{"RS384", 5}, KIND_RSA, "SHA384", false},
    [JWT_RS512] = {{"RS512", 5}, KIND_RSA, "SHA512", false},
    [JWT_PS256] = {{"PS256", 5}, KIND_RSA, "SHA256", true},
    [JWT_ES256] = {{"ES256", 5}, KIND_P256, "SHA256", false},
    [JWT_ES384] = {{"ES384", 5}, KIND_P384, "SHA384", false},
    [JWT_EDDSA] = {{"EdDSA", 5}, KIND_ED25519, NULL, false},
    [JWT_HS256] = {{"HS256", 5}, KIND_SECRET, "SHA256", false},
};

struct key {
    enum key_kind kind;
    unsigned algorithms; /* bits that it may be used for */
    EVP_PKEY *public;    /* NULL for KIND_SECRET */
    char *secret;        /* of KIND_SECRET */
    size_t secret_len;
    bool has_kid;
    size_t kid_len;
    char kid[JWT_KID_BYTES_MAX];
};

struct jwt_key_set {
    atomic_uint references;
    size_t n_keys;
    struct key keys[JWT_KEYS_MAX];
};

enum jwt_algorithm jwt_algorithm_find(struct span name)
{
    enum jwt_algorithm algorithm = JWT_RS256;
    while (algorithm < JWT_ALGORITHMS && !span_equals(ALGORITHMS[algorithm].name, name)) {
        algorithm++;
    }
    return algorithm;
}

struct span jwt_algorithm_name(enum jwt_algorithm algorithm)
{
    return ALGORITHMS[algorithm].name;
}

static unsigned algorithms_of(enum key_kind kind)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < JWT_ALGORITHMS; i++) {
        bits |= ALGORITHMS[i].kind == kind ? 1U << i : 0;
    }
    return bits;
}

/* --- life --- */

static struct jwt_key_set *new_set(void)
{
    struct jwt_key_set *set = calloc(1, sizeof(*set));
    if (set != NULL) {
        atomic_init(&set->references, 1);
    }
    return set;
}

struct jwt_key_set *jwt_key_set_retain(struct jwt_key_set *set)
{
    atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
    return set;
}

void jwt_key_set_release(struct jwt_key_set *set)
{
    if (set == NULL || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < set->n_keys; i++) {
        EVP_PKEY_free(set->keys[i].public);
        if (set->keys[i].secret != NULL) {
            secret_wipe(set->keys[i].secret, set->keys[i].secret_len);
            free(set->keys[i].secret);
        }
    }
    free(set);
}

size_t jwt_key_set_count(const struct jwt_key_set *set)
{
    return set->n_keys;
}

static bool key_equals(const struct key *a, const struct key *b)
{
    return a->kind == b->kind && a->algorithms == b->algorithms && a->has_kid == b->has_kid &&
           span_equals(span_of(a->kid, a->kid_len), span_of(b->kid, b->kid_len)) &&
           span_equals(span_of(a->secret, a->secret_len), span_of(b->secret, b->secret_len)) &&
           (a->public == NULL || EVP_PKEY_eq(a->public, b->public) == 1);
}

bool jwt_key_set_equals(const struct jwt_key_set *a, const struct jwt_key_set *b)
{
    bool is_equal = a->n_keys == b->n_keys;
    for (size_t i = 0; i < a->n_keys && is_equal; i++) {
        is_equal = key_equals(&a->keys[i], &b->keys[i]);
    }
    return is_equal;
}

/* --- keys of OpenSSL --- */

static EVP_PKEY *key_from(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (params != NULL && context != NULL && EVP_PKEY_fromdata_init(context) == 1 &&
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) {
        key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *rsa_key(struct span n, struct span e)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *modulus = BN_bin2bn((const unsigned char *)n.data, (int)n.len, NULL);
    BIGNUM *exponent = BN_bin2bn((const unsigned char *)e.data, (int)e.len, NULL);
    if (builder != NULL && modulus != NULL && exponent != NULL &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
        key = key_from("RSA", builder);
    }
    BN_free(modulus);
    BN_free(exponent);
    OSSL_PARAM_BLD_free(builder);
    return key;
}

static EVP_PKEY *ec_key(const char *group, size_t bytes, struct span x, struct span y)
{
    unsigned char point[1 + 2 * EC_BYTES_MAX] = {4}; /* uncompressed: SEC 1 section 2.3.3 */
    EVP_PKEY *key = NULL;
    if (x.len != bytes || y.len != bytes) {
        return NULL;
    }
    memcpy(point + 1, x.data, bytes);
    memcpy(point + 1 + bytes, y.data, bytes);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (builder != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * bytes) ==
            1) {
        key = key_from("EC", builder);
    }
    OSSL_PARAM_BLD_free(builder);
    return key;
}

/* Whether the public key is on its curve, and so on. */
static bool is_sound(EVP_PKEY *key)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    const bool result = context != NULL && EVP_PKEY_public_check_quick(context) == 1;
    EVP_PKEY_CTX_free(context);
    return result;
}

/* An exponent that is even, 1, or so long that verifying takes long is refused. */
static bool has_good_exponent(EVP_PKEY *key)
{
    BIGNUM *e = NULL;
    const bool result = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e) == 1 &&
                        BN_is_odd(e) && !BN_is_one(e) && BN_num_bits(e) <= 64;
    BN_free(e);
    return result;
}

/* Set the kind of @key by its public key. False: tokens are not verified by such keys. */
static bool set_kind(struct key *key)
{
    char group[32];
    const int bits = EVP_PKEY_get_bits(key->public);
    if (EVP_PKEY_is_a(key->public, "RSA")) {
        key->kind = KIND_RSA;
        return bits >= JWT_RSA_BITS_MIN && bits <= JWT_RSA_BITS_MAX &&
               has_good_exponent(key->public);
    }
    if (EVP_PKEY_is_a(key->public, "ED25519")) {
        key->kind = KIND_ED25519;
        return true;
    }
    if (!EVP_PKEY_is_a(key->public, "EC") ||
        EVP_PKEY_get_utf8_string_param(key->public, OSSL_PKEY_PARAM_GROUP_NAME, group,
                                       sizeof(group), NULL) != 1) {
        return false;
    }
    const struct span name = span_of_text(group);
    key->kind = span_equals(name, SPAN("prime256v1")) ? KIND_P256 : KIND_P384;
    return span_equals(name, SPAN("prime256v1")) || span_equals(name, SPAN("secp384r1"));
}

/* Add the public key, which the set now owns, unless tokens are not verified by such keys. */
static struct key *add_public(struct jwt_key_set *set, EVP_PKEY *public)
{
    struct key *key = &set->keys[set->n_keys];
    *key = (struct key){.public = public};
    if (public == NULL || !set_kind(key) || !is_sound(public)) {
        EVP_PKEY_free(public);
        *key = (struct key){.public = NULL};
        ERR_clear_error();
        return NULL;
    }
    key->algorithms = algorithms_of(key->kind);
    set->n_keys++;
    return key;
}

/* --- JWK --- */

static struct span text_member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_string(value) ? span_of(json_string_value(value), json_string_length(value))
                                 : span_of(NULL, 0);
}

/* The bytes of a member in base64url; empty: there are none. */
static struct span bytes_member(const json_t *object, const char *name, uint8_t *buffer,
                                size_t capacity)
{
    size_t len;
    if (!base64url_decode(text_member(object, name), buffer, capacity, &len)) {
        len = 0;
    }
    return span_of((const char *)buffer, len);
}

static EVP_PKEY *public_of_jwk(const json_t *jwk)
{
    uint8_t buffers[2][NUMBER_BYTES_MAX];
    const struct span type = text_member(jwk, "kty");
    const struct span curve = text_member(jwk, "crv");
    if (span_equals(type, SPAN("RSA"))) {
        const struct span n = bytes_member(jwk, "n", buffers[0], sizeof(buffers[0]));
        const struct span e = bytes_member(jwk, "e", buffers[1], sizeof(buffers[1]));
        return n.len > 0 && e.len > 0 ? rsa_key(n, e) : NULL;
    }
    const struct span x = bytes_member(jwk, "x", buffers[0], sizeof(buffers[0]));
    const struct span y = bytes_member(jwk, "y", buffers[1], sizeof(buffers[1]));
    if (span_equals(type, SPAN("EC")) && span_equals(curve, SPAN("P-256"))) {
        return ec_key("prime256v1", 32, x, y);
    }
    if (span_equals(type, SPAN("EC")) && span_equals(curve, SPAN("P-384"))) {
        return ec_key("secp384r1", EC_BYTES_MAX, x, y);
    }
    if (span_equals(type, SPAN("OKP")) && span_equals(curve, SPAN("Ed25519")) &&
        x.len == ED25519_BYTES) {
        return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)x.data,
                                           x.len);
    }
    return NULL;
}

/* Whether `use` and `key_ops`, where they stand, allow to verify. */
static bool may_verify(const json_t *jwk)
{
    const json_t *use = json_object_get(jwk, "use");
    const json_t *operations = json_object_get(jwk, "key_ops");
    bool verifies = operations == NULL;
    for (size_t i = 0; i < json_array_size(operations); i++) {
        const json_t *operation = json_array_get(operations, i);
        verifies = verifies || (json_is_string(operation) &&
                                strcmp(json_string_value(operation), "verify") == 0);
    }
    return verifies && (use == NULL || span_equals(text_member(jwk, "use"), SPAN("sig")));
}

static void add_jwk(struct jwt_key_set *set, const json_t *jwk)
{
    const json_t *algorithm = json_object_get(jwk, "alg");
    const json_t *kid = json_object_get(jwk, "kid");
    const struct span kid_text = text_member(jwk, "kid");
    unsigned allowed = ~0U;
    if (algorithm != NULL) {
        const enum jwt_algorithm found = jwt_algorithm_find(text_member(jwk, "alg"));
        allowed = found < JWT_ALGORITHMS ? 1U << found : 0;
    }
    if (!may_verify(jwk) || kid_text.len > JWT_KID_BYTES_MAX ||
        (kid != NULL && !json_is_string(kid)) || allowed == 0) {
        return;
    }
    struct key *key = add_public(set, public_of_jwk(jwk));
    if (key == NULL) {
        return;
    }
    key->algorithms &= allowed;
    key->has_kid = kid != NULL;
    key->kid_len = kid_text.len;
    if (kid_text.len > 0) {
        memcpy(key->kid, kid_text.data, kid_text.len);
    }
}

static bool read_jwks(struct jwt_key_set *set, struct span text, struct text *problem)
{
    json_error_t error;
    json_t *document = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    const json_t *keys = json_object_get(document, "keys");
    const size_t n = json_array_size(keys);
    if (document == NULL) {
        return text_refuse(problem, "is not JSON: line %d, column %d: %s", error.line, error.column,
                           error.text);
    }
    for (size_t i = 0; i < n && n <= JWT_KEYS_MAX; i++) {
        add_jwk(set, json_array_get(keys, i));
    }
    const bool is_set = json_is_array(keys);
    json_decref(document);
    if (!is_set) {
        return text_refuse(problem, "is no JWK set: it has no list \"keys\"");
    }
    return n <= JWT_KEYS_MAX || text_refuse(problem, "has more than %d keys", JWT_KEYS_MAX);
}

/* --- PEM --- */

static bool read_pem(struct jwt_key_set *set, struct span text, struct text *problem)
{
    BIO *bio = BIO_new_mem_buf(text.data, (int)text.len);
    size_t n = 0;
    EVP_PKEY *public;
    while (bio != NULL && n <= JWT_KEYS_MAX &&
           (public = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL)) != NULL) {
        if (++n <= JWT_KEYS_MAX) {
            (void)add_public(set, public);
        } else {
            EVP_PKEY_free(public);
        }
    }
    BIO_free(bio);
    ERR_clear_error();
    if (n == 0) {
        return text_refuse(problem, "is neither a JWK set nor a public key in PEM");
    }
    return n <= JWT_KEYS_MAX || text_refuse(problem, "has more than %d keys", JWT_KEYS_MAX);
}

struct jwt_key_set *jwt_key_set_read(struct span text, struct text *problem)
{
    struct jwt_key_set *set = new_set();
    size_t start = 0;
    if (set == NULL) {
        (void)text_refuse(problem, "out of memory");
        return NULL;
    }
    while (start < text.len && strchr(" \t\r\n", text.data[start]) != NULL &&
           text.data[start] != '\0') {
        start++;
    }
    bool is_good = text.len <= JWT_KEY_SET_BYTES_MAX || text_refuse(problem, "has more than 1 MiB");
    if (is_good) {
        is_good = start < text.len && text.data[start] == '{' ? read_jwks(set, text, problem)
                                                              : read_pem(set, text, problem);
    }
    if (!is_good) {
        jwt_key_set_release(set);
        return NULL;
    }
    return set;
}

/* @set if it has keys. NULL: it is released. */
static struct jwt_key_set *refuse_empty(struct jwt_key_set *set, struct text *problem)
{
    if (set != NULL && set->n_keys == 0) {
        (void)text_refuse(problem, "has no key that can verify a token: RSA from 2048 bits, "
                                   "P-256, P-384 or Ed25519");
        jwt_key_set_release(set);
        return NULL;
    }
    return set;
}

struct jwt_key_set *jwt_key_set_load(const char *path, struct text *problem)
{
    FILE *file = fopen(path, "rbe");
    char *bytes = malloc(JWT_KEY_SET_BYTES_MAX + 1);
    struct jwt_key_set *set = NULL;
    if (file == NULL || bytes == NULL) {
        (void)text_refuse(problem, "cannot be read: %s", strerror(errno));
    } else {
        const size_t len = fread(bytes, 1, JWT_KEY_SET_BYTES_MAX + 1, file);
        if (ferror(file) != 0) {
            (void)text_refuse(problem, "cannot be read: %s", strerror(errno));
        } else {
            set = refuse_empty(jwt_key_set_read(span_of(bytes, len), problem), problem);
        }
    }
    free(bytes);
    if (file != NULL) {
        (void)fclose(file);
    }
    return set;
}

struct jwt_key_set *jwt_key_set_of_secret(struct span secret)
{
    struct jwt_key_set *set = new_set();
    char *copy = malloc(secret.len + 1);
    assert(secret.len >= JWT_SECRET_BYTES_MIN);
    if (set == NULL || copy == NULL) {
        free(copy);
        jwt_key_set_release(set);
        return NULL;
    }
    memcpy(copy, secret.data, secret.len);
    set->keys[0] = (struct key){.kind = KIND_SECRET,
                                .algorithms = algorithms_of(KIND_SECRET),
                                .secret = copy,
                                .secret_len = secret.len};
    set->n_keys = 1;
    return set;
}

/* --- signatures --- */

/* The length of a signature by @key under @algorithm, bytes. */
static size_t signature_bytes(const struct key *key)
{
    switch (key->kind) {
    case KIND_RSA:
        return ((size_t)EVP_PKEY_get_bits(key->public) + 7) / 8;
    case KIND_P256:
        return 64;
    case KIND_P384:
        return 96;
    case KIND_ED25519:
        return ED25519_SIGNATURE_BYTES;
    case KIND_SECRET:
        return HS256_BYTES;
    }
    return 0;
}

/* Write the signature r‖s as DER, which EVP takes. Returns its length; 0: failure. */
static size_t write_der(struct span signature, unsigned char der[EC_DER_BYTES_MAX])
{
    const size_t half = signature.len / 2;
    const unsigned char *bytes = (const unsigned char *)signature.data;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(bytes, (int)half, NULL);
    BIGNUM *s = BN_bin2bn(bytes + half, (int)half, NULL);
    int len = 0;
    if (pair == NULL || r == NULL || s == NULL || ECDSA_SIG_set0(pair, r, s) != 1) {
        BN_free(r);
        BN_free(s);
    } else if (i2d_ECDSA_SIG(pair, NULL) <= EC_DER_BYTES_MAX) {
        len = i2d_ECDSA_SIG(pair, &der);
    }
    ECDSA_SIG_free(pair);
    return len > 0 ? (size_t)len : 0;
}

static bool set_padding(EVP_PKEY_CTX *context, bool is_pss)
{
    return is_pss ? EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
                        EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1
                  : EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
}

static bool verify_public(const struct key *key, enum jwt_algorithm algorithm, struct span input,
                          struct span signature)
{
    unsigned char der[EC_DER_BYTES_MAX];
    const bool is_ec = key->kind == KIND_P256 || key->kind == KIND_P384;
    if (is_ec) {
        const size_t len = write_der(signature, der);
        signature = span_of((const char *)der, len);
    }
    EVP_PKEY_CTX *options; /* owned by the context */
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const bool is_good =
        context != NULL && signature.len > 0 &&
        EVP_DigestVerifyInit_ex(context, &options, ALGORITHMS[algorithm].digest, NULL, NULL,
                                key->public, NULL) == 1 &&
        (key->kind != KIND_RSA || set_padding(options, ALGORITHMS[algorithm].is_pss)) &&
        EVP_DigestVerify(context, (const unsigned char *)signature.data, signature.len,
                         (const unsigned char *)input.data, input.len) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return is_good;
}

static bool verify_secret(const struct key *key, struct span input, struct span signature)
{
    unsigned char code[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    return HMAC(EVP_sha256(), key->secret, (int)key->secret_len, (const unsigned char *)input.data,
                input.len, code, &len) != NULL &&
           len == signature.len && CRYPTO_memcmp(code, signature.data, len) == 0;
}

static bool fits(const struct key *key, enum jwt_algorithm algorithm, struct span kid)
{
    return (key->algorithms >> algorithm & 1) != 0 &&
           (!key->has_kid || kid.data == NULL || span_equals(span_of(key->kid, key->kid_len), kid));
}

enum jwt_signature_result jwt_key_set_verify(const struct jwt_key_set *set,
                                             enum jwt_algorithm algorithm, struct span kid,
                                             struct span input, struct span signature,
                                             unsigned *n_computed)
{
    const struct key *fitting[JWT_KEYS_TRIED_MAX];
    size_t n = 0;
    *n_computed = 0;
    for (size_t i = 0; i < set->n_keys; i++) {
        if (!fits(&set->keys[i], algorithm, kid)) {
            continue;
        }
        if (n == JWT_KEYS_TRIED_MAX) {
            return JWT_SIGNATURE_MANY;
        }
        fitting[n++] = &set->keys[i];
    }
    enum jwt_signature_result result = n > 0 ? JWT_SIGNATURE_LENGTH_WRONG : JWT_SIGNATURE_NO_KEY;
    for (size_t i = 0; i < n; i++) {
        if (signature.len != signature_bytes(fitting[i])) {
            continue;
        }
        result = JWT_SIGNATURE_BAD;
        ++*n_computed;
        if (fitting[i]->kind == KIND_SECRET
                ? verify_secret(fitting[i], input, signature)
                : verify_public(fitting[i], algorithm, input, signature)) {
            return JWT_SIGNATURE_GOOD;
        }
    }
    return result;
}
