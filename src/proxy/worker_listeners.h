/* The listening sockets of a worker: those of the policy in force. */

#ifndef SLUICE_PROXY_WORKER_LISTENERS_H
#define SLUICE_PROXY_WORKER_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "proxy/listening.h"

struct worker;

/* Listen on what the @n @offers say, whose sockets are taken over, and leave where they do not say
 * it. STATUS_NO_MEMORY: not on all of them. */
MUST_USE enum status worker_listeners_set(struct worker *worker,
                                          const struct listening_offer *offers, size_t n);

/* Leave everywhere: no connection begins, but whoever has begun one is accepted. For each that
 * has left, worker_on_listener_gone(), but for sockets that were given, which others accept
 * from: they are gone at once. */
void worker_listeners_leave(struct worker *worker);

/* Whether there is one that has not left yet. */
bool worker_listeners_are_leaving(struct worker *worker);

/* Listen nowhere any more: what is queued is accepted first. */
void worker_listeners_close(struct worker *worker);

#endif /* SLUICE_PROXY_WORKER_LISTENERS_H */
