/* What requests may know of a client that connected over TLS: above all its certificate, which the
 * handshake has verified. It is read once for each connection. */

#ifndef SLUICE_TLS_CLIENT_CERTIFICATE_H
#define SLUICE_TLS_CLIENT_CERTIFICATE_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "tls/certificate.h"

struct x509_st; /* OpenSSL's X509 */
struct tls_lineage;
struct tls_server_config;
struct tls_entry_config;

enum certificate_fact {
    CERTIFICATE_FINGERPRINT, /* SHA-256, 64 hexadecimal digits in lower case; never empty */
    CERTIFICATE_DNS,         /* the first subject alternative name of its kind, in lower case */
    CERTIFICATE_URI,         /* likewise, as it stands there */
    CERTIFICATE_CN,          /* the first common name, in UTF-8 */
    CERTIFICATE_FACTS,
};

enum { CERTIFICATE_FACT_BYTES_MAX = 2048 };

/* A fact is empty where the certificate has none of its kind, or the first is longer than
 * CERTIFICATE_FACT_BYTES_MAX or has bytes that are not printable. */
struct client_certificate {
    struct span facts[CERTIFICATE_FACTS];
    /* The SHA-256 of what the authority signed, in hexadecimal: the same however the signature
     * is written. Empty: not known, as of a certificate in a log or a test. */
    struct span identity;
    /* The fingerprint with the other signature (r, n-s) that ECDSA takes for (r, s); empty: there
     * is none, or its curve is not one of NIST's. */
    struct span twin;
    struct span field; /* the certificate as the value of Client-Cert: RFC 9440 section 2.2 */
};

/* A client's connection over TLS. */
struct tls_client {
    const struct tls_server_config *config;       /* of the listener; NULL: not known */
    const struct tls_entry_config *entry;         /* that serves the connection; NULL with config */
    const char *server_name;                      /* that it named; NULL: none */
    const struct tls_lineage *lineage;            /* of config; NULL: config is the one in force */
    const struct client_certificate *certificate; /* NULL: it sent none */
    int64_t certificate_end_s; /* Unix time from which that or one above it has expired */
    struct span ja4; /* of its first message; len 0: not computed, or none: see client_hello.h */
};

/* NULL: no memory. */
MUST_USE struct client_certificate *client_certificate_new(struct x509_st *x509);

/* Read the first certificate of the PEM file at @path, without verifying it. Errors as of
 * certificate_load(). */
MUST_USE enum status client_certificate_load(const char *path,
                                             struct client_certificate **certificate,
                                             struct certificate_problem *problem);

/* NULL is a no-op. */
void client_certificate_free(const struct client_certificate *certificate);

#endif /* SLUICE_TLS_CLIENT_CERTIFICATE_H */
