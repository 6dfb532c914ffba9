/* The Redis store of one worker: one pipelined connection, one script call per decision, and one
 * for all settlements of a request.
 *
 * While the first connection is being made, decisions wait for it until their deadline. While the
 * link is down or its breaker open, decisions fail at once. The link reconnects by itself, with
 * back-off and jitter. Then one decision is sent first, and others wait for its result. For the
 * reaction to each failure see store/redis_fault.h.
 *
 * A settlement is sent if the link is up; otherwise it is lost. If a call took a slot and its
 * decision was cancelled or timed out, the slot is released when the reply comes. If the link is
 * lost before that, the slot is released when its lease ends.
 *
 * The process must ignore SIGPIPE: hiredis writes to peers that may have closed. */

#ifndef SLUICE_STORE_REDIS_STORE_H
#define SLUICE_STORE_REDIS_STORE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"
#include "store/redis_process.h"
#include "store/store.h"

struct loop;

/* Makes a store. The link connects at once, in @loop; a failure to connect is not an error of this
 * function. STATUS_NO_MEMORY. Free with store_free(), in the loop's thread. */
MUST_USE enum status redis_store_new(struct loop *loop, const struct redis_store_options *options,
                                     struct store **store);

/* Whether decisions can be made now. */
bool redis_store_is_up(const struct store *store);

struct redis_store_counters redis_store_count(const struct store *store);

/* For a store over Redis stores, while it handles the answer to a decision that failed: the fault,
 * and in *text the error reply of Redis, if there is one. REDIS_FAULT_NONE: too many decisions were
 * pending, or there is no memory. */
enum redis_fault redis_store_fault(const struct store *store, struct span *text);

/* --- a Redis cluster --- */

/* The Redis cluster store of one worker: one link per node; a decision goes to the node of its
 * slot.
 *
 * Limits whose keys have the same hash tag are in one slot and need one atomic call, as with a
 * single Redis. If the limits of a request are in several slots, all are judged first. If all
 * enforced ones allow, they are charged slot by slot, each by a call that judges again. If a later
 * call denies, the charges before it are returned. So no limit admits more than it may. At worst a
 * request is denied because of charges of another request that are about to be returned. If a proxy
 * dies in between, its charges stay, and its concurrency slots are released when their lease ends.
 *
 * MOVED and ASK are followed, a few times and within the deadline. A call that a migrating slot
 * cannot execute as a whole (TRYAGAIN) is made key by key, as if each key were in a slot of its
 * own. A call with one of these replies has changed nothing, so nothing is charged twice.
 *
 * If a node cannot be reached, only the decisions on its slots fail. */

/* Makes a store. The links connect at once, in @loop; a failure to connect is not an error of this
 * function. STATUS_NO_MEMORY; STATUS_INVALID: no host, or one without name or port. Free with
 * store_free(), in the loop's thread. */
MUST_USE enum status redis_cluster_store_new(struct loop *loop,
                                             const struct redis_cluster_options *options,
                                             struct store **store);

/* Whether the owner of every slot can be asked now. */
bool redis_cluster_store_is_up(const struct store *store);

struct redis_cluster_counters redis_cluster_store_count(const struct store *store);

#endif /* SLUICE_STORE_REDIS_STORE_H */
