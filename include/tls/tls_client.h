/* TLS to servers: what a policy says of it, and what one worker makes of it.
 *
 * The configuration is immutable and shared by all workers; a context (SSL_CTX) belongs to a worker
 * and its library context, as those of tls/tls_server.h do. The sessions that a server gives are
 * kept for the next connections to it: they belong to one server, one configuration and one worker,
 * so no session that was verified under other rules is ever resumed. */

#ifndef SLUICE_TLS_TLS_CLIENT_H
#define SLUICE_TLS_TLS_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "tls/certificate.h"
#include "tls/tls_server.h"

struct ssl_session_st; /* OpenSSL's SSL_SESSION */

enum { TLS_SESSIONS_KEPT = 2 };

/* A `tls` section of an upstream or of the store. Reference-counted. */
struct tls_client_config {
    atomic_uint n_references;
    struct span *cas; /* DER; owned, see certificate_load_cas(); none: the system's */
    size_t n_cas;
    struct certificate *certificate; /* shown to servers that ask; owned; NULL: none */
    struct span
        name;      /* that certificates must have; owned, of malloc(); empty: the server's host */
    bool verifies; /* the chain and the name */
    unsigned alpn; /* ALPN_HTTP_1_1 and ALPN_H2: what is offered; 0: no ALPN */
    enum tls_version min_version;
    uint64_t system_version; /* of the system's authorities, if they are those; else 0 */
    unsigned char digest[TLS_DIGEST_BYTES]; /* of all above, with the contents of files */
};

/* Call @on_path for each path at which OpenSSL finds the system's authorities: files, and folders
 * with "/." at their end. Longer ones than PATH_MAX are left out. */
void tls_each_system_path(void (*on_path)(void *context, const char *path), void *context);

/* Set digest from the rest. */
void tls_client_config_digest(struct tls_client_config *config);

/* One reference more, and one less: the last frees it. NULL is a no-op. */
struct tls_client_config *tls_client_config_acquire(struct tls_client_config *config);
void tls_client_config_release(struct tls_client_config *config);

/* A configuration in one worker. Counted by references of the worker's thread. */
struct tls_client_context {
    struct tls_client_config *config; /* one reference */
    struct ssl_ctx_st *context;
    unsigned n_references;
    char reason[TLS_REASON_BYTES]; /* why a certificate was just refused */
};

/* Make the context of @config in @library. STATUS_INVALID: OpenSSL refuses something; *@problem
 * says what. STATUS_NO_MEMORY. */
MUST_USE enum status tls_client_context_new(struct ossl_lib_ctx_st *library,
                                            struct tls_client_config *config,
                                            struct tls_client_context **client,
                                            struct certificate_problem *problem);

struct tls_client_context *tls_client_context_acquire(struct tls_client_context *client);
/* NULL is a no-op. */
void tls_client_context_release(struct tls_client_context *client);

/* The latest sessions of one server under one configuration; all zero: none. */
struct tls_client_sessions {
    struct ssl_session_st *kept[TLS_SESSIONS_KEPT]; /* the latest first; NULL: none */
};

void tls_client_sessions_close(struct tls_client_sessions *sessions);

/* --- for the handshake --- */

/* Prepare @ssl, of the context of @client, to talk to the server @name and verify it as such. The
 * latest of @sessions that can be resumed is. False: no memory. */
MUST_USE bool tls_client_context_prepare(const struct tls_client_context *client,
                                         struct ssl_st *ssl, struct span name,
                                         struct tls_client_sessions *sessions);

#endif /* SLUICE_TLS_TLS_CLIENT_H */
