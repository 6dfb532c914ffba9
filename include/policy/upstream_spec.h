/* What a policy says of an upstream and its servers; part of policy.h. */

#ifndef SLUICE_POLICY_UPSTREAM_SPEC_H
#define SLUICE_POLICY_UPSTREAM_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "policy/key.h"
#include "policy/settings.h"

enum upstream_host {
    UPSTREAM_HOST_PRESERVE, /* what the client sent */
    UPSTREAM_HOST_SERVER,   /* the server's own */
    UPSTREAM_HOST_NAME,     /* a given one */
};

/* How requests are spread over the servers. */
enum balance_kind {
    BALANCE_ROUND_ROBIN,
    BALANCE_LEAST_REQUESTS,
    BALANCE_HASH, /* equal keys go to one server */
};

struct server_spec {
    struct endpoint endpoint;
    uint32_t weight; /* its share among those of the others, from 1 */
};

struct upstream_spec {
    struct span name;
    uint32_t index; /* among all upstreams, from 0 */
    struct server_spec *servers;
    size_t n_servers; /* 1 … POLICY_SERVERS_MAX */
    enum balance_kind balance;
    struct key balance_key; /* of BALANCE_HASH */
    enum upstream_host host;
    struct span host_name; /* for UPSTREAM_HOST_NAME */
    uint64_t connect_us;
    uint64_t
        response_us;  /* from the request's end to the response's head, and between its pieces */
    uint64_t idle_us; /* of a pooled connection */
    uint32_t retries; /* of a request whose connection died before its answer; see the manual */
};

#endif /* SLUICE_POLICY_UPSTREAM_SPEC_H */
