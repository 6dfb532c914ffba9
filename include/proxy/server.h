/* The proxy as a whole: listening sockets, the embedded store and the workers, under one policy. */

#ifndef SLUICE_PROXY_SERVER_H
#define SLUICE_PROXY_SERVER_H

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

struct server;

/* Open everything that @policy (borrowed) names; nothing is served yet. What fails is logged with what to do.
 * STATUS_IN_USE: somebody else listens on one of the addresses; STATUS_IO, STATUS_NOT_FOUND (a host to listen
 * on), STATUS_NO_MEMORY. */
MUST_USE enum status server_new(const struct policy *policy, struct server **server);

/* Start the workers. STATUS_NO_MEMORY: not all could be started, and none runs. */
MUST_USE enum status server_start(struct server *server);

/* Stop accepting, let requests end within timeouts.drain. Returns at once. */
void server_drain(struct server *server);

/* Wait until all workers have ended. */
void server_wait(struct server *server);

/* The workers have ended, or never started. NULL is a no-op. */
void server_free(struct server *server);

#endif /* SLUICE_PROXY_SERVER_H */
