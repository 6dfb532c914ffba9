/* TLS of a client's connection to the floor: OpenSSL over memory, one recv or send a piece. */

#ifndef BENCH_FLOOR_SECURE_H
#define BENCH_FLOOR_SECURE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* TLS 1.2 and 1.3 with the files @certificate and @key, in PEM. NULL: the reason was written to
 * stderr. */
SSL_CTX *secure_context(const char *certificate, const char *key);

/* Clients must offer h2 by ALPN. */
void secure_take_http2(SSL_CTX *context);

/* NULL: no memory. The context's owner frees it after the connection. */
SSL *secure_connection(SSL_CTX *context);

/* Read what there is on @fd: up to @n_bytes_max bytes of the client go to @bytes, and their number
 * to @n_bytes: 0 in a handshake, whose answers are sent. Returns false at the end of the
 * connection, and after a failure. */
bool secure_receive(SSL *ssl, int fd, char *bytes, size_t n_bytes_max, size_t *n_bytes);

/* Returns false if not all was taken. */
bool secure_send(SSL *ssl, int fd, const char *bytes, size_t n_bytes);

#endif
