/* The listening sockets of a worker: those of the policy in force. */

#ifndef SLUICE_PROXY_WORKER_LISTENERS_H
#define SLUICE_PROXY_WORKER_LISTENERS_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "proxy/listening.h"

struct worker;

/* Listen on what the @n @offers say, whose sockets are taken over, and no more where they do not say it: there what
 * is queued is accepted first. STATUS_NO_MEMORY: not on all of them. */
MUST_USE enum status worker_listeners_set(struct worker *worker,
                                          const struct listening_offer *offers, size_t n);

/* Listen nowhere any more: what is queued is accepted first. */
void worker_listeners_close(struct worker *worker);

#endif /* SLUICE_PROXY_WORKER_LISTENERS_H */
