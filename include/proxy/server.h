/* The proxy as a whole: listening sockets, the access log and the workers, under
 * one policy after another. */

#ifndef SLUICE_PROXY_SERVER_H
#define SLUICE_PROXY_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

struct bans;
struct given_sockets;
struct loop;
struct meters;
struct resolver_options;
struct server;
struct store;
struct store_meters;

/* One policy, with what the proxy needs under it but does not know. All of it stays
 * until release() is called. */
struct server_edition {
    const struct policy *policy; /* which meters_enter() has seen */
    const void
        *store; /* editions of which this is equal can use one store: it learns their limits */
    /* The store of one worker, whose loop is @loop, and which counts in @meters: in *store, freed
     * with store_free() after the worker's end unless *is_shared says that it belongs to all of
     * them. STATUS_NO_MEMORY. */
    enum status (*make_store)(void *context, struct loop *loop, struct store_meters *meters,
                              struct store **store, bool *is_shared);
    /* Nobody uses it any more. In any thread, once. */
    void (*release)(void *context);
    void *context;
};

/* Borrowed until server_free(), but for the edition. */
struct server_options {
    struct server_edition first;
    struct meters *meters;                   /* where the workers count */
    const struct resolver_options *resolver; /* NULL: the system's */
    struct bans *bans;                       /* that operators set; NULL: there are none, ever */
    struct given_sockets *given; /* are taken where the policy listens there; NULL: none */
};

/* Open everything that the policy names; nothing is served yet. What fails is logged with what to
 * do. STATUS_IN_USE: somebody else listens on one of the addresses; STATUS_IO, STATUS_NO_MEMORY:
 * then the edition is not released. */
MUST_USE enum status server_new(const struct server_options *options, struct server **server);

/* Start the workers. STATUS_NO_MEMORY: not all could be started, and none runs. */
MUST_USE enum status server_start(struct server *server);

/* Stop accepting, let requests end within timeouts.drain. Returns at once. */
void server_drain(struct server *server);

/* --- another policy: from the thread that server_start() was called in --- */

/* How far it is. */
enum change_progress {
    CHANGE_IS_NONE,    /* none is under way */
    CHANGE_IS_PENDING, /* workers make ready, or turn to it: see server_change_fd() */
    CHANGE_IS_DONE,    /* all workers are under the new policy */
    CHANGE_IS_FAILED, /* all are under the old one; the log says why, and the edition is released */
};

/* Let all workers turn to @edition, each as a whole, between two of its requests. What is under way
 * ends as it began. Addresses to listen on are opened first, and the log file: what fails is
 * logged, and nothing has changed. None is under way. STATUS_IN_USE, STATUS_IO, STATUS_NO_MEMORY:
 * the edition is not released. */
MUST_USE enum status server_change_begin(struct server *server,
                                         const struct server_edition *edition);

/* Readable when server_change_go_on() has something to do. */
int server_change_fd(const struct server *server);

/* Go on with what is under way, as far as it goes without waiting; @now_us is monotonic. DONE
 * and FAILED are told once. */
enum change_progress server_change_go_on(struct server *server, uint64_t now_us);

/* Open the file of the access log anew: it has been renamed. What fails is logged,
 * and the old one goes on. */
void server_reopen_log(struct server *server);

/* How long server_change_go_on() may wait for the fd, us; UINT64_MAX: for ever. */
uint64_t server_change_patience_us(const struct server *server, uint64_t now_us);

/* --- state --- */

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
