/* TLS to clients: what a listener's policy says, and what one worker makes of it.
 *
 * The configuration is immutable and shared by all workers. A worker has a library context of
 * OpenSSL of its own, because OpenSSL 3.0 contends between threads that share one, and a context
 * (SSL_CTX) for each certificate entry. Contexts may be made on any thread; afterwards only the
 * worker's thread uses them. */

#ifndef SLUICE_TLS_TLS_SERVER_H
#define SLUICE_TLS_TLS_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "tls/certificate.h"
#include "tls/client_certificate.h"
#include "tls/ticket_keys.h"

struct ossl_lib_ctx_st;
struct ssl_ctx_st; /* OpenSSL's SSL_CTX */
struct ssl_st;     /* OpenSSL's SSL */

enum {
    TLS_CERTIFICATES_PER_ENTRY_MAX = 2, /* one RSA, one ECDSA */
    TLS_DIGEST_BYTES = 32,
    TLS_REASON_BYTES = 320,             /* of a failure: two names, and what is wrong with them */
    CLIENT_CHAIN_MAX = 4,               /* certificates of a client's chain, the CA's included */
    CLIENT_CHAIN_BYTES_MAX = 16 * 1024, /* that a client sends; looked at before they are parsed */
};

enum tls_version {
    TLS_VERSION_1_2,
    TLS_VERSION_1_3,
};

/* Whether an entry asks clients for a certificate. */
enum client_certificate_rule {
    CLIENT_CERTIFICATE_OFF,
    CLIENT_CERTIFICATE_OPTIONAL, /* one that does not verify fails the handshake all the same */
    CLIENT_CERTIFICATE_REQUIRE,
};

enum tls_tickets {
    TLS_TICKETS_OFF,
    TLS_TICKETS_PROCESS, /* by secrets of this process */
    TLS_TICKETS_SHARED,  /* by secrets that several proxies have; TLS 1.3 alone */
};

/* One entry of `certificates`. */
struct tls_entry_config {
    struct certificate *certificates[TLS_CERTIFICATES_PER_ENTRY_MAX]; /* owned */
    size_t n_certificates;
    struct span *names; /* that it serves, sorted; owned, each a string of malloc() */
    size_t n_names;
    enum client_certificate_rule client_rule;
    struct span *client_cas; /* DER; owned, see certificate_load_cas() */
    size_t n_client_cas;
    struct span *client_crls; /* DER; owned likewise */
    size_t n_client_crls;
    int64_t client_crl_end_s; /* Unix time from which one of them is out of date */
    /* Of the rule and the files it uses: entries with equal digests treat clients alike. */
    unsigned char client_digest[TLS_DIGEST_BYTES];
    struct span ocsp;   /* a stapled response, DER; owned; len 0: none */
    int64_t ocsp_end_s; /* Unix time from which it is stale */
};

/* The response to staple at @now_s (Unix time); len 0: there is none, or it is stale. */
struct span tls_entry_staple(const struct tls_entry_config *entry, int64_t now_s);

/* A `tls` section. Reference-counted. */
struct tls_server_config {
    atomic_uint n_references;
    struct tls_entry_config *entries; /* the first serves clients without a name; owned */
    size_t n_entries;                 /* at least 1 */
    struct server_names *names;       /* to entries; owned */
    enum tls_version min_version;
    bool refuses_unknown_names; /* else the first entry serves them */
    enum tls_tickets tickets;
    struct ticket_chain *chain;    /* borrowed, of TLS_TICKETS_PROCESS */
    struct ticket_secrets secrets; /* of TLS_TICKETS_SHARED */
    bool computes_ja4;             /* of the clients: see client_hello.h */
    unsigned alpn;                 /* ALPN_HTTP_1_1 and ALPN_H2: what the listener speaks */
};

/* One reference more, and one less: the last frees it. NULL is a no-op. */
struct tls_server_config *tls_server_config_acquire(struct tls_server_config *config);
void tls_server_config_release(struct tls_server_config *config);

