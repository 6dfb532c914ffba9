#include "tls/client_certificate.h"

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { DIGEST_BYTES = 32, DIGEST_DIGITS = 2 * DIGEST_BYTES };

/* Empty, unless all of @bytes can be shown. UTF-8 is let through if @is_utf8. */
static struct span printable(const unsigned char *bytes, int len, bool is_utf8)
{
    if (len <= 0 || len > CERTIFICATE_FACT_BYTES_MAX) {
        return SPAN("");
    }
    for (int i = 0; i < len; i++) {
        if (bytes[i] < ' ' || bytes[i] == 0x7f ||
            (!is_utf8 && (bytes[i] == ' ' || bytes[i] > 0x7f))) {
            return SPAN("");
        }
    }
    return span_of((const char *)bytes, (size_t)len);
}

static struct span first_name(const GENERAL_NAMES *names, int kind)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == kind) {
            return printable(ASN1_STRING_get0_data(name->d.ia5), ASN1_STRING_length(name->d.ia5),
                             false);
        }
    }
    return SPAN("");
}

/* *@utf8 holds it, and is freed by the caller. */
static struct span common_name(X509 *x509, unsigned char **utf8)
{
    const X509_NAME *subject = X509_get_subject_name(x509);
    const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    *utf8 = NULL;
    if (at < 0) {
        return SPAN("");
    }
    const int len =
        ASN1_STRING_to_UTF8(utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    return printable(*utf8, len, true);
}

static char *copy_fact(struct client_certificate *made, enum certificate_fact fact,
                       struct span value, char *at)
{
    for (size_t i = 0; i < value.len; i++) {
        at[i] = fact == CERTIFICATE_DNS ? ascii_lower(value.data[i]) : value.data[i];
    }
    made->facts[fact] = span_of(at, value.len);
    return at + value.len;
}

/* --- the signature --- */

/* The curve of a signature by its numbers, which have as many bytes as the order of the group as a
 * rule. The curves that authorities use; of others the signature is not written anew. */
static int curve_of(const BIGNUM *r, const BIGNUM *s)
{
    const int r_bits = BN_num_bits(r);
    const int s_bits = BN_num_bits(s);
    const int bits = r_bits > s_bits ? r_bits : s_bits;
    return bits <= 256   ? NID_X9_62_prime256v1
           : bits <= 384 ? NID_secp384r1
           : bits <= 521 ? NID_secp521r1
                         : NID_undef;
}

/* The other signature (r, n-s) with which (r, s) holds, in DER, freed by the caller; 0: none. */
static int write_other_signature(const ASN1_BIT_STRING *signature, unsigned char **der)
{
    const unsigned char *at = ASN1_STRING_get0_data(signature);
    ECDSA_SIG *ecdsa = d2i_ECDSA_SIG(NULL, &at, ASN1_STRING_length(signature));
    const BIGNUM *r = ecdsa != NULL ? ECDSA_SIG_get0_r(ecdsa) : NULL;
    const BIGNUM *s = ecdsa != NULL ? ECDSA_SIG_get0_s(ecdsa) : NULL;
    EC_GROUP *group = ecdsa != NULL ? EC_GROUP_new_by_curve_name(curve_of(r, s)) : NULL;
    BIGNUM *new_r = group != NULL ? BN_dup(r) : NULL;
    BIGNUM *new_s = group != NULL ? BN_new() : NULL;
    int len = 0;
    if (new_r != NULL && new_s != NULL && BN_cmp(s, EC_GROUP_get0_order(group)) < 0 &&
        BN_sub(new_s, EC_GROUP_get0_order(group), s) == 1 &&
        ECDSA_SIG_set0(ecdsa, new_r, new_s) == 1) {
        new_r = NULL;
        new_s = NULL;
        len = i2d_ECDSA_SIG(ecdsa, der);
    }
    BN_free(new_r);
    BN_free(new_s);
    EC_GROUP_free(group);
    ECDSA_SIG_free(ecdsa);
    return len > 0 ? len : 0;
}

/* The fingerprint of @x509 with its other signature. False: it has one alone. */
static bool digest_twin(X509 *x509, unsigned char digest[DIGEST_BYTES])
{
    const ASN1_BIT_STRING *signature;
    const X509_ALGOR *algorithm;
    unsigned char *der = NULL;
    int key = NID_undef;
    X509_get0_signature(&signature, &algorithm, x509);
    if (OBJ_find_sigid_algs(X509_get_signature_nid(x509), NULL, &key) != 1 ||
        key != NID_X9_62_id_ecPublicKey) {
        return false;
    }
    X509 *twin = X509_dup(x509);
    const int len = twin != NULL ? write_other_signature(signature, &der) : 0;
    bool is_made = false;
    if (len > 0) {
        X509_get0_signature(&signature, &algorithm, twin);
        /* the copy is ours */
        is_made = ASN1_BIT_STRING_set((ASN1_BIT_STRING *)(uintptr_t)signature, der, len) == 1 &&
                  X509_digest(twin, EVP_sha256(), digest, NULL) == 1;
    }
    OPENSSL_free(der);
    X509_free(twin);
    return is_made;
}

/* The digest of tbsCertificate, the first element of the sequence that @der is. */
static bool digest_signed(const unsigned char *der, long der_len,
                          unsigned char digest[DIGEST_BYTES])
{
    const unsigned char *at = der;
    long len;
    int tag;
    int class;
    if ((ASN1_get_object(&at, &len, &tag, &class, der_len) & 0x80) != 0) {
        return false;
    }
    const unsigned char *start = at;
    if ((ASN1_get_object(&at, &len, &tag, &class, len) & 0x80) != 0) {
        return false;
    }
    const size_t n = (size_t)(at - start) + (size_t)len;
    return EVP_Digest(start, n, digest, NULL, EVP_sha256(), NULL) == 1;
}

static struct span hex_of(const unsigned char digest[DIGEST_BYTES], char hex[DIGEST_DIGITS])
{
    struct text text = text_of(hex, DIGEST_DIGITS);
    text_add_hex(&text, digest, DIGEST_BYTES);
    return text_span(&text);
}

/* --- all of it --- */

static char *copy(struct span value, struct span *copied, char *at)
{
    memcpy(at, value.data, value.len);
    *copied = span_of(at, value.len);
    return at + value.len;
}

/* A copy of what @found borrows, in one block of memory, with @der as its field. */
static struct client_certificate *make(const struct client_certificate *found,
                                       const unsigned char *der, int der_len)
{
    size_t bytes = sizeof(struct client_certificate) + found->identity.len + found->twin.len + 2 +
                   ((size_t)der_len + 2) / 3 * 4 + 1;
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        bytes += found->facts[i].len;
    }
    struct client_certificate *made = malloc(bytes);
    if (made == NULL) {
        return NULL;
    }
    char *at = (char *)(made + 1);
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        at = copy_fact(made, (enum certificate_fact)i, found->facts[i], at);
    }
    at = copy(found->identity, &made->identity, at);
    at = copy(found->twin, &made->twin, at);
    at[0] = ':';
    const int len = EVP_EncodeBlock((unsigned char *)at + 1, der, der_len);
    at[len + 1] = ':';
    made->field = span_of(at, (size_t)len + 2);
    return made;
}

