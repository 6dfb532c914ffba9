/* The choice of a server for one request, and of another server if the first cannot serve it. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_CHOICE_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "proxy/upstream/server_health.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"

/* The attempts made so far for one request. Initially all zero. */
struct upstream_choice {
    uint64_t tried[POLICY_SERVERS_MAX / 64]; /* one bit per server */
    struct hash128 key;                      /* for BALANCE_HASH; valid with has_key */
    bool has_key;                            /* false: the key is missing, use round robin */
    bool is_probe;                           /* the request is the probe of the latest server */
    bool fresh;                              /* use new connections only */
    struct upstream_server *stale;           /* the server whose idle connection died; NULL: none */
    unsigned n_addresses; /* failed addresses of the latest server; 0: all or none */
    unsigned n_timeouts;  /* connections that were not made in time */
    unsigned n_deaths;    /* new connections that died before the first byte of the answer */
};

enum choice_result {
    CHOICE_MADE,
    CHOICE_FULL, /* the servers that may be tried have their max_connections: wait for a slot */
    CHOICE_NONE, /* all servers were tried, or have no address */
};

/* Choose the next server for the request at @now_us, by the balance of the upstream. Each server is
 * chosen once, and servers that are down come after all others. The server whose idle connection
 * died is chosen a second time, after all of them. A server with a max_connections must have a free
 * slot or an idle connection of this worker. */
enum choice_result upstream_choice_make(struct upstream_group *group,
                                        struct upstream_choice *choice, uint64_t now_us,
                                        struct upstream_server **server);

/* Undo the choice of @server, the latest one: no request was sent to it. */
void upstream_choice_withdraw(struct upstream_choice *choice, struct upstream_server *server,
                              uint64_t now_us);

/* --- for requests that wait for a connection --- */

/* Whether there is a server to wait for: one that was not tried, or may be tried again. */
bool upstream_choice_is_left(const struct upstream_group *group,
                             const struct upstream_choice *choice);

/* Choose the next server and take a slot of it. False: no slot is free now. */
MUST_USE bool upstream_choice_reserve(struct upstream_group *group, struct upstream_choice *choice,
                                      uint64_t now_us, struct upstream_server **server);

/* Whether no server has been tried yet. */
bool upstream_choice_is_new(const struct upstream_choice *choice);

/* Whether a connection to @server is acceptable: it was not tried, and it is up or all servers are
 * down. */
bool upstream_choice_allows(const struct upstream_choice *choice,
                            const struct upstream_server *server, uint64_t now_us);

/* Note that @server is being tried. */
void upstream_choice_note(struct upstream_choice *choice, const struct upstream_server *server);

/* --- outcomes --- */

/* The outcomes of requests to servers, shared by all workers: a server that fails repeatedly is
 * ejected for a while. While all servers of an upstream are down they are asked all the same, as a
 * single one always is. */

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
    /* A head above max_head or max_headers. Counted, but no failure of the server: the length of a
     * head may depend on the request. */
    OUTCOME_LARGE_HEAD,
    OUTCOME_INCONCLUSIVE, /* for example, the client left: says nothing about the server */
};

/* Note the outcome of the request that began at @began_us on @server, the latest of @choice, and
 * count failures. Call this once for each choice. */
void upstream_outcome_report(struct upstream_server *server, struct upstream_choice *choice,
                             uint64_t began_us, enum upstream_outcome outcome);

static inline void upstream_outcome_note(struct upstream_server *server,
                                         struct upstream_choice *choice, uint64_t began_us,
                                         enum upstream_outcome outcome)
{
    if (UNLIKELY(outcome != OUTCOME_SERVED && outcome != OUTCOME_INCONCLUSIVE)) {
        counter_up(&upstream_server_meters(server)->failures[outcome - OUTCOME_UNREACHABLE]);
    }
    const bool is_plain =
        outcome == OUTCOME_SERVED && server_health_marks(&server->process->health) == 0;
    if (!is_plain || choice->is_probe) {
        upstream_outcome_report(server, choice, began_us, outcome);
    }
}

/* Report @change of @server: log it, with the reason @why if the server went down, and serve the
 * requests that wait for a connection. */
void upstream_outcome_announce(struct upstream_server *server, enum server_change change,
                               const char *why);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_CHOICE_H */
