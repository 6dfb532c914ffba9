/* Contexts for connections to servers. Happy path: the chain is verified up to an authority, the
 * certificate has the server's name, and the sessions that the server gives are kept.
 *
 * Failures: what is wrong with a certificate is put into words while OpenSSL looks at it, since it
 * keeps only a number. */

#include "tls/tls_client.h"
#include "tls/client_hello.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "tls/tls_context.h"

/* --- the configuration --- */

static const char *first_of(const char *variable, const char *otherwise)
{
    const char *value = secure_getenv(variable); /* as OpenSSL does */
    return value != NULL ? value : otherwise;
}

void tls_each_system_path(void (*on_path)(void *context, const char *path), void *context)
{
    char path[PATH_MAX];
    on_path(context, first_of(X509_get_default_cert_file_env(), X509_get_default_cert_file()));
    const char *folders = first_of(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
    while (*folders != '\0') {
        const size_t len = strcspn(folders, ":");
        const int written = snprintf(path, sizeof(path), "%.*s/.", (int)len, folders);
        if (len > 0 && len < sizeof(path) && written < (int)sizeof(path)) {
            on_path(context, path);
        }
        folders += len + (folders[len] == ':');
    }
}

static void digest_span(EVP_MD_CTX *digest, struct span span)
{
    (void)EVP_DigestUpdate(digest, &span.len, sizeof(span.len));
    (void)EVP_DigestUpdate(digest, span.data, span.len);
}

void tls_client_config_digest(struct tls_client_config *config)
{
    const struct certificate *certificate = config->certificate;
    const unsigned char rules[] = {config->verifies, (unsigned char)config->alpn,
                                   (unsigned char)config->min_version, certificate != NULL};
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (digest == NULL || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) {
        (void)RAND_bytes(config->digest, sizeof(config->digest)); /* it is like no other */
        EVP_MD_CTX_free(digest);
        return;
    }
    const size_t counts[] = {config->n_cas, certificate != NULL ? certificate->n_chain : 0};
    const uint64_t *version = &config->system_version;
    digest_span(digest, span_of((const char *)rules, sizeof(rules)));
    digest_span(digest, span_of((const char *)version, sizeof(*version)));
    digest_span(digest, span_of((const char *)counts, sizeof(counts)));
    digest_span(digest, config->name);
    for (size_t i = 0; i < config->n_cas; i++) {
        digest_span(digest, config->cas[i]);
    }
    for (size_t i = 0; certificate != NULL && i < certificate->n_chain; i++) {
        digest_span(digest, certificate->chain[i]);
    }
    (void)EVP_DigestFinal_ex(digest, config->digest, NULL);
    EVP_MD_CTX_free(digest);
}

struct tls_client_config *tls_client_config_acquire(struct tls_client_config *config)
{
    atomic_fetch_add_explicit(&config->n_references, 1, memory_order_relaxed);
    return config;
}

void tls_client_config_release(struct tls_client_config *config)
{
    if (config == NULL ||
        atomic_fetch_sub_explicit(&config->n_references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    certificate_free_ders(config->cas, config->n_cas);
    certificate_free(config->certificate);
    free((void *)(uintptr_t)config->name.data);
    free(config);
}

/* --- sessions --- */

void tls_client_sessions_close(struct tls_client_sessions *sessions)
{
    for (size_t i = 0; i < TLS_SESSIONS_KEPT; i++) {
        SSL_SESSION_free(sessions->kept[i]);
        sessions->kept[i] = NULL;
    }
}

/* A server has given a session, which is ours if 1 is returned. */
static int on_session(SSL *ssl, SSL_SESSION *given)
{
    struct tls_client_sessions *sessions = SSL_get_app_data(ssl);
    SSL_SESSION **kept = sessions->kept;
    SSL_SESSION_free(kept[TLS_SESSIONS_KEPT - 1]);
    memmove(kept + 1, kept, (TLS_SESSIONS_KEPT - 1) * sizeof(*kept));
    kept[0] = given;
    return 1;
}

static bool may_be_resumed(const SSL_SESSION *session)
{
    X509 *peer = SSL_SESSION_get0_peer((SSL_SESSION *)(uintptr_t)session);
    return SSL_SESSION_is_resumable(session) == 1 && peer != NULL &&
           X509_cmp_current_time(X509_get0_notAfter(peer)) > 0;
}

/* The latest session, which becomes the caller's; NULL: there is none. One of TLS 1.3 is used once,
 * so that nobody can tell that two connections are of one client. */
static SSL_SESSION *take_session(struct tls_client_sessions *sessions)
{
    SSL_SESSION **kept = sessions->kept;
    while (kept[0] != NULL) {
        SSL_SESSION *latest = kept[0];
        const bool is_good = may_be_resumed(latest);
        if (is_good && SSL_SESSION_get_protocol_version(latest) < TLS1_3_VERSION) {
            return SSL_SESSION_up_ref(latest) == 1 ? latest : NULL;
        }
        memmove(kept, kept + 1, (TLS_SESSIONS_KEPT - 1) * sizeof(*kept));
        kept[TLS_SESSIONS_KEPT - 1] = NULL;
        if (is_good) {
            return latest;
        }
        SSL_SESSION_free(latest);
    }
    return NULL;
}

/* --- what is wrong with a certificate --- */

static void add_name(struct text *text, const X509_NAME *name)
{
    char line[CERTIFICATE_SUBJECT_BYTES];
    const char *written = X509_NAME_oneline(name, line, sizeof(line));
    text_add_printable(text, span_of(line, written != NULL ? strlen(line) : 0));
}

static void add_time(struct text *text, const ASN1_TIME *time)
{
    struct tm parts;
    if (ASN1_TIME_to_tm(time, &parts) == 1) {
        timestamp_write(text, (uint64_t)timegm(&parts) * 1000000);
    }
}

/* The names that the certificate is for: as many as there is room for. */
static void add_alternatives(struct text *text, const X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const int n = names != NULL ? sk_GENERAL_NAME_num(names) : 0;
    bool has_one = false;
    for (int i = 0; i < n; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const ASN1_STRING *value = name->d.ia5;
        const unsigned char *bytes = ASN1_STRING_get0_data(value);
        const int len = ASN1_STRING_length(value);
        if (name->type == GEN_DNS) {
            text_add(text, has_one ? SPAN(", ") : SPAN(""));
            text_add_printable(text, span_of((const char *)bytes, (size_t)len));
        } else if (name->type == GEN_IPADD && (len == 4 || len == 16)) {
            const struct address address =
                address_of_bytes(len == 4 ? ADDRESS_IPV4 : ADDRESS_IPV6, bytes);
            text_add(text, has_one ? SPAN(", ") : SPAN(""));
            address_write(&address, text);
        } else {
            continue;
        }
        has_one = true;
    }
    text_add(text, has_one ? SPAN("") : SPAN("no host"));
    GENERAL_NAMES_free(names);
}

static void add_wanted_name(struct text *text, X509_VERIFY_PARAM *param)
{
    const char *host = X509_VERIFY_PARAM_get0_host(param, 0);
    char *address = host == NULL ? X509_VERIFY_PARAM_get1_ip_asc(param) : NULL;
    const char *name = host != NULL ? host : address;
    text_add(text, name != NULL ? span_of_text(name) : SPAN("?"));
    OPENSSL_free(address);
}

/* Say what is wrong with the certificate that OpenSSL looks at: the server's, or an issuer's. */
static void describe(struct text *text, X509_STORE_CTX *store)
{
    const int error = X509_STORE_CTX_get_error(store);
    const X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    const struct span whose = X509_STORE_CTX_get_error_depth(store) == 0
                                  ? SPAN("the server's certificate")
                                  : SPAN("a certificate of its issuers");
    switch (certificate != NULL ? error : X509_V_ERR_UNSPECIFIED) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        text_add_format(text, "%.*s expired on ", SPAN_ARGS(whose));
        add_time(text, X509_get0_notAfter(certificate));
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        text_add_format(text, "%.*s is not valid before ", SPAN_ARGS(whose));
        add_time(text, X509_get0_notBefore(certificate));
        return;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        text_add_literal(text, "the server's certificate is not for ");
        add_wanted_name(text, X509_STORE_CTX_get0_param(store));
        text_add_literal(text, " but for ");
        add_alternatives(text, certificate);
        return;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        text_add_literal(text, "the server's certificate is self-signed, and not among ca");
        return;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        text_add_format(text,
                        "%.*s has an issuer that is neither among ca nor sent by the server: ",
                        SPAN_ARGS(whose));
        add_name(text, X509_get_issuer_name(certificate));
        return;
    default:
        text_add_format(text, "%.*s: %s", SPAN_ARGS(whose), X509_verify_cert_error_string(error));
    }
}

static int on_verified(int is_good, X509_STORE_CTX *store)
{
    if (is_good == 0) {
        const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
        struct tls_client_context *client = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
        char *reason = client->reason;
        struct text text = text_of(reason, TLS_REASON_BYTES - 1);
        describe(&text, store);
        reason[text.len] = '\0';
    }
    return is_good;
}

/* --- contexts --- */

static bool add_cas(struct ossl_lib_ctx_st *library, SSL_CTX *context,
                    const struct tls_client_config *config)
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    if (config->n_cas == 0) {
        return SSL_CTX_set_default_verify_paths(context) == 1;
    }
    for (size_t i = 0; i < config->n_cas; i++) {
        X509 *ca = tls_read_x509(library, config->cas[i]);
        const bool is_added = ca != NULL && X509_STORE_add_cert(store, ca) == 1;
        X509_free(ca);
        if (!is_added) {
            return false;
        }
    }
    return X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN) == 1;
}

