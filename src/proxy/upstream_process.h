/* What the workers of a process share of its upstreams: how each server is doing, as all of them
 * see it. Everything here is for any thread. */

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
};

struct upstream_process {
    const struct upstream_spec *spec; /* borrowed */
    struct server_process *servers;   /* owned */
    size_t n_servers;                 /* that are open: the spec's */
    struct upstream_queue queue;
};

/* One for each of @policy's upstreams, by index. STATUS_NO_MEMORY. */
MUST_USE enum status upstream_process_open(const struct policy *policy,
                                           struct upstream_process **upstreams);

/* NULL is a no-op. */
void upstream_process_close(struct upstream_process *upstreams, const struct policy *policy);

#endif /* SLUICE_PROXY_UPSTREAM_PROCESS_H */