struct client_certificate *client_certificate_new(struct x509_st *x509)
{
    enum { FINGERPRINT, IDENTITY, TWIN, DIGESTS };
    unsigned char digest[DIGESTS][DIGEST_BYTES];
    char hex[DIGESTS][DIGEST_DIGITS];
    unsigned char *der = NULL;
    unsigned char *utf8;
    struct client_certificate *made = NULL;
    const int der_len = i2d_X509(x509, &der);
    if (der_len > 0 && X509_digest(x509, EVP_sha256(), digest[FINGERPRINT], NULL) == 1 &&
        digest_signed(der, der_len, digest[IDENTITY])) {
        GENERAL_NAMES *names = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);
        const struct client_certificate found = {
            .facts = {[CERTIFICATE_FINGERPRINT] = hex_of(digest[FINGERPRINT], hex[FINGERPRINT]),
                      [CERTIFICATE_DNS] = first_name(names, GEN_DNS),
                      [CERTIFICATE_URI] = first_name(names, GEN_URI),
                      [CERTIFICATE_CN] = common_name(x509, &utf8)},
            .identity = hex_of(digest[IDENTITY], hex[IDENTITY]),
            .twin = digest_twin(x509, digest[TWIN]) ? hex_of(digest[TWIN], hex[TWIN]) : SPAN(""),
        };
        made = make(&found, der, der_len);
        GENERAL_NAMES_free(names);
        OPENSSL_free(utf8);
    }
    OPENSSL_free(der);
    ERR_clear_error();
    return made;
}

enum status client_certificate_load(const char *path, struct client_certificate **certificate,
                                    struct certificate_problem *problem)
{
    struct span pem;
    const enum status status = certificate_load_file(path, &pem, problem);
    if (status != STATUS_OK) {
        return status;
    }
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    X509 *x509 = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    *certificate = x509 != NULL ? client_certificate_new(x509) : NULL;
    const bool is_none = bio != NULL && x509 == NULL;
    if (is_none) {
        problem->path = path;
        (void)snprintf(problem->text, sizeof(problem->text), "holds no certificate in PEM");
    }
    X509_free(x509);
    BIO_free(bio);
    certificate_free_file(pem);
    ERR_clear_error();
    return is_none ? STATUS_INVALID : *certificate == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void client_certificate_free(const struct client_certificate *certificate)
{
    free((void *)(uintptr_t)certificate);
}