/* False: see OpenSSL's error queue. */
static bool set_context(struct ossl_lib_ctx_st *library, SSL_CTX *context,
                        const struct tls_client_config *config)
{
    /* The first is preferred. */
    static const unsigned char ALPN[] = "\2h2\10http/1.1";
    const unsigned begin = (config->alpn & ALPN_H2) != 0 ? 0 : 3;
    const unsigned end = (config->alpn & ALPN_HTTP_1_1) != 0 ? sizeof(ALPN) - 1 : 3;
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, on_session);
    SSL_CTX_set_verify(context, config->verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, on_verified);
    return SSL_CTX_set_min_proto_version(context, tls_protocol_number(config->min_version)) == 1 &&
           (config->alpn == 0 ||
            SSL_CTX_set_alpn_protos(context, ALPN + begin, end - begin) == 0) &&
           (!config->verifies || add_cas(library, context, config)) &&
           (config->certificate == NULL ||
            tls_use_certificate(library, context, config->certificate));
}

enum status tls_client_context_new(struct ossl_lib_ctx_st *library,
                                   struct tls_client_config *config,
                                   struct tls_client_context **client,
                                   struct certificate_problem *problem)
{
    struct tls_client_context *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    ERR_clear_error();
    made->n_references = 1;
    made->config = tls_client_config_acquire(config);
    made->context = SSL_CTX_new_ex(library, NULL, TLS_client_method());
    const bool is_made = made->context != NULL && set_context(library, made->context, config);
    if (!is_made) {
        tls_describe_failure(problem);
    }
    /* The library context may belong to another thread, which frees it while this one goes on: what
     * this thread keeps for it must be gone by then. */
    OPENSSL_thread_stop_ex(library);
    if (!is_made) {
        tls_client_context_release(made);
        return STATUS_INVALID;
    }
    SSL_CTX_set_app_data(made->context, made);
    *client = made;
    return STATUS_OK;
}

