/* Contexts of OpenSSL from a configuration. Happy path: each entry becomes an SSL_CTX in the
 * worker's library context, with its chains and keys, its rule for clients and its tickets.
 *
 * An SSL object is made from the context of the entry that the ClientHello selects, so no context
 * is ever exchanged, and every setting and callback is that entry's. */

#include "tls/tls_server.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/clock.h"
#include "tls/client_hello.h"
#include "tls/tls_context.h"

#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519:P-256:P-384"
#define GROUPS_HYBRID "X25519MLKEM768:" GROUPS /* since OpenSSL 3.5 */

enum { AES_BLOCK_BYTES = 16 };

/* --- the configuration --- */

static void free_entry_config(struct tls_entry_config *entry)
{
    for (size_t i = 0; i < entry->n_certificates; i++) {
        certificate_free(entry->certificates[i]);
    }
    for (size_t i = 0; i < entry->n_names; i++) {
        free((void *)(uintptr_t)entry->names[i].data);
    }
    free(entry->names);
    certificate_free_ders(entry->client_cas, entry->n_client_cas);
    certificate_free_ders(entry->client_crls, entry->n_client_crls);
    free((void *)(uintptr_t)entry->ocsp.data);
}

struct tls_server_config *tls_server_config_acquire(struct tls_server_config *config)
{
    atomic_fetch_add_explicit(&config->n_references, 1, memory_order_relaxed);
    return config;
}

