/* How the upstreams of the policy in force are doing, for who looks from outside. */

#ifndef SLUICE_PROXY_UPSTREAM_REPORT_H
#define SLUICE_PROXY_UPSTREAM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/upstream_spec.h"

struct server;

/* What a server is to the proxy, from the best to the worst. */
enum upstream_server_state {
    UPSTREAM_SERVER_IN,
    UPSTREAM_SERVER_WARMING,      /* in, with less than its weight: slow_start */
    UPSTREAM_SERVER_DUE,          /* it was ejected, and one request may try it */
    UPSTREAM_SERVER_EJECTED,      /* it failed requests */
    UPSTREAM_SERVER_FAILS_CHECKS, /* and is out until it passes them */
};

struct upstream_server_report {
    const struct server_spec *spec;
    enum upstream_server_state state;
    uint64_t trial_in_us;   /* EJECTED: until a request may try it */
    bool counts_requests;   /* else nobody counts those to it that are under way */
    uint32_t n_requests;    /* where somebody does */
    bool has_places;        /* it has a max_connections */
    uint32_t n_connections; /* where it has: being made, in use or idle, of all workers */
};

struct upstream_report {
    const struct upstream_spec *spec;
    uint32_t n_waiting; /* requests in its queue */
};

/* Tell of all upstreams in the order of the policy, and after each of its servers. What is told is
 * gone after the call. Any thread, between server_start() and server_free(). */
void upstream_report_tell(struct server *server, uint64_t now_us,
                          void (*on_upstream)(void *context, const struct upstream_report *report),
                          void (*on_server)(void *context,
                                            const struct upstream_server_report *report),
                          void *context);

#endif /* SLUICE_PROXY_UPSTREAM_REPORT_H */
