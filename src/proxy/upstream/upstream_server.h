/* The servers of one upstream in one worker: their addresses, idle connections and round-robin
 * state. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_SERVER_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "policy/policy.h"
#include "proxy/core/proxy_env.h"
#include "proxy/meters.h"
#include "tls/tls_client.h"

struct health_check;
struct health_check_http2;
struct server_process;
struct stream;
struct stream_handler;
struct text;
struct tls_handler;
struct upstream_group;
struct upstream_process;

enum { UPSTREAM_OWN_ROWS = 64 };

/* For whom a connection of HTTP/2 without streams is kept. */
enum upstream_rest {
    REST_SHARED,     /* all */
    REST_OWN,        /* its owner */
    REST_FOR_BODIES, /* whoever has a long body next */
    N_UPSTREAM_RESTS,
};

/* One server. */
struct upstream_server {
    struct upstream_group *group;
    const struct server_spec *spec;
    const struct endpoint *endpoint; /* the spec's */
    bool has_plain_text;             /* endpoint->text needs no escape in a log line */
    struct server_process *process;  /* the state that all workers share */
    uint64_t seed;                   /* for BALANCE_HASH */
    int64_t credit;                  /* for round robin */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
    size_t n_addresses;           /* 0: not resolved (yet); always 1 for a unix socket */
    size_t next_address;          /* for new connections; advances when a connect fails */
    struct resolver_query *query; /* NULL: none under way */
    struct timer resolve_timer;   /* until the next query */
    bool is_name;
    void (*on_change)(struct upstream_server *server); /* of its addresses */
    unsigned generation;                               /* number of answers with addresses so far */
    struct health_check *check;                        /* only in worker 1; NULL: none */
    struct list idle;                                  /* struct upstream, the latest first */
    /* struct upstream_http2 that take streams, the latest first: of all clients; and, by client, of
     * one alone. */
    struct list http2;
    struct list http2_own[UPSTREAM_OWN_ROWS];
    struct list http2_for_bodies;         /* those at rest that any client's long body may have */
    struct list http2_withdrawn;          /* those that take none, for now or for good */
    unsigned n_resting[N_UPSTREAM_RESTS]; /* connections without streams, for good */
    uint64_t full_us;                     /* monotonic: when one was full last; 0: never */
    uint32_t granted;  /* streams of a connection, as the server said last; 0: nothing yet */
    bool is_http1;     /* as ALPN said last */
    bool has_upgraded; /* it has answered by HTTP/1.1 where it was asked for an upgrade */
    uint64_t no_upgrade_until_us;            /* monotonic: it takes no such connections */
    struct tls_client_sessions tls_sessions; /* under group->tls */
    size_t n_connections;                    /* including idle ones */
};

struct upstream_group {
    unsigned n_users;                 /* configurations */
    const struct upstream_spec *spec; /* of the latest configuration */
    struct upstream_process *process; /* the state that all workers share; joined */
    struct proxy_env *env;
    struct list of_worker;           /* in env->upstream_groups */
    struct upstream_server *servers; /* spec->n_servers */
    struct hash_key hash_key;        /* for BALANCE_HASH: equal in all proxies with one secret */
    bool is_limited;                 /* the servers have a max_connections */
    bool is_retired;                 /* no idle connection is kept */
    bool is_plain; /* one server, not is_limited: nothing to choose or to wait for */
    struct tls_client_context *tls; /* a reference, if a server is_https; else NULL */
    struct log_gate tls_gate;       /* of failed handshakes */
    struct log_gate lack_gate;      /* of what the proxy lacks */
    struct list node;               /* in the queue of `process`, if is_limited */
    struct list grants; /* struct upstream_waiter of this worker; under the queue's lock */
    struct loop_task grants_task; /* takes the grants */
    atomic_uint n_idle;           /* idle connections, if is_limited; other workers read it */
    bool counts_requests;         /* requests per server are counted, for BALANCE_LEAST_REQUESTS */
    size_t n_choices;             /* rotates the order among servers with equal load */
    struct timeout_queue connect_timeouts;
    struct timeout_queue response_timeouts;
    struct timeout_queue idle_timeouts;
    struct timeout_queue queue_timeouts;
    uint64_t ping_us; /* of HTTP/2: without a byte; then a PING */
};

