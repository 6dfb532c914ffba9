/* A connection from a client. With HTTP/1.1 or 1.0 it is the client side of its exchanges, one
 * after another; with HTTP/2, recognised by ALPN or by its preface, see http2_connection.h. */

#ifndef SLUICE_PROXY_CLIENT_DOWNSTREAM_H
#define SLUICE_PROXY_CLIENT_DOWNSTREAM_H

#include <stdbool.h>

struct address;
struct tls_server;
struct client_env;

/* Initialise the pools that connections and their requests are taken from. */
void downstream_init_pools(struct client_env *clients);

/* Serve the connection @fd (taken over) from @peer, which the connection limits have admitted.
 * @awaits_header: a PROXY header, due within timeouts.head, or timeouts.idle if less, names the
 * client, which is counted then. Otherwise @is_counted says whether the limits count it for @peer.
 * @tls_server: TLS follows, also after a PROXY header; NULL: plain text. @versions: of HTTP that
 * the client may speak in plain text, bits HTTP_VERSION_…. Without memory it is refused. */
void downstream_open(struct client_env *clients, int fd, const struct address *peer,
                     bool awaits_header, bool is_counted, struct tls_server *tls_server,
                     unsigned versions);

#endif /* SLUICE_PROXY_CLIENT_DOWNSTREAM_H */
