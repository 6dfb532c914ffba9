/* The state of upstreams that all workers of a process share: the health and load of each server,
 * and the queue. All functions are for any thread.
 *
 * It outlives policies. A reload keeps the object of an unchanged upstream, and the object of a
 * server that exists before and after the change. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_PROCESS_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/upstream/server_health.h"
#include "proxy/upstream/upstream_clients.h"

enum {
    CACHE_LINE_BYTES = 64,
    SERVER_CLOSINGS_MAX = 2048, /* within about SERVER_CLOSINGS_PERIOD_S */
    SERVER_CLOSINGS_PERIOD_S = 60,
};

/* Counted apart: a client that ends many requests must not use up the number for tunnels. */
enum server_closing {
    CLOSING_REQUEST,
    CLOSING_TUNNEL,
    SERVER_CLOSING_KINDS,
};

/* One server. */
struct server_process {
    _Alignas(CACHE_LINE_BYTES) struct server_health health;
    _Alignas(CACHE_LINE_BYTES) atomic_uint n_requests; /* under way; for BALANCE_LEAST_REQUESTS */
    atomic_uint n_connections; /* slots in use; counted only with max_connections */
    atomic_uint n_users;       /* number of struct upstream_process that use it */
    /* For server_process_take_closing(): the second at which a period began, and 32 bits of how
     * many were closed in it. */
    atomic_uint_least64_t closings[SERVER_CLOSING_KINDS];
    struct closing_clients closing_clients[SERVER_CLOSING_KINDS];
};

/* The requests that wait for a slot: see upstream_queue.h. */
struct upstream_queue {
    pthread_mutex_t lock;  /* for the lists, their waiters, and the grants of the groups */
    struct list retrying;  /* struct upstream_waiter that have tried servers: served first */
    struct list waiters;   /* all others, in the order of the queue */
    uint64_t pass;         /* number of the latest pass over `retrying` */
    struct list groups;    /* struct upstream_group of each worker */
    atomic_uint n_waiting; /* also read without the lock */
};

/* An upstream across configuration generations: its current version, and the older versions that
 * still have requests under way. Their requests wait for the same servers. */
struct upstream_lineage {
    pthread_mutex_t lock;  /* taken before that of a queue */
    struct list members;   /* struct upstream_process, the oldest first */
    atomic_uint n_members; /* also read without the lock */
};

struct upstream_process {
    atomic_uint n_users; /* configuration generations and groups that use it */
    struct upstream_lineage *lineage;
    struct list node;                /* in the lineage */
    struct server_process **servers; /* joined; by index in the spec */
    size_t n_servers;                /* as in the spec */
    struct upstream_queue queue;
    struct suspects suspects; /* of connections by HTTP/2 */
    struct stall_budgets stall_budgets;
    atomic_bool speaks_grpc; /* one of its servers has answered a call with a grpc-status */
};

/* Create the shared state of @spec, with one user. @before, with the spec @spec_before, is the
 * previous upstream of that name; NULL: there was none. STATUS_NO_MEMORY. */
MUST_USE enum status upstream_process_new(const struct upstream_spec *spec,
                                          struct upstream_process *before,
                                          const struct upstream_spec *spec_before,
                                          struct upstream_process **upstream);

/* Add or remove a user. Removing the last one frees @upstream. */
struct upstream_process *upstream_process_join(struct upstream_process *upstream);
void upstream_process_leave(struct upstream_process *upstream);

/* Take one of the @max connection slots of @server. False: none is free. */
MUST_USE bool server_process_take_place(struct server_process *server, unsigned max);

/* Count a connection of @kind to @server that is to be closed in order at @now_us (monotonic),
 * before the server closes it: its local port is taken for a minute (TIME_WAIT), and a client may
 * cause any number of these. @client, as address_of_client() gives it: NULL for one that is of no
 * client or may be of many. False: there were SERVER_CLOSINGS_MAX in this period, or
 * CLIENT_CLOSINGS_MAX of @client, so it is to be reset. */
MUST_USE bool server_process_take_closing(struct server_process *server, enum server_closing kind,
                                          const struct address *client, uint64_t now_us);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_PROCESS_H */
