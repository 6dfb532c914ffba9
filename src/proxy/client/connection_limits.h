/* Limits on connections from clients, in total and per client: each new connection is counted, and
 * admitted or refused. If there are too many in total, a connection that waits for its client is
 * evicted to make room. The new connection is refused if none can be evicted, if its client has
 * too many, or if the PROXY protocol is required and not spoken.
 *
 * The evicted connection may belong to another worker, which is sent a message, or may answer a
 * request before it closes. So there are at most EVICTIONS_PENDING_MAX connections more than
 * max.connections. */

#ifndef SLUICE_PROXY_CLIENT_CONNECTION_LIMITS_H
#define SLUICE_PROXY_CLIENT_CONNECTION_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "policy/policy.h"
#include "proxy/client/eviction.h"
#include "proxy/core/client_counts.h"
#include "proxy/core/upstream_descriptors.h"

struct client_connection;
struct client_env;

/* Why a connection is refused. */
enum connection_limits_refusal {
    REFUSAL_CONNECTIONS, /* max.connections */
    REFUSAL_CLIENT,      /* max.connections_per_client */
    REFUSAL_DESCRIPTORS, /* the last file descriptors are reserved for upstreams */
    REFUSAL_MEMORY,
    REFUSAL_UNTRUSTED, /* a PROXY header is required, and accepted from trusted proxies only */
    REFUSAL_HEADER,    /* the bytes sent are not a PROXY header */
    CONNECTION_REFUSALS,
};

/* Shared by all workers. */
struct connection_limits {
    struct client_counts clients;
    struct eviction eviction;
    struct upstream_descriptors upstream_descriptors;
    struct client_counts http2_clients; /* workers and requests by HTTP/2: client_env.h */
    struct client_counts handshakes;    /* of TLS, by client: those after the first message */
    atomic_uint n_handshakes;           /* all of them */
    atomic_uint n_http2_requests;       /* those that http2_clients counts */
    int fd_end; /* a client connection with this descriptor or a higher one is refused */
};

void connection_limits_init(struct connection_limits *connection_limits);
void connection_limits_close(struct connection_limits *connection_limits);

/* Warn if there are fewer descriptors than @policy lets clients use. */
void connection_limits_check(const struct policy *policy);

/* How many pipes each of @n_workers (>= 1) may have, at most PIPES_MAX. All pipes together take at
 * most a quarter of the descriptors that are reserved from clients. */
MUST_USE size_t connection_limits_pipes(unsigned n_workers);

/* A connection *fd from @peer has been accepted. @proxy_protocol: a PROXY header is to name its
 * client. True: serve *fd, which may have changed; *is_counted is as of connection_limits_count().
 * False: it was refused, and is closed. */
MUST_USE bool connection_limits_admit(struct client_env *clients, bool proxy_protocol,
                                      const struct address *peer, int *fd, bool *is_counted);

/* The client of a connection is known: count the connection. False: the refusal was reported, and
 * the caller closes the connection. *is_counted: the caller passes the client to
 * connection_limits_release(). */
MUST_USE bool connection_limits_count(struct client_env *clients, const struct address *client,
                                      int fd, bool *is_counted);

/* Refuse a connection: log it, and if the client speaks HTTP answer 503 on @fd, unless that would
 * block. */
void connection_limits_refuse(struct client_env *clients, int fd, const struct address *client,
                              enum connection_limits_refusal refusal, const char *detail);

/* Whether connections of @peer are never evicted: @peer is a trusted proxy or on a unix socket. */
MUST_USE bool connection_limits_is_protected(const struct client_env *clients,
                                             const struct address *peer);

/* Close the connections of @clients that other workers have chosen as victims. */
void connection_limits_on_wake(struct client_env *clients);

/* A connection that was admitted has gone, and has its slot. @client: the client that it was also
 * counted for; NULL: none. */
void connection_limits_release(struct client_env *clients, const struct address *client);

/* Stop counting @connection. A no-op if it is no longer counted. */
void connection_limits_forget(struct client_connection *connection);

#endif /* SLUICE_PROXY_CLIENT_CONNECTION_LIMITS_H */
