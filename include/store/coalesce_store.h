/* Coalescing store: while a decision is in flight, requests with the same limits, keys and cost
 * wait for it, and are then sent as one call, a batch.
 *
 * The result is the same as deciding them one after another at one time, in order of arrival. A
 * request passes straight to the store below if its limits or that store do not support batches, if
 * its keys are very long, or if too many different requests are in flight. A call that is lost or
 * gets no answer fails its whole batch and is not sent again. Requests that wait for the next call
 * have their own deadlines. If a cluster answers a call with TRYAGAIN, the call changed nothing,
 * and each request of the batch is sent by itself. */

#ifndef SLUICE_STORE_COALESCE_STORE_H
#define SLUICE_STORE_COALESCE_STORE_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"
#include "store/store_meters.h"

struct loop;

/* Makes a store over @below, which it owns, for @loop's thread. @deadline_us is the longest wait of
 * a decision, from its arrival; it equals the deadline of @below. The store counts in @meters,
 * borrowed; NULL: nowhere. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status coalesce_store_new(struct loop *loop, struct store *below,
                                        uint64_t deadline_us, struct coalesce_meters *meters,
                                        struct store **store);

#endif /* SLUICE_STORE_COALESCE_STORE_H */
