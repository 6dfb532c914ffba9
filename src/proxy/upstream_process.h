/* What the workers of a process share of its upstreams: how each server is doing, as all of them
 * see it. Everything here is for any thread.
 *
 * It outlives policies: an upstream that a reload leaves as it was is the same one, and a server
 * that is there before and after a change is the same server. */

#ifndef SLUICE_PROXY_UPSTREAM_PROCESS_H
#define SLUICE_PROXY_UPSTREAM_PROCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server_health.h"
#include "proxy/upstream_queue.h"

enum { CACHE_LINE_BYTES = 64 };

/* One server. */
struct server_process {
    _Alignas(CACHE_LINE_BYTES) struct server_health health;
    _Alignas(CACHE_LINE_BYTES) atomic_uint n_requests; /* under way; of BALANCE_LEAST_REQUESTS */
    atomic_uint n_connections; /* being made, in use or idle; with max_connections */
    atomic_uint n_users;       /* struct upstream_process */
};

/* An upstream as it is, and as it was before its servers or rules were changed, for as long as
 * requests are under way that began then: those wait for the same servers. */
struct upstream_family {
    pthread_mutex_t lock;  /* taken before that of a queue */
    struct list members;   /* struct upstream_process, the oldest first */
    atomic_uint n_members; /* read without the lock, too */
};

struct upstream_process {
    atomic_uint n_users; /* editions of the policy */
    struct upstream_family *family;
    struct list node;                /* in it */
    struct server_process **servers; /* joined; by index of the spec's */
    size_t n_servers;                /* that are there: the spec's */
    struct upstream_queue queue;
};

/* That of @spec, for one user. @before, which was @spec_before's, is what the upstream of that name
 * was; NULL: there was none. STATUS_NO_MEMORY. */
MUST_USE enum status upstream_process_new(const struct upstream_spec *spec,
                                          struct upstream_process *before,
                                          const struct upstream_spec *spec_before,
                                          struct upstream_process **upstream);

/* One user more, or less; with the last it goes. */
struct upstream_process *upstream_process_join(struct upstream_process *upstream);
void upstream_process_leave(struct upstream_process *upstream);

#endif /* SLUICE_PROXY_UPSTREAM_PROCESS_H */
