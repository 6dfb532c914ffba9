/* The server from within, for server.c, server_change.c and upstream_report.c alone. */

#ifndef SLUICE_PROXY_SERVER_INNER_H
#define SLUICE_PROXY_SERVER_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log_output.h"
#include "base/status.h"
#include "proxy/edition.h"
#include "proxy/listening.h"
#include "proxy/server.h"
#include "proxy/worker.h"

/* What a policy has of the process besides the workers. */
struct server_outfit {
    struct edition *edition; /* joined; NULL: there is none */
    struct listening listening;
    struct log_output *log; /* the access log; NULL: off */
};

enum change_phase {
    CHANGE_NONE,
    CHANGE_PREPARES, /* workers make what the policy needs */
    CHANGE_TURNS,    /* they turn to it */
    CHANGE_DROPS,    /* one of them cannot: they drop what they made */
};

struct server {
    struct server_options options;
    struct worker_shared shared;
    struct server_outfit now; /* in force; its edition changes with the lock */
    pthread_mutex_t lock;     /* of those who look from other threads */
    struct worker *workers;
    unsigned n_workers; /* that are initialised */
    unsigned n_started;
    atomic_bool is_draining;

    enum change_phase phase; /* of the change to another policy */
    struct server_outfit next;
    uint64_t deadline_us; /* until which workers are waited for in silence, monotonic */
};

/* What @edition needs of the process; @before is what is in force, or all zero.
 * STATUS_IN_USE, STATUS_IO, STATUS_NO_MEMORY: told in the log, and nothing is left; the
 * edition is not released. */
MUST_USE enum status server_outfit_open(struct server_outfit *outfit,
                                        const struct server_edition *edition,
                                        const struct server_outfit *before);

/* It is not to be in force; @before is. The edition is not released. */
void server_outfit_discard(struct server_outfit *outfit, const struct server_outfit *before);

/* One worker's part of it. With @all of everything, else of what is new. STATUS_IN_USE, STATUS_IO:
 * told in the log, and nothing is left. */
MUST_USE enum status server_outfit_offer(struct server_outfit *outfit, bool all,
                                         struct worker_offer *offer);

/* Any thread: the edition in force, joined. */
struct edition *server_join_edition(struct server *server);

/* The workers are about to drain: the change that is under way, if there is one, does not come. */
void server_change_abandon(struct server *server);

/* The workers are closed: let go of what is left of it. */
void server_change_close(struct server *server);

#endif /* SLUICE_PROXY_SERVER_INNER_H */
