/* The connection over TLS that the command line describes, and what its handshake chooses. */

#ifndef SLUICE_APP_EXPLAIN_GIVEN_CONNECTION_H
#define SLUICE_APP_EXPLAIN_GIVEN_CONNECTION_H

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"
#include "tls/client_certificate.h"

struct given_options;

struct given_connection {
    const struct listener_section *listener; /* NULL: plain; what follows is not filled */
    struct span server_name;                 /* that the client asks for; empty: none */
    char name_buffer[HOST_BYTES_MAX];
    size_t entry;                     /* that serves it, of the listener; unless refused */
    struct client_certificate *given; /* by --client-cert; owned. NULL: none */
    struct tls_client client;         /* has that only if the entry asks for it */
    const char *fault;                /* why the handshake fails, static; NULL: it does not */
};

/* Load the policy at @path; with the files of its certificates if the request at @url is over TLS.
 * Errors are printed. */
MUST_USE enum status given_connection_load_policy(const char *path, const char *url,
                                                  const struct given_options *options,
                                                  struct policy **policy);

/* Choose the listener and the certificates of @policy for a request at @url to @host. Returns NULL,
 * or the fault in the arguments as a static phrase. The caller frees @connection by
 * given_connection_close(). */
MUST_USE const char *given_connection_read(struct given_connection *connection,
                                           const struct policy *policy, const char *url,
                                           struct span host, const struct given_options *options);
void given_connection_close(struct given_connection *connection);

#endif /* SLUICE_APP_EXPLAIN_GIVEN_CONNECTION_H */
