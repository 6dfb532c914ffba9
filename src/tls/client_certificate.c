#include "tls/client_certificate.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

enum { DIGEST_BYTES = 32 };

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

/* Everything stands in one block of memory. */
static struct client_certificate *make(const struct span facts[CERTIFICATE_FACTS],
                                       const unsigned char *der, int der_len)
{
    size_t bytes = sizeof(struct client_certificate) + 2 + ((size_t)der_len + 2) / 3 * 4 + 1;
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        bytes += facts[i].len;
    }
    struct client_certificate *made = malloc(bytes);
    if (made == NULL) {
        return NULL;
    }
    char *at = (char *)(made + 1);
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        at = copy_fact(made, (enum certificate_fact)i, facts[i], at);
    }
    at[0] = ':';
    const int len = EVP_EncodeBlock((unsigned char *)at + 1, der, der_len);
    at[len + 1] = ':';
    made->field = span_of(at, (size_t)len + 2);
    return made;
}

struct client_certificate *client_certificate_new(struct x509_st *x509)
{
    unsigned char digest[DIGEST_BYTES];
    char fingerprint[2 * DIGEST_BYTES];
    unsigned char *der = NULL;
    unsigned char *utf8;
    struct client_certificate *made = NULL;
    struct text text = text_of(fingerprint, sizeof(fingerprint));
    const int der_len = i2d_X509(x509, &der);
    if (der_len > 0 && X509_digest(x509, EVP_sha256(), digest, NULL) == 1) {
        GENERAL_NAMES *names = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);
        text_add_hex(&text, digest, sizeof(digest));
        const struct span facts[CERTIFICATE_FACTS] = {
            [CERTIFICATE_FINGERPRINT] = text_span(&text),
            [CERTIFICATE_DNS] = first_name(names, GEN_DNS),
            [CERTIFICATE_URI] = first_name(names, GEN_URI),
            [CERTIFICATE_CN] = common_name(x509, &utf8),
        };
        made = make(facts, der, der_len);
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