void tls_server_config_release(struct tls_server_config *config)
{
    if (config == NULL ||
        atomic_fetch_sub_explicit(&config->n_references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    for (size_t i = 0; i < config->n_entries; i++) {
        free_entry_config(&config->entries[i]);
    }
    free(config->entries);
    server_names_free(config->names);
    OPENSSL_cleanse(&config->secrets, sizeof(config->secrets));
    free(config);
}

/* --- callbacks of a handshake --- */

static const struct tls_server_entry *entry_of(const SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

/* The client's name is acknowledged; the entry was chosen by it already. */
static int on_server_name(SSL *ssl, int *alert, void *context)
{
    (void)ssl;
    (void)alert;
    (void)context;
    return SSL_TLSEXT_ERR_OK;
}

/* The name in OpenSSL's reading of the extension, as sent. Empty: there is none, or an address. */
static struct span sent_name(SSL *ssl)
{
    const unsigned char *extension;
    size_t len;
    /* list length, kind, name length, name: RFC 6066 section 3 */
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &extension, &len) != 1 || len < 5) {
        return span_of(NULL, 0);
    }
    const size_t name_len = (size_t)extension[3] << 8 | extension[4];
    const struct span name =
        span_of((const char *)extension + 5, name_len <= len - 5 ? name_len : 0);
    struct address address;
    return address_parse(name, &address) ? span_of(NULL, 0) : name;
}

/* A client that answers a HelloRetryRequest with another name is refused. */
static int on_client_hello(SSL *ssl, int *alert, void *context)
{
    const struct tls_server_entry *entry = entry_of(ssl);
    (void)context;
    if (tls_server_choose(entry->server, sent_name(ssl)) != entry) {
        *alert = SSL_AD_ILLEGAL_PARAMETER;
        return SSL_CLIENT_HELLO_ERROR;
    }
    return SSL_CLIENT_HELLO_SUCCESS;
}

static bool offers(const unsigned char *list, unsigned len, struct span protocol)
{
    for (unsigned at = 0; at < len; at += 1u + list[at]) {
        if (list[at] < len - at &&
            span_equals(span_of((const char *)list + at + 1, list[at]), protocol)) {
            return true;
        }
    }
    return false;
}

static int on_alpn(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                   const unsigned char *offered, unsigned offered_len, void *context)
{
    static const struct {
        unsigned bit;
        struct span name;
    } PROTOCOLS[] = {
        {ALPN_H2, {"h2", 2}}, {ALPN_HTTP_1_1, {"http/1.1", 8}}, {ALPN_HTTP_1_1, {"http/1.0", 8}}};
    const struct tls_server_entry *entry = context;
    (void)ssl;
    for (size_t i = 0; i < ARRAY_LEN(PROTOCOLS); i++) {
        if ((entry->server->config->alpn & PROTOCOLS[i].bit) != 0 &&
            offers(offered, offered_len, PROTOCOLS[i].name)) {
            *chosen = (const unsigned char *)PROTOCOLS[i].name.data;
            *chosen_len = (unsigned char)PROTOCOLS[i].name.len;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct span tls_entry_staple(const struct tls_entry_config *entry, int64_t now_s)
{
    return now_s < entry->ocsp_end_s ? entry->ocsp : span_of(NULL, 0);
}

static int64_t now_s(void)
{
    return (int64_t)(clock_wall_us() / 1000000);
}

static int on_ocsp(SSL *ssl, void *context)
{
    const struct tls_server_entry *entry = context;
    const struct span ocsp = tls_entry_staple(entry->config, now_s());
    unsigned char *copy = ocsp.len > 0 ? OPENSSL_memdup(ocsp.data, ocsp.len) : NULL;
    if (copy == NULL) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)ocsp.len); /* takes the copy */
    return SSL_TLSEXT_ERR_OK;
}

/* --- tickets --- */

static bool set_mac(EVP_MAC_CTX *mac, const struct ticket_key *key)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key->mac_key,
                                          sizeof(key->mac_key)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* The secrets for tickets of @hour, which the caller wipes. False: none. */
static bool read_secrets(const struct tls_server_config *config, uint32_t hour,
                         struct ticket_secrets *secrets)
{
    if (config->tickets == TLS_TICKETS_PROCESS) {
        return ticket_chain_read(config->chain, now_s(), hour, secrets);
    }
    *secrets = config->secrets;
    return true;
}

/* The key that encrypts now, derived once an hour. NULL: none, since the clock was set back. */
static const struct ticket_key *current_key(struct tls_server_entry *entry)
{
    const int64_t time_s = now_s();
    const uint32_t hour = ticket_hour(time_s);
    struct ticket_secrets secrets;
    if (entry->has_ticket_key && entry->ticket_key_hour == hour) {
        return &entry->ticket_key;
    }
    entry->has_ticket_key = read_secrets(entry->server->config, hour, &secrets);
    if (!entry->has_ticket_key) {
        return NULL;
    }
    ticket_key_to_encrypt(&secrets, entry->ticket_identity, time_s, &entry->ticket_key);
    entry->ticket_key_hour = hour;
    OPENSSL_cleanse(&secrets, sizeof(secrets));
    return &entry->ticket_key;
}

static int encrypt_ticket(struct tls_server_entry *entry, unsigned char *name, unsigned char *iv,
                          EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    const struct ticket_key *key = current_key(entry);
    if (key == NULL) {
        return 0;
    }
    memcpy(name, key->name, TICKET_NAME_BYTES);
    const bool is_set =
        RAND_bytes_ex(entry->library, iv, AES_BLOCK_BYTES, 0) == 1 &&
        EVP_EncryptInit_ex(cipher, entry->ticket_cipher, NULL, key->cipher_key, iv) == 1 &&
        set_mac(mac, key);
    return is_set ? 1 : -1;
}

/* The key of the ticket @name, in *@key. False: none that is alive. */
static bool find_key(struct tls_server_entry *entry, const unsigned char *name,
                     struct ticket_key *key, bool *is_current)
{
    struct ticket_secrets secrets = {.n = 0};
    const struct ticket_key *current = current_key(entry);
    if (current != NULL && memcmp(current->name, name, TICKET_NAME_BYTES) == 0) {
        *key = *current;
        *is_current = true;
        return true;
    }
    const bool is_known =
        read_secrets(entry->server->config, ticket_name_hour(name), &secrets) &&
        ticket_key_to_decrypt(&secrets, entry->ticket_identity, name, now_s(), key, is_current);
    OPENSSL_cleanse(&secrets, sizeof(secrets));
    return is_known;
}

static int decrypt_ticket(struct tls_server_entry *entry, const unsigned char *name,
                          const unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    struct ticket_key key;
    bool is_current;
    if (!find_key(entry, name, &key, &is_current)) {
        return 0; /* a full handshake follows */
    }
    const bool is_set =
        EVP_DecryptInit_ex(cipher, entry->ticket_cipher, NULL, key.cipher_key, iv) == 1 &&
        set_mac(mac, &key);
    OPENSSL_cleanse(&key, sizeof(key));
    if (!is_set) {
        return -1;
    }
    return is_current ? 1 : 2; /* 2: the client gets a new ticket too */
}

static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypts)
{
    struct tls_server_entry *entry = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    /* A ticket of TLS 1.2 has the session's master secret: other proxies' secrets must not open it.
     */
    if (entry->server->config->tickets == TLS_TICKETS_SHARED && SSL_version(ssl) < TLS1_3_VERSION) {
        return 0;
    }
    return encrypts ? encrypt_ticket(entry, name, iv, cipher, mac)
                    : decrypt_ticket(entry, name, iv, cipher, mac);
}

/* Unix time from which @certificate has expired. */
static int64_t end_of(const X509 *certificate)
{
    struct tm parts;
    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) == 1 ? timegm(&parts)
                                                                         : INT64_MIN;
}

