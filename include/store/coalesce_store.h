/* Coalescing: while a decision is in flight, requests that are equal in limits, keys and cost wait
 * for it, and then travel as one call.
 *
 * The result is that of deciding them one after another at one time, in order of arrival. Requests
 * whose limits, or whose store, do not take that go straight through; so do those with very long
 * keys, and all when too many different ones are in flight. A call that is lost, or gets no answer,
 * fails those that travel in it and is not sent again; who waits for the next call has its own
 * deadline. One that a cluster answers with TRYAGAIN was not made: those aboard go straight on,
 * each by itself. */

#ifndef SLUICE_STORE_COALESCE_STORE_H
#define SLUICE_STORE_COALESCE_STORE_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"
#include "store/store_meters.h"

struct loop;

/* Over @below, which is owned from now on, in @loop's thread. @deadline_us is how long a decision
 * waits at most, from its asking; that of @below. It counts in @meters, borrowed; NULL: nowhere.
 * STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status coalesce_store_new(struct loop *loop, struct store *below,
                                        uint64_t deadline_us, struct coalesce_meters *meters,
                                        struct store **store);

#endif /* SLUICE_STORE_COALESCE_STORE_H */
