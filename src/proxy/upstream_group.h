/* The servers of one upstream, as one worker sees them: their addresses, idle connections and
 * turns. */

#ifndef SLUICE_PROXY_UPSTREAM_GROUP_H
#define SLUICE_PROXY_UPSTREAM_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "policy/policy.h"
#include "proxy/health_check.h"
#include "proxy/upstream_process.h"

struct worker;

/* One server of the list. */
struct upstream_server {
    struct upstream_group *group;
    const struct server_spec *spec;
    const struct endpoint *endpoint; /* the spec's */
    struct server_process *process;  /* what all workers know of it */
    uint64_t seed;                   /* of BALANCE_HASH */
    int64_t credit;                  /* of taking turns */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
    size_t n_addresses;           /* 0: not resolved (yet); 1 of a unix socket, which has none */
    size_t next_address;          /* turns to the next one when a connect fails */
    struct resolver_query *query; /* NULL: none under way */
    struct timer resolve_timer;   /* names are asked again */
    bool is_name;
    unsigned generation;       /* counts the answers that told its addresses */
    struct health_check check; /* of worker 1 alone */
    struct list idle;          /* struct upstream, the latest first */
    size_t n_connections;      /* idle ones among them */
};

struct upstream_group {
    const struct upstream_spec *spec;
    struct upstream_process *process; /* what all workers share of it; borrowed */
    struct worker *worker;
    struct upstream_server *servers; /* spec->n_servers */
    struct hash_key hash_key;        /* of BALANCE_HASH: the same in all proxies with one secret */
    bool is_limited;                 /* the servers have a max_connections */
    bool is_plain;      /* one server without: nothing to choose, nothing to wait for */
    struct list node;   /* in the process's queue, where is_limited */
    struct list grants; /* struct upstream_waiter of this worker; under the queue's lock */
    struct loop_task grants_task; /* takes them */
    atomic_uint n_idle;           /* connections, where is_limited; others look */
    bool counts_requests;         /* of each server: BALANCE_LEAST_REQUESTS goes by them */
    size_t n_choices;             /* so that of equals each is the first in turn */
    struct timeout_queue connect_timeouts;
    struct timeout_queue response_timeouts;
    struct timeout_queue idle_timeouts;
    struct timeout_queue queue_timeouts;
};

/* STATUS_NO_MEMORY. Names are asked for at once. @policy is the one that @process is of. */
MUST_USE enum status upstream_group_new(struct worker *worker, const struct policy *policy,
                                        struct upstream_process *process,
                                        struct upstream_group **group);

/* Closes idle connections; no other may be left. */
void upstream_group_free(struct upstream_group *group);

/* Another worker has something for this one: grants, or wishes for idle connections. */
void upstream_group_on_wake(struct upstream_group *group);

/* The worker makes no requests any more: its idle connections are of no use to it. */
void upstream_group_close_idle(struct upstream_group *group);

#endif /* SLUICE_PROXY_UPSTREAM_GROUP_H */
