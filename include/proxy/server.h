/* The proxy as a whole: listening sockets, the access log and the workers, under one policy. */

#ifndef SLUICE_PROXY_SERVER_H
#define SLUICE_PROXY_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

struct bans;
struct loop;
struct meters;
struct resolver_options;
struct server;
struct store;
struct store_meters;

/* What the proxy is built of but does not know: everything is borrowed until server_free(). */
struct server_options {
    const struct policy *policy;             /* which meters_enter() has seen */
    struct meters *meters;                   /* where the workers count */
    const struct resolver_options *resolver; /* NULL: the system's */
    /* The store of one worker, whose loop is @loop, and which counts in @meters: in *store, freed with
     * store_free() after the worker's end unless *is_shared says that it belongs to all of them.
     * STATUS_NO_MEMORY. */
    enum status (*make_store)(void *context, struct loop *loop, struct store_meters *meters,
                              struct store **store, bool *is_shared);
    void *context;
    struct bans *bans; /* that operators set; NULL: there are none, ever */
};

/* Open everything that the policy names; nothing is served yet. What fails is logged with what to do.
 * STATUS_IN_USE: somebody else listens on one of the addresses; STATUS_IO, STATUS_NO_MEMORY. */
MUST_USE enum status server_new(const struct server_options *options, struct server **server);

/* Start the workers. STATUS_NO_MEMORY: not all could be started, and none runs. */
MUST_USE enum status server_start(struct server *server);

/* Stop accepting, let requests end within timeouts.drain. Returns at once. */
void server_drain(struct server *server);

/* How the workers' loops are doing. A loop beats once a second while it turns. */
struct server_pulse {
    unsigned n_workers;  /* whose loops should turn: started and not ended */
    unsigned slowest;    /* the number of the one that has not beaten for longest, from 1 */
    uint64_t silence_us; /* since that one's last beat */
};

/* Any thread, between server_start() and server_free(). @now_us is monotonic. */
void server_read_pulse(const struct server *server, uint64_t now_us, struct server_pulse *pulse);

/* Any thread: whether server_drain() has been called. */
bool server_is_draining(const struct server *server);

/* Wait until all workers have ended. */
void server_wait(struct server *server);

/* The workers have ended, or never started. NULL is a no-op. */
void server_free(struct server *server);

#endif /* SLUICE_PROXY_SERVER_H */
