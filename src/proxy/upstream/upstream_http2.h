/* HTTP/2 to a server: one connection carries many requests, each on a stream.
 *
 * To its user a stream is a struct upstream like any other; upstream.c hands what is called on it
 * to the functions here. A connection is a struct upstream too, without a user, in the server's
 * list `http2`. Streams may wait for it while it is being made. If the server agrees on HTTP/1.1
 * by ALPN (protocol: auto) it becomes a connection of that, and the first stream's user is told
 * that its request has moved there.
 *
 * Of max_connections a stream holds a slot, a connection none. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_HTTP2_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_HTTP2_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/status.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_server.h"

struct upstream_stream;

enum {
    UPSTREAM_SHARED_HEAD_MAX = 4096, /* bytes of a head that shares a connection */
    /* Bytes of a body that shares a connection: with its head it fits what servers keep of a
     * request at least. HAProxy reads no more of a connection whose request has more than 16 KiB
     * and waits for a server. */
    UPSTREAM_SHARED_BODY_MAX = 8 * 1024,
    /* And of all bodies of a client: a handler that does not read keeps as much of a window from
     * others. */
    UPSTREAM_SHARED_BODIES_MAX = 16 * 1024,
    /* Of a body that is not whole: above a quarter of any window. */
    UPSTREAM_UNKNOWN_BODY_BYTES = 1 << 30,
    UPSTREAM_RESTING_MAX = 16,       /* connections to a server at rest: of each upstream_rest */
    UPSTREAM_CLIENT_RESTING_MAX = 4, /* of them REST_OWN, and of one client */
};

/* Whether requests to @server go on streams, at least until ALPN says otherwise. */
static inline bool upstream_speaks_http2(const struct upstream_server *server)
{
    return server->endpoint->is_h2c ||
           (server->endpoint->is_https && server->group->spec->protocol != UPSTREAM_HTTP_1_1);
}

/* --- connections (upstream_http2.c) --- */

/* A part of the request of @stream is sent at @now_us: its head, or one of its body. */
void upstream_http2_note_sent(struct upstream_stream *stream, uint64_t now_us, bool is_head);

/* Make @connection, which is about to connect to its server, one that may speak HTTP/2. @owner: for
 * requests of that client alone; NULL: for those of all. False: no memory. */
MUST_USE bool upstream_http2_init(struct upstream *connection, const struct address *owner);

/* Close the connections of @server that have no streams. */
void upstream_http2_close_idle(struct upstream_server *server);

/* A connection that could not begin: free what upstream_http2_init() made. */
void upstream_http2_drop(struct upstream *connection);

/* --- the choice of a connection (upstream_sharing.c) --- */

/* Whose the connection for @request has to be: its client's, which is to share none; NULL: it may
 * be one for all. Sets @request->is_long. */
const struct address *upstream_http2_owner(const struct upstream_server *server,
                                           struct upstream_request *request);

/* A connection of @owner that takes one more stream, for @request and @use: established, or being
 * made. NULL: none. */
struct upstream *upstream_http2_find(struct upstream_server *server, const struct address *owner,
                                     const struct upstream_request *request, enum upstream_use use);

/* --- streams (upstream_stream.c) --- */

/* Take a stream of @connection for @user. NULL: no memory. */
MUST_USE struct upstream *upstream_stream_new(struct upstream *connection,
                                              struct upstream_user *user,
                                              const struct upstream_request *request);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_HTTP2_H */