/* The meters of @server. */
static inline struct server_meters *upstream_server_meters(const struct upstream_server *server)
{
    return counter_table_at(&server->group->env->meters->servers, server->spec->meter);
}

/* The index of @address among the addresses of @server; n_addresses if it is not among them. */
static inline size_t upstream_server_find_address(const struct upstream_server *server,
                                                  const struct resolver_address *address)
{
    size_t i = 0;
    while (i < server->n_addresses &&
           (server->addresses[i].bytes != address->bytes ||
            memcmp(&server->addresses[i].sockaddr, &address->sockaddr, address->bytes) != 0)) {
        i++;
    }
    return i;
}

/* --- addresses: a name is resolved again when the TTL of its answer ends --- */

/* Find the addresses of @server, whose endpoint and group are set. A name query starts at once.
 * @on_change is called after each answer with addresses. STATUS_NO_MEMORY. */
MUST_USE enum status upstream_name_init(struct upstream_server *server,
                                        void (*on_change)(struct upstream_server *server));

/* Give @server, which has no addresses yet, those of @old, which has the same name, until its own
 * query is answered. */
void upstream_name_take_over(struct upstream_server *server, const struct upstream_server *old);

void upstream_name_close(struct upstream_server *server);

/* Write the Host field value that names @server, as in a URL; "localhost" for a unix socket. */
void upstream_name_write_host(const struct endpoint *server, struct text *text);

/* Start to connect @stream to @server, which must have an address. Results as of
 * stream_connect(). */
MUST_USE enum status upstream_name_connect(const struct upstream_server *server,
                                           struct stream *stream,
                                           const struct stream_handler *handler, void *owner);

/* Begin the handshake with @server, which is_https, on @stream, which has just been connected.
 * Results as of tls_connect(). */
MUST_USE enum status upstream_name_secure(struct upstream_server *server, struct stream *stream,
                                          const struct tls_handler *handler);

/* Log why the handshake with @server failed, once a second at most. */
void upstream_name_report_insecure(struct upstream_server *server, const char *reason);

/* Log, once a second at most, that the proxy cannot make a connection to @server: what it lacks is
 * told by @status of stream_connect(). */
void upstream_name_report_lack(struct upstream_server *server, enum status status);

/* A connection to @server failed: use its next address, and resolve its name again soon. */
void upstream_name_on_failure(struct upstream_server *server);

/* --- active health checks (health_check.c): periodic GET requests, each on its own connection.
 * Only one worker of the process makes them; all workers see the results --- */

/* Check @server periodically, first after a short random delay. STATUS_NO_MEMORY. */
MUST_USE enum status health_check_new(struct upstream_server *server, struct health_check **check);

/* NULL is a no-op. */
void health_check_free(struct health_check *check);

/* --- a check by HTTP/2 (health_check_http2.c): its request, on a connection of its own, and the
 * status of the answer --- */

/* Begin: a GET of @path, with @host for the server's name. NULL: no memory. */
MUST_USE struct health_check_http2 *health_check_http2_new(const struct upstream_server *server,
                                                           struct span path, struct span host);
/* NULL is a no-op. */
void health_check_http2_free(struct health_check_http2 *check);

/* Write the frames that are due to @stream, unless it is blocked. False: the connection ended. */
MUST_USE bool health_check_http2_flush(struct health_check_http2 *check, struct stream *stream);

/* @n bytes have come. Returns the status of the answer; 0: it has not come; negative: it is not
 * valid HTTP/2. */
int health_check_http2_read(struct health_check_http2 *check, const char *bytes, size_t n);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_SERVER_H */
