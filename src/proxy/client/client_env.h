/* State that the client connections of one worker share, of any protocol. The worker makes it, and
 * it outlives the connections. */

#ifndef SLUICE_PROXY_CLIENT_CLIENT_ENV_H
#define SLUICE_PROXY_CLIENT_CLIENT_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "net/loop.h"
#include "policy/policy.h"
#include "proxy/client/eviction.h"
#include "proxy/client/stream_clients.h"
#include "proxy/core/proxy_env.h"
#include "proxy/meters.h"

struct address;
struct client_connection;
struct client_env;
struct connection_limits;
struct exchange_config;
struct tls_server;

/* Why a request by HTTP/2 is refused. */
enum stream_refusal {
    STREAMS_OF_CLIENT, /* max.streams_per_client, or few descriptors are left */
    STREAMS_OF_SHARE,  /* a client has its share of what is left of max.http2_requests */
    STREAMS_OF_ALL,    /* max.http2_requests are in progress */
    STREAM_REFUSALS,
};

struct client_env {
    /* The worker's: a connection has been closed and returned to its pool. */
    void (*on_gone)(struct client_env *clients);
    struct proxy_env *env;
    struct connection_limits *connection_limits; /* of all workers */
    struct list open;                            /* struct client_connection, oldest first */
    struct list shaking; /* struct downstream in a handshake of TLS, the oldest first */
    struct stream_clients stream_clients; /* who has requests by HTTP/2 */
    struct list victims;        /* candidates that other workers chose as victims: see eviction.h */
    struct pool downstreams;    /* struct downstream */
    struct pool http2_requests; /* struct http2_request */
    struct timeout_queue rest_timeouts;  /* of connections between requests: timeouts.idle */
    struct timeout_queue first_timeouts; /* of new ones: timeouts.head, or timeouts.idle if less */
    struct timeout_queue handshake_timeouts; /* of TLS: timeouts.handshake */
    struct timeout_queue ping_timeouts;      /* of HTTP/2 with requests: timeouts.ping */
    struct timeout_queue linger_timeouts;    /* of connections that are closed in stages */
    struct timeout_queue grace_timeouts;     /* of connections that are new when the drain begins */
    struct log_gate refusal_gates[METER_REFUSALS];
    struct log_gate eviction_gate;
    struct log_gate handshake_gate;
    struct log_gate stream_refusal_gates[STREAM_REFUSALS];
    struct log_gate stream_eviction_gate;
};

/* The loop need not exist yet. */
void client_env_init(struct client_env *clients, void (*on_gone)(struct client_env *clients),
                     struct proxy_env *env, struct connection_limits *connection_limits);

/* Make the timeout queues: the loop exists. */
void client_env_open(struct client_env *clients, const struct timeouts_section *timeouts);

/* Another policy is in force: use its @timeouts. */
void client_env_set_timeouts(struct client_env *clients, const struct timeouts_section *timeouts);

/* Every connection is closed, and its memory is returned to the pool: a closed one is freed at the
 * end of the loop's iteration. */
bool client_env_is_empty(const struct client_env *clients);

/* Free everything; client_env_is_empty(). */
void client_env_close(struct client_env *clients);

struct client_connection_ops {
    /* The worker is draining: close after the answer under way, or now if there is none. A new
     * connection gets a grace period to send its first request. */
    void (*drain)(struct client_connection *connection);
    /* Close at once, even during an exchange: the proxy ends the connection. */
    void (*close)(struct client_connection *connection);
    /* A new configuration is in force, and requests under @expired are not waited for any longer:
     * cut the connection if it is under @expired. True: it was cut. */
    bool (*on_new_configuration)(struct client_connection *connection,
                                 const struct exchange_config *expired);
    /* Close a connection that waits for its client, to make room. A silent or idle one is closed
     * without an answer; an unfinished head is answered with 408. If a request has come or an
     * answer is under way, a due connection closes after that answer, or before the next request
     * begins. Any other stays, and is a candidate again: EVICTED_NONE. */
    enum eviction_kind (*evict)(struct client_connection *connection);
};

/* A client connection of any protocol, as its worker and the connection limits see it. */
struct client_connection {
    const struct client_connection_ops *ops;
    struct proxy_env *env;
    struct client_env *clients;
    struct list node;    /* in clients->open */
    struct address peer; /* or the client that a PROXY header names */
    bool awaits_header;  /* of the PROXY protocol: @peer is no client, and not protected */
    bool is_counted;     /* the connection limits count it for @peer */
    bool has_left;       /* the connection limits no longer count it */
    struct eviction_candidate candidate;
    struct client_identity identity; /* of its requests */
};

/* --- a lingering close --- */

/* Its bounds: the time and the bytes in which an answered client may go on
 * sending unwanted bytes. The proxy waits until the client has read the answer, since a close with
 * unread bytes would destroy the answer on its way (RFC 9112 section 9.6). */

enum {
    LINGER_PAUSE_US = 5 * 1000 * 1000,    /* without a byte: the client is gone, or waits for us */
    LINGER_US_MAX = 30 * 1000 * 1000,     /* in all, even if bytes keep coming */
    LINGER_BYTES_MAX = 128 * 1024 * 1024, /* in all: reading is not free */
};

struct lingering {
    uint64_t until_us; /* monotonic */
    uint64_t bytes_left;
};

void linger_begin(struct lingering *linger, uint64_t now_us);

/* @n bytes were discarded. False: a bound is reached. */
bool linger_takes(struct lingering *linger, size_t n, uint64_t now_us);

/* A connection from a client. With HTTP/1.1 or 1.0 it is the client side of its exchanges, one
 * after another; with HTTP/2, recognised by ALPN or by its preface, see http2_connection.h. */

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

/* An HTTP/2 connection of the client at @address begins. *client is for client_streams_leave();
 * NULL: its requests are not counted. STATUS_NO_MEMORY. */
MUST_USE enum status client_streams_join(struct client_env *clients, const struct address *address,
                                         struct stream_client **client);

/* The connection has ended, and has no requests. */
void client_streams_leave(struct client_env *clients, struct stream_client *client);

/* A request of @client (NULL: it is not counted) at @peer begins: give it a slot; none where @peer
 * has become a trusted proxy. False: there is none for it, which is counted and reported. */
MUST_USE bool client_streams_take(struct client_env *clients, struct stream_client *client,
                                  const struct address *peer, struct stream_slot *slot);

/* A request has ended, and holds nothing any more. A no-op if it has no slot. */
void client_streams_give(struct client_env *clients, struct stream_slot *slot);

#endif /* SLUICE_PROXY_CLIENT_CLIENT_ENV_H */
