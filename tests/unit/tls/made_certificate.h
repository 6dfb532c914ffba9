/* Certificates that a test makes: any field may be wrong. */

#ifndef SLUICE_TESTS_MADE_CERTIFICATE_H
#define SLUICE_TESTS_MADE_CERTIFICATE_H

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MADE_BEGIN_S = 1700000000, MADE_END_S = 1900000000 };

struct made_certificate {
    X509 *x509;
    EVP_PKEY *key;
};

struct made_options {
    const char *name;                      /* common name */
    const char *san;                       /* "DNS:a.test,IP:192.0.2.1"; NULL: none */
    const char *usage;                     /* extended key usage; NULL: none */
    const struct made_certificate *issuer; /* NULL: self-signed */
    EVP_PKEY *key;                         /* becomes the certificate's */
    const EVP_MD *digest;                  /* of the signature; NULL: SHA-256 */
    int64_t begin_s;                       /* 0: MADE_BEGIN_S */
    int64_t end_s;                         /* 0: MADE_END_S */
    int is_ca;
};

static inline void made_add_extension(X509 *x509, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(x509, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline struct made_certificate made_new(struct made_options options)
{
    static long serial = 1;
    struct made_certificate made = {.x509 = X509_new(), .key = options.key};
    X509 *x509 = made.x509;
    X509_NAME *name = X509_get_subject_name(x509);
    X509 *issuer = options.issuer != NULL ? options.issuer->x509 : x509;
    EVP_PKEY *signer = options.issuer != NULL ? options.issuer->key : options.key;
    ck_assert_ptr_nonnull(options.key);
    X509_set_version(x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)options.name, -1,
                               -1, 0);
    X509_set_issuer_name(x509, X509_get_subject_name(issuer));
    ASN1_TIME_set(X509_getm_notBefore(x509), options.begin_s != 0 ? options.begin_s : MADE_BEGIN_S);
    ASN1_TIME_set(X509_getm_notAfter(x509), options.end_s != 0 ? options.end_s : MADE_END_S);
    X509_set_pubkey(x509, options.key);
    made_add_extension(x509, NID_basic_constraints,
                       options.is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (options.san != NULL) {
        made_add_extension(x509, NID_subject_alt_name, options.san);
    }
    if (options.usage != NULL) {
        made_add_extension(x509, NID_ext_key_usage, options.usage);
    }
    const EVP_MD *digest = EVP_PKEY_get_base_id(signer) == EVP_PKEY_ED25519 ? NULL
                           : options.digest != NULL                         ? options.digest
                                                                            : EVP_sha256();
    ck_assert_int_gt(X509_sign(x509, signer, digest), 0);
    return made;
}

static inline void made_free(struct made_certificate *made)
{
    X509_free(made->x509);
    EVP_PKEY_free(made->key);
}

/* Appends. */
static inline void made_write_certificate(BIO *bio, const struct made_certificate *made)
{
    ck_assert_int_eq(PEM_write_bio_X509(bio, made->x509), 1);
}

/* Appends the key, encrypted if @passphrase is not NULL. */
static inline void made_write_key(BIO *bio, const struct made_certificate *made,
                                  const char *passphrase)
{
    const EVP_CIPHER *cipher = passphrase != NULL ? EVP_aes_256_cbc() : NULL;
    ck_assert_int_eq(
        PEM_write_bio_PrivateKey(bio, made->key, cipher, (const unsigned char *)passphrase,
                                 passphrase != NULL ? (int)strlen(passphrase) : 0, NULL, NULL),
        1);
}

#endif /* SLUICE_TESTS_MADE_CERTIFICATE_H */
