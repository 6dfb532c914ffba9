#include "secure.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { WIRE_BYTES_MAX = 256 * 1024 };

static char wire[WIRE_BYTES_MAX];

static int choose_http2(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                        const unsigned char *offered, unsigned offered_len, void *context)
{
    static const unsigned char HTTP2[] = "\2h2";
    unsigned char *found;
    (void)ssl, (void)context;
    if (SSL_select_next_proto(&found, chosen_len, HTTP2, 3, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

void secure_take_http2(SSL_CTX *context)
{
    SSL_CTX_set_alpn_select_cb(context, choose_http2, NULL);
}

SSL_CTX *secure_context(const char *certificate, const char *key)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL || SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384") != 1) {
        ERR_print_errors_fp(stderr);
        SSL_CTX_free(context);
        return NULL;
    }
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    return context;
}

SSL *secure_connection(SSL_CTX *context)
{
    SSL *ssl = SSL_new(context);
    BIO *from_client = BIO_new(BIO_s_mem());
    BIO *to_client = BIO_new(BIO_s_mem());
    if (ssl == NULL || from_client == NULL || to_client == NULL) {
        BIO_free(to_client);
        BIO_free(from_client);
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_bio(ssl, from_client, to_client);
    SSL_set_accept_state(ssl);
    return ssl;
}

static bool flush(SSL *ssl, int fd)
{
    char *bytes;
    const long n_bytes = BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);
    if (n_bytes <= 0) {
        return true;
    }
    const bool was_taken = send(fd, bytes, (size_t)n_bytes, MSG_NOSIGNAL) == n_bytes;
    return BIO_reset(SSL_get_wbio(ssl)) == 1 && was_taken;
}

bool secure_receive(SSL *ssl, int fd, char *bytes, size_t n_bytes_max, size_t *n_bytes)
{
    *n_bytes = 0;
    const ssize_t n_received = recv(fd, wire, sizeof(wire), 0);
    if (n_received <= 0 || BIO_write(SSL_get_rbio(ssl), wire, (int)n_received) != n_received) {
        return false;
    }
    ERR_clear_error();
    while (*n_bytes < n_bytes_max) {
        size_t n_read;
        const int result = SSL_read_ex(ssl, bytes + *n_bytes, n_bytes_max - *n_bytes, &n_read);
        if (result != 1) {
            return SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ && flush(ssl, fd);
        }
        *n_bytes += n_read;
    }
    return flush(ssl, fd);
}

bool secure_send(SSL *ssl, int fd, const char *bytes, size_t n_bytes)
{
    size_t n_written;
    ERR_clear_error();
    return SSL_write_ex(ssl, bytes, n_bytes, &n_written) == 1 && n_written == n_bytes &&
           flush(ssl, fd);
}