/* The first end of the certificates that were verified in a full handshake. */
static int64_t end_of_chain(STACK_OF(X509) * chain)
{
    int64_t first_s = INT64_MAX;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        const int64_t end_s = end_of(sk_X509_value(chain, i));
        first_s = end_s < first_s ? end_s : first_s;
    }
    return first_s;
}

/* What on_ticket_made() has noted in the ticket of @session, which has no certificate but the
 * client's own. */
static int64_t end_of_session(SSL_SESSION *session)
{
    const X509 *peer = SSL_SESSION_get0_peer(session);
    void *noted;
    size_t len;
    int64_t end_s = INT64_MAX;
    if (SSL_SESSION_get0_ticket_appdata(session, &noted, &len) == 1 && len == sizeof(end_s)) {
        memcpy(&end_s, noted, sizeof(end_s));
    }
    return peer != NULL && end_of(peer) < end_s ? end_of(peer) : end_s;
}

int64_t tls_server_certificate_end(const SSL *ssl)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    return chain != NULL ? end_of_chain(chain) : end_of_session(SSL_get_session(ssl));
}

static int on_ticket_made(SSL *ssl, void *context)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    (void)context;
    if (chain == NULL) { /* no certificate; or a resumed session, which keeps what it has */
        return 1;
    }
    const int64_t end_s = end_of_chain(chain);
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), &end_s, sizeof(end_s));
}

/* Whether the certificate of the session's client may have become invalid: a full handshake judges
 * it anew. */
static bool is_to_be_shown_anew(const struct tls_entry_config *entry, SSL_SESSION *session)
{
    const int64_t time_s = now_s();
    return SSL_SESSION_get0_peer(session) != NULL &&
           (time_s >= end_of_session(session) ||
            (entry->n_client_crls > 0 && time_s >= entry->client_crl_end_s));
}

static SSL_TICKET_RETURN on_ticket_opened(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                          size_t name_len, SSL_TICKET_STATUS status, void *context)
{
    (void)name;
    (void)name_len;
    (void)context;
    const bool is_open = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;
    if (!is_open || is_to_be_shown_anew(entry_of(ssl)->config, session)) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    return status == SSL_TICKET_SUCCESS_RENEW ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}

static bool set_tickets(OSSL_LIB_CTX *library, SSL_CTX *context, struct tls_server_entry *entry)
{
    const struct tls_server_config *config = entry->server->config;
    ticket_identity(entry->config->names, entry->config->n_names, entry->config->client_rule,
                    span_of((const char *)entry->config->client_digest, TLS_DIGEST_BYTES),
                    entry->ticket_identity);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(context, TICKET_LIFETIME_S);
    if (config->tickets == TLS_TICKETS_OFF) {
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
        return SSL_CTX_set_num_tickets(context, 0) == 1;
    }
    entry->ticket_cipher = EVP_CIPHER_fetch(library, "AES-256-CBC", NULL);
    return entry->ticket_cipher != NULL &&
           SSL_CTX_set_session_id_context(context, entry->ticket_identity, TICKET_IDENTITY_BYTES) ==
               1 &&
           SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket) == 1 &&
           SSL_CTX_set_session_ticket_cb(context, on_ticket_made, on_ticket_opened, NULL) == 1;
}

