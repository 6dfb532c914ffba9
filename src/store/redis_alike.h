/* The reply to a call for requests alike: each is told what it is answered. */

#ifndef SLUICE_STORE_REDIS_ALIKE_H
#define SLUICE_STORE_REDIS_ALIKE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "store/redis_reply.h"
#include "store/store.h"

/* Read @reply to @decision, which stands for 2 … ALIKE_REQUESTS_MAX requests, and tell them all.
 * False: it makes no sense, and what some were told does not count. */
MUST_USE bool redis_alike_read(const struct redis_reply *reply, struct decision *decision);

#endif /* SLUICE_STORE_REDIS_ALIKE_H */