/* One entry in one worker. */
struct tls_server_entry {
    struct tls_server *server;
    const struct tls_entry_config *config;
    struct ssl_ctx_st *context;
    unsigned char ticket_identity[TICKET_IDENTITY_BYTES];
    struct ossl_lib_ctx_st *library;     /* the worker's */
    struct evp_cipher_st *ticket_cipher; /* of the library context; NULL: no tickets */
    struct ticket_key ticket_key;        /* that encrypts in ticket_key_hour */
    uint32_t ticket_key_hour;
    bool has_ticket_key;
};

/* The servers of one listener, of which each reload brings another. */
struct tls_lineage {
    unsigned n_servers;
    const struct tls_server *latest; /* NULL: the listener has left */
};

/* A `tls` section in one worker. Counted by references of the worker's thread. */
struct tls_server {
    struct tls_server_config *config; /* one reference */
    struct tls_lineage *lineage;
    struct tls_server_entry *entries; /* as many as in config */
    unsigned n_references;
};

/* Make the contexts of @config in @library. STATUS_INVALID: OpenSSL refuses something; *@problem
 * says what, and of which entry's certificate. STATUS_NO_MEMORY. */
MUST_USE enum status tls_server_new(struct ossl_lib_ctx_st *library,
                                    struct tls_server_config *config, struct tls_server **server,
                                    struct certificate_problem *problem);

/* @after takes the place of @before at its listener; no connection uses it yet. NULL: plain text
 * was spoken there, or is from now on. */
void tls_server_succeed(struct tls_server *before, struct tls_server *after);

/* The listener of @server leaves: no server takes its place. NULL: no-op. */
void tls_server_retire(struct tls_server *server);

struct tls_server *tls_server_acquire(struct tls_server *server);
/* NULL is a no-op. */
void tls_server_release(struct tls_server *server);

/* The entry that serves @server_name (empty: none was sent). NULL: the name is refused. */
MUST_USE const struct tls_server_entry *tls_server_choose(const struct tls_server *server,
                                                          struct span server_name);

/* The same of a configuration. */
MUST_USE const struct tls_entry_config *
tls_server_config_choose(const struct tls_server_config *config, struct span server_name);

/* Whether a request for @host may come over the connection of @client: @host selects an entry with
 * the same rules for client certificates as the one that serves it; or no entry by name, and the
 * first one asks clients for none. After a reload the rules in force count as well, except for a
 * connection that is to end by them: its last answer is by its own. */
MUST_USE bool tls_server_allows_host(const struct tls_client *client, struct span host);

/* Whether @client is to show a certificate anew by another connection, so that the answer that is
 * under way is its last: its certificate, or one above it, has expired; or by the rules in force it
 * would have to show one where it has shown none, or its certificate would be judged by others,
 * such as another list of revoked ones, or by none since its listener has left. */
MUST_USE bool tls_server_is_to_reconnect(const struct tls_client *client);

/* --- files besides certificates: stapled responses, secrets of tickets --- */

/* Read the OCSP response (DER) at @path for @certificate, whose chain has the issuer: signed for
 * the issuer, good, and current at @now_s. STATUS_OK: *@response is the caller's, freed by
 * certificate_free_file(), and stale from *@end_s (Unix time) on. STATUS_IO: the file cannot be
 * read. STATUS_INVALID: it cannot be stapled. Both: see *@problem. STATUS_NO_MEMORY. */
MUST_USE enum status server_files_load_ocsp(const char *path, const struct certificate *certificate,
                                            int64_t now_s, struct span *response, int64_t *end_s,
                                            struct certificate_problem *problem);

/* Read the file of ticket secrets at @path. Errors as of certificate_load(). The caller wipes
 * *@secrets. */
MUST_USE enum status server_files_load_secrets(const char *path, struct ticket_secrets *secrets,
                                               struct certificate_problem *problem);

/* Whether every user of this machine may read the file at @path. */
MUST_USE bool server_files_is_exposed(const char *path);

/* Set client_digest of @entry from its rule, authorities and revocation lists. */
void server_files_digest_clients(struct tls_entry_config *entry);

#endif /* SLUICE_TLS_TLS_SERVER_H */
