/* Internals of the server, for server.c, server_change.c and upstream_report.c only. */

#ifndef SLUICE_PROXY_SERVER_SERVER_INNER_H
#define SLUICE_PROXY_SERVER_SERVER_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log_output.h"
#include "base/status.h"
#include "proxy/server/config_generation.h"
#include "proxy/server/listening.h"
#include "proxy/server/worker.h"
#include "proxy/server_options.h"

/* What a policy needs of the process besides the workers. */
struct server_resources {
    struct config_generation *generation; /* a reference; NULL: none */
    struct listening listening;
    struct log_output *log; /* the access log; NULL: off */
};

enum change_phase {
    CHANGE_NONE,
    CHANGE_PREPARES, /* workers make what the policy needs */
    CHANGE_TURNS,    /* they switch to it */
    CHANGE_DROPS,    /* one of them failed: they drop what they made */
};

struct server {
    struct server_options options;
    struct worker_shared shared;
    struct server_resources now; /* in force; its generation is replaced under the lock */
    pthread_mutex_t lock;        /* for readers in other threads */
    struct worker *workers;
    unsigned n_workers; /* initialised */
    unsigned n_started;
    atomic_bool is_draining;

    enum change_phase phase; /* of the change to another policy */
    struct server_resources next;
    uint64_t deadline_us; /* workers are waited for without a warning until then; monotonic */
};

/* Open what @generation needs of the process; @before is what is in force, or all zero.
 * STATUS_IN_USE, STATUS_IO: reported in the log; STATUS_NO_MEMORY. On failure nothing is left, and
 * @generation is not released. */
MUST_USE enum status server_resources_open(struct server_resources *resources,
                                           const struct server_generation *generation,
                                           const struct server_resources *before);

/* @resources will not come into force, and @before stays: free what only @resources has. The
 * configuration generation is not released. */
void server_resources_discard(struct server_resources *resources,
                              const struct server_resources *before);

/* Make one worker's part of @resources: all sockets with @all, otherwise those of new addresses.
 * STATUS_IN_USE, STATUS_IO: reported in the log, and nothing is left. */
MUST_USE enum status server_resources_offer(struct server_resources *resources, bool all,
                                            struct worker_offer *offer);

/* Any thread: the configuration generation in force; the caller releases it. */
struct config_generation *server_acquire_generation(struct server *server);

/* The workers are about to drain: abandon the change that is under way, if there is one. */
void server_change_abandon(struct server *server);

/* The workers are closed: free what is left of the change. */
void server_change_close(struct server *server);

#endif /* SLUICE_PROXY_SERVER_SERVER_INNER_H */