struct tls_client_context *tls_client_context_acquire(struct tls_client_context *client)
{
    client->n_references++;
    return client;
}

void tls_client_context_release(struct tls_client_context *client)
{
    if (client == NULL || --client->n_references > 0) {
        return;
    }
    SSL_CTX_free(client->context);
    tls_client_config_release(client->config);
    free(client);
}

/* --- connections --- */

/* An address is verified as such, and is not sent as the name. */
static bool set_name(const struct tls_client_context *client, SSL *ssl, struct span name)
{
    char text[HOST_BYTES_MAX + 1];
    struct address address;
    const bool is_address = address_parse(name, &address);
    while (name.len > 0 && name.data[name.len - 1] == '.') {
        name.len--;
    }
    if (name.len == 0 || name.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    if (!is_address && SSL_set_tlsext_host_name(ssl, text) != 1) {
        return false;
    }
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return !client->config->verifies ||
           (is_address ? X509_VERIFY_PARAM_set1_ip_asc(param, text)
                       : X509_VERIFY_PARAM_set1_host(param, text, name.len)) == 1;
}

bool tls_client_context_prepare(const struct tls_client_context *client, struct ssl_st *ssl,
                                struct span name, struct tls_client_sessions *sessions)
{
    if (!set_name(client, ssl, name)) {
        return false;
    }
    SSL_set_app_data(ssl, sessions);
    SSL_SESSION *latest = take_session(sessions);
    if (latest != NULL) {
        (void)SSL_set_session(ssl, latest); /* if not, the handshake is a full one */
        SSL_SESSION_free(latest);
    }
    SSL_set_connect_state(ssl);
    return true;
}
