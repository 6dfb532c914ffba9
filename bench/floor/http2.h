/* The floor of HTTP/2: libnghttp2 and OpenSSL on an epoll loop, and a connection to
 * the upstream for each request that is under way. */

#ifndef BENCH_FLOOR_HTTP2_H
#define BENCH_FLOOR_HTTP2_H

#include <netinet/in.h>
#include <openssl/ssl.h>

/* Serve what connects to @listener with @tls, for good. Requests are relayed to @upstream; NULL:
 * they are answered with 429. */
_Noreturn void http2_serve(int listener, SSL_CTX *tls, const struct sockaddr_in *upstream);

#endif