/* --- contexts --- */

X509 *tls_read_x509(OSSL_LIB_CTX *library, struct span der)
{
    const unsigned char *at = (const unsigned char *)der.data;
    X509 *certificate = X509_new_ex(library, NULL);
    if (certificate != NULL && d2i_X509(&certificate, &at, (long)der.len) == NULL) {
        X509_free(certificate);
        return NULL;
    }
    return certificate;
}

bool tls_use_certificate(OSSL_LIB_CTX *library, SSL_CTX *context,
                         const struct certificate *certificate)
{
    const unsigned char *at = (const unsigned char *)certificate->key.data;
    EVP_PKEY *key = d2i_AutoPrivateKey_ex(NULL, &at, (long)certificate->key.len, library, NULL);
    X509 *leaf = tls_read_x509(library, certificate->chain[0]);
    bool is_used = key != NULL && leaf != NULL && SSL_CTX_use_certificate(context, leaf) == 1 &&
                   SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_clear_chain_certs(context);
    for (size_t i = 1; is_used && i < certificate->n_chain; i++) {
        X509 *intermediate = tls_read_x509(library, certificate->chain[i]);
        is_used = intermediate != NULL && SSL_CTX_add1_chain_cert(context, intermediate) == 1;
        X509_free(intermediate);
    }
    X509_free(leaf);
    EVP_PKEY_free(key);
    return is_used;
}

static bool add_client_ca(OSSL_LIB_CTX *library, SSL_CTX *context, struct span der)
{
    X509 *ca = tls_read_x509(library, der);
    const bool is_added = ca != NULL &&
                          X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca) == 1 &&
                          SSL_CTX_add_client_CA(context, ca) == 1;
    X509_free(ca);
    return is_added;
}

static bool add_crl(SSL_CTX *context, struct span der)
{
    const unsigned char *at = (const unsigned char *)der.data;
    X509_CRL *crl = d2i_X509_CRL(NULL, &at, (long)der.len);
    const bool is_added =
        crl != NULL && X509_STORE_add_crl(SSL_CTX_get_cert_store(context), crl) == 1;
    X509_CRL_free(crl);
    return is_added;
}

/* The list of the authority that issued the client's own certificate is required; lists of those
 * above it count if they are there. */
static int on_verified(int is_verified, X509_STORE_CTX *context)
{
    const bool lacks_list = X509_STORE_CTX_get_error(context) == X509_V_ERR_UNABLE_TO_GET_CRL;
    if (is_verified == 0 && lacks_list && X509_STORE_CTX_get_error_depth(context) > 0) {
        X509_STORE_CTX_set_error(context, X509_V_OK);
        return 1;
    }
    return is_verified;
}

static bool set_client_rule(OSSL_LIB_CTX *library, SSL_CTX *context,
                            const struct tls_entry_config *config)
{
    if (config->client_rule == CLIENT_CERTIFICATE_OFF) {
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
        return true;
    }
    for (size_t i = 0; i < config->n_client_cas; i++) {
        if (!add_client_ca(library, context, config->client_cas[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < config->n_client_crls; i++) {
        if (!add_crl(context, config->client_crls[i])) {
            return false;
        }
    }
    if (config->n_client_crls > 0) {
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context),
                                    X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    }
    SSL_CTX_set_verify_depth(context, CLIENT_CHAIN_MAX - 2); /* counts what is between the ends */
    SSL_CTX_set_max_cert_list(context, CLIENT_CHAIN_BYTES_MAX);
    SSL_CTX_set_verify(context,
                       config->client_rule == CLIENT_CERTIFICATE_REQUIRE
                           ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                           : SSL_VERIFY_PEER,
                       on_verified);
    return true;
}

int tls_protocol_number(enum tls_version version)
{
    return version == TLS_VERSION_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
}

static bool set_protocol(SSL_CTX *context, const struct tls_server_config *config)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                     SSL_OP_NO_ANTI_REPLAY);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    const bool is_set =
        SSL_CTX_set_min_proto_version(context, tls_protocol_number(config->min_version)) == 1 &&
        SSL_CTX_set_cipher_list(context, CIPHERS_1_2) == 1 &&
        SSL_CTX_set_ciphersuites(context, CIPHERS_1_3) == 1;
    return is_set && (SSL_CTX_set1_groups_list(context, GROUPS_HYBRID) == 1 ||
                      SSL_CTX_set1_groups_list(context, GROUPS) == 1);
}

