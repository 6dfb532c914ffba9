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
    unsigned n_users;                 /* regimes */
    const struct upstream_spec *spec; /* of the latest of them */
    struct upstream_process *process; /* what all workers share of it; joined */
    struct worker *worker;
    struct upstream_server *servers; /* spec->n_servers */
    struct hash_key hash_key;        /* of BALANCE_HASH: the same in all proxies with one secret */
    bool is_limited;                 /* the servers have a max_connections */
    bool is_retired;                 /* no connection is kept */
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

/* That of @policy's upstream number @index, of which @process is what all workers share, for one
 * user. @before is what the worker has of that upstream as it was, whose addresses are good until
 * names are resolved; NULL: nothing. Nothing is sent to its servers before
 * upstream_group_begin(). STATUS_NO_MEMORY. */
MUST_USE enum status upstream_group_new(struct worker *worker, const struct policy *policy,
                                        size_t index, struct upstream_process *process,
                                        struct upstream_group *before,
                                        struct upstream_group **group);

/* It is in force, under @policy, as upstream number @index of that: also when it has been so
 * already, under one that says the same of it. STATUS_NO_MEMORY: checks cannot begin. */
MUST_USE enum status upstream_group_begin(struct upstream_group *group, const struct policy *policy,
                                          size_t index);

/* What @group borrows of a policy it borrows of @policy from now on, which says the same of it. */
void upstream_group_refer_to(struct upstream_group *group, const struct policy *policy,
                             size_t index);

/* It is not in force any more: what is under way goes on, nothing is kept. */
void upstream_group_retire(struct upstream_group *group);

/* One user more, or less; with the last it goes, and then no connection
 * but idle ones may be left. */
struct upstream_group *upstream_group_join(struct upstream_group *group);
void upstream_group_leave(struct upstream_group *group);

/* Whether the addresses of its servers are known, or cannot be found out. */
bool upstream_group_is_ready(const struct upstream_group *group);

/* Another worker has something for this one: grants, or wishes for idle connections. */
void upstream_group_on_wake(struct upstream_group *group);

/* The worker makes no requests any more: its idle connections are of no use to it. */
void upstream_group_close_idle(struct upstream_group *group);

#endif /* SLUICE_PROXY_UPSTREAM_GROUP_H */
