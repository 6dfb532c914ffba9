/* An HTTP/1.1 or 1.0 connection from a client: the client side of its exchanges, one after
 * another. */

#ifndef SLUICE_PROXY_CLIENT_DOWNSTREAM_H
#define SLUICE_PROXY_CLIENT_DOWNSTREAM_H

#include <stdbool.h>

struct address;
struct tls_server;
struct client_env;
struct pool;

/* Initialise the pool that connections are taken from. */
void downstream_init_pool(struct pool *pool);

/* Serve the connection @fd (taken over) from @peer, which the connection limits have admitted.
 * @awaits_header: a PROXY header, due within timeouts.head, or timeouts.idle if less, names the
 * client, which is counted then. Otherwise @is_counted says whether the limits count it for @peer.
 * @tls_server: TLS follows, also after a PROXY header; NULL: plain text. Without memory the
 * connection is refused. */
void downstream_open(struct client_env *clients, int fd, const struct address *peer,
                     bool awaits_header, bool is_counted, struct tls_server *tls_server);

#endif /* SLUICE_PROXY_CLIENT_DOWNSTREAM_H */