static void set_callbacks(SSL_CTX *context, struct tls_server_entry *entry)
{
    SSL_CTX_set_app_data(context, entry);
    SSL_CTX_set_client_hello_cb(context, on_client_hello, NULL);
    SSL_CTX_set_tlsext_servername_callback(context, on_server_name);
    SSL_CTX_set_alpn_select_cb(context, on_alpn, entry);
    if (entry->config->ocsp.len > 0) {
        SSL_CTX_set_tlsext_status_cb(context, on_ocsp);
        SSL_CTX_set_tlsext_status_arg(context, entry);
    }
}

/* False: see OpenSSL's error queue. */
static bool make_context(OSSL_LIB_CTX *library, struct tls_server_entry *entry)
{
    entry->library = library;
    entry->context = SSL_CTX_new_ex(library, NULL, TLS_server_method());
    if (entry->context == NULL || !set_protocol(entry->context, entry->server->config)) {
        return false;
    }
    for (size_t i = 0; i < entry->config->n_certificates; i++) {
        if (!tls_use_certificate(library, entry->context, entry->config->certificates[i])) {
            return false;
        }
    }
    set_callbacks(entry->context, entry);
    return set_client_rule(library, entry->context, entry->config) &&
           set_tickets(library, entry->context, entry);
}

void tls_describe_failure(struct certificate_problem *problem)
{
    const unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    problem->path = "";
    (void)snprintf(problem->text, sizeof(problem->text), "OpenSSL refuses it: %s",
                   reason != NULL ? reason : "unknown error");
    ERR_clear_error();
}

enum status tls_server_new(struct ossl_lib_ctx_st *library, struct tls_server_config *config,
                           struct tls_server **server, struct certificate_problem *problem)
{
    struct tls_server *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->n_references = 1;
    made->config = tls_server_config_acquire(config);
    made->entries = calloc(config->n_entries, sizeof(*made->entries));
    made->lineage = calloc(1, sizeof(*made->lineage));
    if (made->entries == NULL || made->lineage == NULL) {
        tls_server_release(made);
        return STATUS_NO_MEMORY;
    }
    *made->lineage = (struct tls_lineage){.n_servers = 1, .latest = made};
    ERR_clear_error();
    for (size_t i = 0; i < config->n_entries; i++) {
        made->entries[i].server = made;
        made->entries[i].config = &config->entries[i];
        if (!make_context(library, &made->entries[i])) {
            tls_describe_failure(problem);
            tls_server_release(made);
            return STATUS_INVALID;
        }
    }
    *server = made;
    return STATUS_OK;
}

struct tls_server *tls_server_acquire(struct tls_server *server)
{
    server->n_references++;
    return server;
}

static void leave_lineage(struct tls_server *server)
{
    struct tls_lineage *lineage = server->lineage;
    if (lineage != NULL && lineage->latest == server) {
        lineage->latest = NULL;
    }
    if (lineage != NULL && --lineage->n_servers == 0) {
        free(lineage);
    }
}

void tls_server_retire(struct tls_server *server)
{
    if (server != NULL) {
        server->lineage->latest = NULL;
    }
}

void tls_server_succeed(struct tls_server *before, struct tls_server *after)
{
    if (after == NULL) {
        tls_server_retire(before);
    } else if (before != NULL) {
        leave_lineage(after);
        after->lineage = before->lineage;
        after->lineage->n_servers++;
        after->lineage->latest = after;
    }
}

