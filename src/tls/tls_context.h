/* What contexts for clients and for servers share; in tls_server.c. */

#ifndef SLUICE_TLS_TLS_CONTEXT_H
#define SLUICE_TLS_TLS_CONTEXT_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "tls/certificate.h"
#include "tls/tls_server.h"

/* NULL: no memory, or it is no certificate. */
MUST_USE X509 *tls_read_x509(OSSL_LIB_CTX *library, struct span der);

/* Let @context show @certificate with its chain. False: see OpenSSL's error queue. */
MUST_USE bool tls_use_certificate(OSSL_LIB_CTX *library, SSL_CTX *context,
                                  const struct certificate *certificate);

/* Unix time from which a certificate of the client of @ssl, of which a session may be resumed, has
 * expired. */
int64_t tls_server_certificate_end(const SSL *ssl);

/* OpenSSL's number of a version. */
int tls_protocol_number(enum tls_version version);

/* Put the last error of OpenSSL's queue into *@problem, and clear the queue. */
void tls_describe_failure(struct certificate_problem *problem);

#endif /* SLUICE_TLS_TLS_CONTEXT_H */
