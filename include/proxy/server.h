/* The proxy as a whole: listening sockets, the access log and the workers. Its policy can be
 * replaced while it runs. */

#ifndef SLUICE_PROXY_SERVER_H
#define SLUICE_PROXY_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "proxy/server_options.h"

struct server;

/* Open all sockets and files that the policy names. Nothing is served yet. A failure is logged with
 * a remedy. STATUS_IN_USE: another process listens on one of the addresses; STATUS_IO,
 * STATUS_NO_MEMORY. After a failure the configuration generation is not released. */
MUST_USE enum status server_new(const struct server_options *options, struct server **server);

/* Start the workers. STATUS_NO_MEMORY: not all could be started, and none runs. */
MUST_USE enum status server_start(struct server *server);

/* Stop accepting connections and let requests end within timeouts.drain. Returns at once. */
void server_drain(struct server *server);

/* --- change of the policy: only in the thread that called server_start() --- */

/* The progress of a change. */
enum change_progress {
    CHANGE_IS_NONE,    /* no change is under way */
    CHANGE_IS_PENDING, /* workers prepare or switch: see server_change_fd() */
    CHANGE_IS_DONE,    /* all workers use the new policy */
    /* all workers use the old policy; the reason is logged, and the new configuration generation is
     * released */
    CHANGE_IS_FAILED,
};

/* Begin to switch all workers to @generation; no other change may be under way. Each worker
 * switches as a whole, between two of its requests. Requests under way end under the old policy.
 * Listen addresses and the log file are opened first; if that fails, the failure is logged and
 * nothing changes. STATUS_IN_USE, STATUS_IO, STATUS_NO_MEMORY: the configuration generation is not
 * released. */
MUST_USE enum status server_change_begin(struct server *server,
                                         const struct server_generation *generation);

/* Readable when server_change_go_on() has work. */
int server_change_fd(const struct server *server);

/* Continue the change as far as possible without waiting; @now_us is monotonic. DONE and FAILED are
 * returned once. */
enum change_progress server_change_go_on(struct server *server, uint64_t now_us);

/* Reopen the file of the access log after it was renamed. A failure is logged, and the old file
 * stays in use. */
void server_reopen_log(struct server *server);

/* How long the caller may wait for the fd before it calls server_change_go_on(), us; UINT64_MAX:
 * for ever. */
uint64_t server_change_patience_us(const struct server *server, uint64_t now_us);

/* --- state --- */

/* Liveness of the workers' loops. A running loop sends a heartbeat once a second. */
struct server_pulse {
    unsigned n_workers;  /* started and not ended */
    unsigned slowest;    /* number, from 1, of the worker with the oldest heartbeat; 0: none */
    uint64_t silence_us; /* since that heartbeat */
};

/* Any thread, between server_start() and server_free(). @now_us is monotonic. */
void server_read_pulse(const struct server *server, uint64_t now_us, struct server_pulse *pulse);

/* Any thread: whether server_drain() has been called. */
bool server_is_draining(const struct server *server);

/* Wait until all workers have ended. */
void server_wait(struct server *server);

/* The workers must have ended, or never started. NULL is a no-op. */
void server_free(struct server *server);

#endif /* SLUICE_PROXY_SERVER_H */
