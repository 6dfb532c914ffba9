/* TLS to Redis by OpenSSL: hiredis moves the bytes, and this file verifies the server's identity,
 * which hiredis does not.
 *
 * Failures: a certificate that is not trusted, not valid now or for another name, a server without
 * TLS ─► the connection breaks like a refused one, and redis_tls_trouble() has the reason.
 *
 * In a build without TLS the policy rejects it, so nothing here is called. */

#include "store/redis/redis_connection.h"

#if SLUICE_REDIS_TLS

#include <arpa/inet.h>
#include <hiredis/async.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TROUBLE_BYTES = 128 };

struct redis_tls {
    SSL_CTX *context;
    char *host;
    bool is_address;
    char trouble[TROUBLE_BYTES]; /* of the latest connection; "": none */
};

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* Called for each certificate in the chain, and at the first bad one. */
static int on_verified(int is_good, X509_STORE_CTX *chain)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct redis_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    if (is_good == 0) {
        snprintf(tls->trouble, sizeof(tls->trouble), "certificate verify failed: %s",
                 X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain)));
    }
    return is_good;
}

static SSL_CTX *new_context(struct redis_tls *tls)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL) {
        return NULL;
    }
    SSL_CTX_set_app_data(context, tls);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, on_verified);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_default_verify_paths(context) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

enum status redis_tls_new(struct span host, struct redis_tls **tls)
{
    struct redis_tls *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->host = strndup(host.data, host.len);
    if (made->host == NULL) {
        redis_tls_free(made);
        return STATUS_NO_MEMORY;
    }
    made->is_address = is_address(made->host);
    made->context = new_context(made);
    if (made->context == NULL) {
        redis_tls_free(made);
        return STATUS_INVALID;
    }
    *tls = made;
    return STATUS_OK;
}

void redis_tls_free(struct redis_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        free(tls->host);
        free(tls);
    }
}

/* Expect a certificate for the host, by address or by name. */
static bool expect_host(const struct redis_tls *tls, SSL *ssl)
{
    if (tls->is_address) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), tls->host) == 1;
    }
    return SSL_set1_host(ssl, tls->host) == 1 && SSL_set_tlsext_host_name(ssl, tls->host) == 1;
}

enum status redis_tls_begin(struct redis_tls *tls, struct redisAsyncContext *redis)
{
    tls->trouble[0] = '\0';
    ERR_clear_error();
    SSL *ssl = SSL_new(tls->context);
    if (ssl == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (!expect_host(tls, ssl)) {
        SSL_free(ssl);
        return STATUS_UNREACHABLE;
    }
    if (redisInitiateSSL(&redis->c, ssl) != REDIS_OK) {
        SSL_free(ssl);
        return STATUS_UNREACHABLE;
    }
    return STATUS_OK;
}

const char *redis_tls_trouble(struct redis_tls *tls)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (tls->trouble[0] == '\0' && reason != NULL) {
        snprintf(tls->trouble, sizeof(tls->trouble), "TLS failed: %s", reason);
    }
    return tls->trouble[0] == '\0' ? NULL : tls->trouble;
}

void redis_tls_end(struct redis_tls *tls)
{
    (void)tls;
    ERR_clear_error();
}

#else

enum status redis_tls_new(struct span host, struct redis_tls **tls)
{
    (void)host;
    (void)tls;
    return STATUS_INVALID;
}

void redis_tls_free(struct redis_tls *tls)
{
    (void)tls;
}

enum status redis_tls_begin(struct redis_tls *tls, struct redisAsyncContext *redis)
{
    (void)tls;
    (void)redis;
    return STATUS_UNREACHABLE;
}

const char *redis_tls_trouble(struct redis_tls *tls)
{
    (void)tls;
    return NULL;
}

void redis_tls_end(struct redis_tls *tls)
{
    (void)tls;
}

#endif
