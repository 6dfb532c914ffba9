/* A report on the state of the upstreams of the policy in force. */

#ifndef SLUICE_PROXY_UPSTREAM_REPORT_H
#define SLUICE_PROXY_UPSTREAM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/upstream_spec.h"

struct server;

/* The state of a server, from best to worst. */
enum upstream_server_state {
    UPSTREAM_SERVER_UP,
    UPSTREAM_SERVER_WARMING,      /* up with a reduced weight: slow_start */
    UPSTREAM_SERVER_PROBE_DUE,    /* ejected; one request may probe it */
    UPSTREAM_SERVER_EJECTED,      /* down after failed requests */
    UPSTREAM_SERVER_FAILS_CHECKS, /* down until it passes its checks */
};

struct upstream_server_report {
    const struct server_spec *spec;
    enum upstream_protocol protocol; /* that it is spoken to by */
    enum upstream_server_state state;
    bool is_in_use;         /* asked though it is down, since no server of its upstream is up */
    uint64_t probe_in_us;   /* EJECTED: time until a request may probe it */
    bool counts_requests;   /* n_requests is valid */
    uint32_t n_requests;    /* under way */
    bool has_slots;         /* max_connections is set; n_connections is valid */
    uint32_t n_connections; /* of all workers: being made, in use or idle */
};

struct upstream_report {
    const struct upstream_spec *spec;
    uint32_t n_waiting; /* requests in its queue */
};

/* Report each upstream in the order of the policy, followed by its servers. A report is valid only
 * during its callback. Any thread, between server_start() and server_free(). */
void upstream_report_report(
    struct server *server, uint64_t now_us,
    void (*on_upstream)(void *context, const struct upstream_report *report),
    void (*on_server)(void *context, const struct upstream_server_report *report), void *context);

#endif /* SLUICE_PROXY_UPSTREAM_REPORT_H */
