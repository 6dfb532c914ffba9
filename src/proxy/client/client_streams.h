/* The HTTP/2 requests under way of each client, over all its connections and all workers. A client
 * is an IPv4 address, or an IPv6 /48; trusted proxies and unix sockets, behind which there are many
 * clients, are not counted. */

#ifndef SLUICE_PROXY_CLIENT_CLIENT_STREAMS_H
#define SLUICE_PROXY_CLIENT_CLIENT_STREAMS_H

#include <stdbool.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/status.h"

struct client_count;
struct client_env;

/* An HTTP/2 connection of @client begins. *count is for client_streams_leave(); NULL: its requests
 * are not counted. STATUS_NO_MEMORY. */
MUST_USE enum status client_streams_join(struct client_env *clients, const struct address *client,
                                         struct client_count **count);

/* The connection has ended, and has no requests. */
void client_streams_leave(struct client_env *clients, struct client_count *count);

/* A request of @client begins on a connection with @count. False: the client has as many as it may
 * have, and the refusal is counted and reported. */
MUST_USE bool client_streams_take(struct client_env *clients, const struct address *client,
                                  struct client_count *count);

/* A request that was taken has ended, and holds nothing any more. */
void client_streams_give(struct client_count *count);

#endif /* SLUICE_PROXY_CLIENT_CLIENT_STREAMS_H */
