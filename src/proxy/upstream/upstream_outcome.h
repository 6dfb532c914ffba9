/* The outcomes of requests to servers, shared by all workers: a server that fails repeatedly is
 * ejected for a while. While all servers of an upstream are down they are asked all the same, as a
 * single one always is. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_OUTCOME_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_OUTCOME_H

#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "proxy/upstream/server_health.h"
#include "proxy/upstream/upstream_choice.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"

enum upstream_outcome {
    OUTCOME_SERVED,
    /* Failures, in the order of enum meter_failure. */
    OUTCOME_UNREACHABLE, /* none of its addresses is reachable */
    OUTCOME_UNACCEPTED,  /* no connection in time */
    OUTCOME_INSECURE,    /* no TLS with it */
    OUTCOME_UNANSWERED,  /* no answer in time */
    OUTCOME_LOST,        /* the connection died before the answer's end */
    OUTCOME_INVALID,     /* an answer that is not HTTP */
    OUTCOME_BAD_GATEWAY, /* 502, 503 or 504 */
    /* Counted, but no failures of the server: the length of a head, and what stands in its values,
     * may be what the client has sent. A head above max_head or max_headers; a control byte. */
    OUTCOME_LARGE_HEAD,
    OUTCOME_BAD_VALUE,
    OUTCOME_INCONCLUSIVE, /* for example, the client left: says nothing about the server */
};

/* Note the outcome of the request of @client that began at @began_us on @server, the latest of
 * @choice, and count failures. Call this once for each choice. */
void upstream_outcome_report(struct upstream_server *server, struct upstream_choice *choice,
                             const struct address *client, uint64_t began_us,
                             enum upstream_outcome outcome);

static inline void upstream_outcome_note(struct upstream_server *server,
                                         struct upstream_choice *choice,
                                         const struct address *client, uint64_t began_us,
                                         enum upstream_outcome outcome)
{
    if (UNLIKELY(outcome != OUTCOME_SERVED && outcome != OUTCOME_INCONCLUSIVE)) {
        counter_up(&upstream_server_meters(server)->failures[outcome - OUTCOME_UNREACHABLE]);
    }
    const bool is_plain =
        outcome == OUTCOME_SERVED && server_health_marks(&server->process->health) == 0;
    if (!is_plain || choice->is_probe) {
        upstream_outcome_report(server, choice, client, began_us, outcome);
    }
}

/* Report @change of @server: log it, with the reason @why if the server went down, and serve the
 * requests that wait for a connection. */
void upstream_outcome_announce(struct upstream_server *server, enum server_change change,
                               const char *why);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_OUTCOME_H */
