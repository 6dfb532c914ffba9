/* Which connections from clients are served. They are counted, in all and by client. Where there
 * are too many in all, one that waits for its client gives way to the new one. If none does, or
 * there are too many of one client, or the PROXY protocol is not spoken where it must be, the new
 * one is refused.
 *
 * With several workers the connection that gives way may be of another worker, which is sent a
 * message: so there are at most EVICTIONS_PENDING_MAX connections more than max.connections. */

#ifndef SLUICE_PROXY_ENTRANCE_H
#define SLUICE_PROXY_ENTRANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/log.h"
#include "policy/policy.h"
#include "proxy/client_counts.h"
#include "proxy/eviction.h"

struct sockaddr;
struct worker;

/* Why a connection is refused. */
enum entrance_refusal {
    REFUSAL_CONNECTIONS, /* max.connections */
    REFUSAL_CLIENT,      /* max.connections_per_client */
    REFUSAL_DESCRIPTORS, /* the last file descriptors are for upstreams */
    REFUSAL_MEMORY,
    REFUSAL_UNTRUSTED, /* a PROXY header would be expected, and believed of trusted proxies alone */
    REFUSAL_HEADER,    /* it is no PROXY header that was sent */
    ENTRANCE_REFUSALS,
};

/* What the workers share. */
struct entrance {
    atomic_uint n_connections;
    struct client_counts clients;
    struct eviction eviction;
    int fd_end; /* a client's connection that has this descriptor is refused */
};

void entrance_init(struct entrance *entrance);
void entrance_close(struct entrance *entrance);

/* Warn where there are fewer descriptors than @policy lets clients use. */
void entrance_check(const struct policy *policy);

/* How many pipes each of @n_workers (>= 1) may have, at most PIPES_MAX: all together a quarter of
 * the descriptors that clients leave. */
MUST_USE size_t entrance_pipes(unsigned n_workers);

/* A connection @fd (taken over) from @peer has come: serve it or refuse it. @proxy_protocol: it has
 * to say first who it is of. */
void entrance_accept(struct worker *worker, bool proxy_protocol, int fd,
                     const struct sockaddr *peer);

/* The client of a connection is known: count it. False: refused, and told; close it.
 * *is_counted: tell entrance_leave(). */
MUST_USE bool entrance_count(struct worker *worker, const struct address *client, int fd,
                             bool *is_counted);

/* A connection is refused: log it, and answer 503 on @fd if the kernel takes it at once
 * and it is an HTTP client. */
void entrance_refuse(struct worker *worker, int fd, const struct address *client,
                     enum entrance_refusal refusal, const char *detail);

/* Whether connections of @peer are never evicted: those of trusted proxies and of unix sockets. */
MUST_USE bool entrance_is_protected(const struct worker *worker, const struct address *peer);

/* Other workers may have chosen connections of @worker to be closed. */
void entrance_on_wake(struct worker *worker);

/* A connection that came in has gone. @client: it was counted; else NULL. */
void entrance_leave(struct worker *worker, const struct address *client);

#endif /* SLUICE_PROXY_ENTRANCE_H */
