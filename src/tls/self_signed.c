#include "tls/certificate.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/text.h"

enum { NAME_BYTES = HOST_BYTES_MAX + 8 };

/* Add @name to the list that OpenSSL reads: "DNS:a.test,IP:192.0.2.1". False: it is no name. */
static bool add_name(struct text *list, struct span name)
{
    char buffer[HOST_BYTES_MAX];
    char terminated[INET6_ADDRSTRLEN];
    unsigned char address[16];
    struct span normal;
    struct span host = name;
    (void)snprintf(terminated, sizeof(terminated), "%.*s", SPAN_ARGS(name));
    if (name.len < sizeof(terminated) && (inet_pton(AF_INET, terminated, address) == 1 ||
                                          inet_pton(AF_INET6, terminated, address) == 1)) {
        text_add_format(list, ",IP:%s", terminated);
        return !list->truncated;
    }
    const bool is_wildcard = span_starts_with(name, SPAN("*."));
    host = is_wildcard ? span_of(name.data + 2, name.len - 2) : name;
    if (!server_names_normalise(host, buffer, &normal)) {
        return false;
    }
    text_add_format(list, ",DNS:%s%.*s", is_wildcard ? "*." : "", SPAN_ARGS(normal));
    return !list->truncated;
}

static bool add_extension(X509 *x509, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, x509, x509, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    const bool is_good = extension != NULL && X509_add_ext(x509, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_good;
}

/* All but dates and names. */
static bool fill(X509 *x509, EVP_PKEY *key)
{
    uint64_t serial;
    hash_random(&serial, sizeof(serial));
    return X509_set_version(x509, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(x509), serial >> 1) == 1 &&
           X509_set_pubkey(x509, key) == 1 &&
           add_extension(x509, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(x509, NID_key_usage, "critical,digitalSignature") &&
           add_extension(x509, NID_ext_key_usage, "serverAuth") &&
           add_extension(x509, NID_subject_key_identifier, "hash");
}

static bool set_dates(X509 *x509, int64_t now_s, unsigned days)
{
    return ASN1_TIME_set(X509_getm_notBefore(x509), now_s - 3600) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(x509), now_s + (int64_t)days * 86400) != NULL;
}

static bool set_names(X509 *x509, struct span first, const char *alternatives)
{
    enum { COMMON_NAME_BYTES_MAX = 64 }; /* RFC 5280, ub-common-name */
    X509_NAME *name = X509_get_subject_name(x509);
    const int len = first.len < COMMON_NAME_BYTES_MAX ? (int)first.len : COMMON_NAME_BYTES_MAX;
    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)first.data,
                                      len, -1, 0) == 1 &&
           X509_set_issuer_name(x509, name) == 1 &&
           add_extension(x509, NID_subject_alt_name, alternatives);
}

static struct span take_contents(BIO *bio)
{
    char *data;
    const long len = BIO_get_mem_data(bio, &data);
    void *copy = len > 0 ? OPENSSL_memdup(data, (size_t)len) : NULL;
    return span_of(copy, copy != NULL ? (size_t)len : 0);
}

static void write_pem(X509 *x509, EVP_PKEY *key, struct self_signed *made)
{
    BIO *cert_bio = BIO_new(BIO_s_mem());
    BIO *key_bio = BIO_new(BIO_s_secmem()); /* wiped when freed */
    if (cert_bio != NULL && key_bio != NULL && PEM_write_bio_X509(cert_bio, x509) == 1 &&
        PEM_write_bio_PKCS8PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) == 1) {
        made->cert = take_contents(cert_bio);
        made->key = take_contents(key_bio);
    }
    BIO_free(cert_bio);
    BIO_free(key_bio);
}

enum status self_signed_make(const struct span *names, size_t n_names, unsigned days, int64_t now_s,
                             struct self_signed *made, size_t *bad)
{
    char buffer[SELF_SIGNED_NAMES_MAX * NAME_BYTES];
    struct text list = text_of(buffer, sizeof(buffer) - 1);
    assert(n_names > 0 && n_names <= SELF_SIGNED_NAMES_MAX && days <= SELF_SIGNED_DAYS_MAX);
    for (size_t i = 0; i < n_names; i++) {
        if (!add_name(&list, names[i])) {
            *bad = i;
            return STATUS_INVALID;
        }
    }
    buffer[list.len] = '\0';
    ERR_clear_error();
    *made = (struct self_signed){.cert = span_of(NULL, 0)};
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x509 = X509_new();
    if (key != NULL && x509 != NULL && fill(x509, key) && set_dates(x509, now_s, days) &&
        set_names(x509, names[0], buffer + 1) && X509_sign(x509, key, EVP_sha256()) > 0) {
        write_pem(x509, key, made);
    }
    X509_free(x509);
    EVP_PKEY_free(key);
    ERR_clear_error();
    if (made->cert.len == 0 || made->key.len == 0) {
        self_signed_free(made);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void self_signed_free(struct self_signed *made)
{
    OPENSSL_free((void *)(uintptr_t)made->cert.data);
    OPENSSL_clear_free((void *)(uintptr_t)made->key.data, made->key.len);
    *made = (struct self_signed){.cert = span_of(NULL, 0)};
}
