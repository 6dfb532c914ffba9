/* Who may come in: connections from clients are counted, in all and of each client, and
 * refused where there are too many of them, or where they do not say in the PROXY protocol who
 * they are although they should. */

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

/* A connection that came in has gone. @client: it was counted; else NULL. */
void entrance_leave(struct worker *worker, const struct address *client);

#endif /* SLUICE_PROXY_ENTRANCE_H */
