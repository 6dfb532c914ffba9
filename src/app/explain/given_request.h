/* A request described on the command line, as the proxy would see it. */

#ifndef SLUICE_APP_EXPLAIN_GIVEN_REQUEST_H
#define SLUICE_APP_EXPLAIN_GIVEN_REQUEST_H

#include "app/command.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "http/head.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/request_evaluate.h"
#include "tls/client_certificate.h"

enum { GIVEN_HEAD_BYTES_MAX = 64 * 1024 };

/* What the command line says of the request, beside METHOD and URL. All texts are borrowed. */
struct given_options {
    const char *fields[HEAD_FIELDS_MAX]; /* "NAME: VALUE" */
    size_t n_fields;
    const char *from; /* address of the peer, or "unix"; NULL: 127.0.0.1 */
    const char *via;  /* the proxy's name in Via; NULL: unknown */
    /* NULL: http, or https if the URL says so and a listener has TLS */
    const char *scheme;
    const char *sni; /* name in the ClientHello; "": none. NULL: the URL's host */
    const char *claims[JWT_CLAIMS_MAX]; /* "NAME=VALUE" */
    size_t n_claims;                    /* 0: the request has no token */
    const char *ja4;                    /* of the client's handshake; NULL: it is not known */
    const char *client_cert;            /* file of the client's certificate; NULL: it has none */
    bool is_http2;
};

/* The rows for them in a table of struct command_option. */
#define GIVEN_OPTIONS(given)                                                                       \
    {.name = "H",                                                                                  \
     .argument = "'NAME: VALUE'",                                                                  \
     .help = "a header field; may be repeated",                                                    \
     .take = given_options_add_field,                                                              \
     .context = (given)},                                                                          \
        {.name = "from",                                                                           \
         .argument = "ADDRESS",                                                                    \
         .help = "of the peer, or unix; left out: 127.0.0.1",                                      \
         .value = &(given)->from},                                                                 \
        {.name = "scheme",                                                                         \
         .argument = "SCHEME",                                                                     \
         .help = "http or https; left out: the URL's, if a listener has tls",                      \
         .value = &(given)->scheme},                                                               \
        {.name = "sni",                                                                            \
         .argument = "NAME",                                                                       \
         .help = "the name in the TLS handshake; left out: the URL's host",                        \
         .value = &(given)->sni},                                                                  \
        {.name = "client-cert",                                                                    \
         .argument = "FILE",                                                                       \
         .help = "of the client, in PEM; taken to be one that verifies",                           \
         .value = &(given)->client_cert},                                                          \
        {.name = "ja4",                                                                            \
         .argument = "TEXT",                                                                       \
         .help = "the JA4 fingerprint of the client's handshake",                                  \
         .value = &(given)->ja4},                                                                  \
        {.name = "http2", .help = "the request comes by HTTP/2", .flag = &(given)->is_http2},      \
        {.name = "claim",                                                                          \
         .argument = "NAME=VALUE",                                                                 \
         .help = "of a valid token of the request; may be repeated, for an array too",             \
         .take = given_options_add_claim,                                                          \
         .context = (given)},                                                                      \
    {                                                                                              \
        .name = "via", .argument = "NAME", .help = "the proxy's own name in Via",                  \
        .value = &(given)->via                                                                     \
    }

bool given_options_add_field(void *options, const char *field);
bool given_options_add_claim(void *options, const char *claim);

/* The connection over TLS that the command line describes, and what its handshake chooses. */
struct given_connection {
    const struct listener_section *listener; /* NULL: plain; what follows is not filled */
    struct span server_name;                 /* that the client asks for; empty: none */
    char name_buffer[HOST_BYTES_MAX];
    size_t entry;                     /* that serves it, of the listener; unless refused */
    struct client_certificate *given; /* by --client-cert; owned. NULL: none */
    struct tls_client client;         /* has that only if the entry asks for it */
    const char *fault;                /* why the handshake fails, static; NULL: it does not */
};

struct given_request {
    char bytes[GIVEN_HEAD_BYTES_MAX]; /* the head as the proxy would receive it */
    struct field fields[HEAD_FIELDS_MAX];
    struct head head;
    struct address peer; /* of the connection: --from, or 127.0.0.1 */
    struct given_connection connection;
    bool is_http2;
    const char *reset;    /* why its stream is reset, static; NULL: it is not. By HTTP/2 alone */
    struct span own_name; /* the proxy's in Via: --via; empty: unknown */

    struct given_token token; /* by --claim; without claims: none */
    struct given_claim claims[JWT_CLAIMS_MAX];
    struct span values[JWT_CLAIMS_MAX]; /* of the claims */
    struct arena arena;                 /* of their paths */

    struct evaluation evaluation;
};

/* Load the policy at @path; with the files of its certificates if the request at @url is over TLS.
 * Errors are printed. */
MUST_USE enum status given_connection_load_policy(const char *path, const char *url,
                                                  const struct given_options *options,
                                                  struct policy **policy);

/* Read the request that @method, @url and @options describe, with the maxima of @policy, which
 * given_connection_load_policy() has loaded. @url is a path, or has a scheme and a host. Returns
 * NULL, or the fault in the arguments as a static phrase. A fault in the request, or in the
 * handshake before it, is stored in @given. The caller frees @given by given_request_close(). */
MUST_USE const char *given_request_read(struct given_request *given, const struct policy *policy,
                                        const char *method, const char *url,
                                        const struct given_options *options);

void given_request_close(struct given_request *given);

/* What keeps a request from being read at all, and why, static. NULL: nothing. */
static inline const char *given_request_fault(const struct given_request *given, const char **what)
{
    *what = given->connection.fault != NULL ? "the handshake fails" : "the stream is reset";
    return given->connection.fault != NULL ? given->connection.fault : given->reset;
}

/* Evaluate @given, whose handshake does not fail, into its evaluation and @admission. A head that
 * cannot be read is refused. */
enum evaluation_result given_request_evaluate(struct given_request *given,
                                              const struct admission_context *admission_context,
                                              struct admission *admission, struct arena *arena);

/* Whether the path has been normalised: the request was not refused for it, or for its method. */
static inline bool given_request_has_path(const struct given_request *given)
{
    return given->evaluation.route != NULL || given->evaluation.status == 404;
}

#endif /* SLUICE_APP_EXPLAIN_GIVEN_REQUEST_H */