void tls_server_release(struct tls_server *server)
{
    if (server == NULL || --server->n_references > 0) {
        return;
    }
    leave_lineage(server);
    for (size_t i = 0; server->entries != NULL && i < server->config->n_entries; i++) {
        SSL_CTX_free(server->entries[i].context);
        EVP_CIPHER_free(server->entries[i].ticket_cipher);
        OPENSSL_cleanse(&server->entries[i].ticket_key, sizeof(server->entries[i].ticket_key));
    }
    free(server->entries);
    tls_server_config_release(server->config);
    free(server);
}

/* --- the choice --- */

const struct tls_entry_config *tls_server_config_choose(const struct tls_server_config *config,
                                                        struct span server_name)
{
    const size_t at =
        server_name.len > 0 ? server_names_find(config->names, server_name) : SERVER_NAMES_NONE;
    if (at != SERVER_NAMES_NONE) {
        return &config->entries[at];
    }
    return server_name.len > 0 && config->refuses_unknown_names ? NULL : &config->entries[0];
}

const struct tls_server_entry *tls_server_choose(const struct tls_server *server,
                                                 struct span server_name)
{
    const struct tls_entry_config *chosen = tls_server_config_choose(server->config, server_name);
    return chosen != NULL ? &server->entries[chosen - server->config->entries] : NULL;
}

/* The rules for @host in @config. Those of a host that has no entry are the first one's, which
 * serves clients that name no server or an unknown one; NULL: it asks them for no certificate. */
static const struct tls_entry_config *find_rules(const struct tls_server_config *config,
                                                 struct span host, bool *is_named)
{
    const size_t at = server_names_find(config->names, host);
    *is_named = at != SERVER_NAMES_NONE;
    if (*is_named) {
        return &config->entries[at];
    }
    return config->entries[0].client_rule != CLIENT_CERTIFICATE_OFF ? &config->entries[0] : NULL;
}

static bool are_same_rules(const struct tls_entry_config *a, const struct tls_entry_config *b)
{
    return memcmp(a->client_digest, b->client_digest, TLS_DIGEST_BYTES) == 0;
}

static bool has_left(const struct tls_client *client)
{
    return client->lineage != NULL && client->lineage->latest == NULL;
}

/* The configuration in force at the listener of @client, if it is another than the connection's. */
static const struct tls_server_config *find_successor(const struct tls_client *client)
{
    const struct tls_server *latest = client->lineage != NULL ? client->lineage->latest : NULL;
    return latest != NULL && latest->config != client->config ? latest->config : NULL;
}

/* The entry of @config for the name that @client named in its handshake. NULL: it is refused. */
static const struct tls_entry_config *choose_anew(const struct tls_client *client,
                                                  const struct tls_server_config *config)
{
    struct address address;
    struct span name = span_of_text(client->server_name != NULL ? client->server_name : "");
    if (address_parse(name, &address)) {
        name = span_of(NULL, 0);
    }
    return tls_server_config_choose(config, name);
}

/* Whether the rules in force would judge the certificate of @client, or its absence, otherwise. */
static bool has_replaced_rules(const struct tls_client *client)
{
    const struct tls_server_config *successor = find_successor(client);
    if (successor == NULL) {
        return has_left(client) && client->certificate != NULL;
    }
    const struct tls_entry_config *rules = choose_anew(client, successor);
    if (client->certificate == NULL) {
        return rules != NULL && rules->client_rule == CLIENT_CERTIFICATE_REQUIRE;
    }
    return rules == NULL || !are_same_rules(rules, client->entry);
}

bool tls_server_is_to_reconnect(const struct tls_client *client)
{
    return has_replaced_rules(client) ||
           (client->certificate != NULL && now_s() >= client->certificate_end_s);
}

bool tls_server_allows_host(const struct tls_client *client, struct span host)
{
    bool is_named;
    if (client->config == NULL) {
        return true;
    }
    const struct tls_entry_config *rules = find_rules(client->config, host, &is_named);
    const struct tls_server_config *successor = find_successor(client);
    if (is_named && !are_same_rules(rules, client->entry)) {
        return false;
    }
    if (successor != NULL && (!is_named || !has_replaced_rules(client))) {
        rules = find_rules(successor, host, &is_named);
    }
    return rules == NULL || are_same_rules(rules, client->entry);
}
