/* Limits on the requests by HTTP/2 that are under way, over all connections and all workers: of
 * each client max.streams_per_client, and of all clients max.http2_requests, of which a client has
 * a quarter of what is left. Trusted proxies and unix sockets, behind which there are many clients,
 * are not counted.
 *
 * When a sixteenth or less is left, a client with fewer than max.streams takes the slot of another
 * one: of the client with the most requests, if that has more than the client of the new request
 * then has. Of the requests of that client which this worker has, the one that has waited longest
 * without progress is reset. So a few clients that hold all slots do not keep others out, and no
 * client gains a slot from one with about as many.
 *
 * Counts are atomic and shared by the workers. The order in which requests give way is the
 * worker's own, kept without a lock: a request of another worker does not give way. */

#ifndef SLUICE_PROXY_CLIENT_CLIENT_STREAMS_H
#define SLUICE_PROXY_CLIENT_CLIENT_STREAMS_H

#include <stdbool.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/status.h"
#include "proxy/client/stream_clients.h"

struct client_env;

/* An HTTP/2 connection of the client at @address begins. *client is for client_streams_leave();
 * NULL: its requests are not counted. STATUS_NO_MEMORY. */
MUST_USE enum status client_streams_join(struct client_env *clients, const struct address *address,
                                         struct stream_client **client);

/* The connection has ended, and has no requests. */
void client_streams_leave(struct client_env *clients, struct stream_client *client);

/* A request of @client (NULL: it is not counted) begins: give it a slot. False: there is none for
 * it, which is counted and reported. */
MUST_USE bool client_streams_take(struct client_env *clients, struct stream_client *client,
                                  struct stream_slot *slot);

/* A request has ended, and holds nothing any more. A no-op if it has no slot. */
void client_streams_give(struct client_env *clients, struct stream_slot *slot);

#endif /* SLUICE_PROXY_CLIENT_CLIENT_STREAMS_H */
