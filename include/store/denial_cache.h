/* A denial cache: what the store below has denied is denied here, until its retry_after is over,
 * and for one second at most.
 *
 * A denial is remembered by (limit, key) and holds for every request of that cost or more, whatever
 * other limits it meets; it is counted from when it was asked, so that it is never over too late.
 * Such a request charges nothing, here as there. Limits that hold slots, or whose charges are
 * corrected later, deny nobody here; requests that meet a limit which counts denied ones always go
 * on.
 *
 * The verdicts of such an answer are those of the asking, with the times counted down. A charge of
 * which nothing is known is marked untold: it might deny too. The answer's source is
 * DECISION_CACHE. */

#ifndef SLUICE_STORE_DENIAL_CACHE_H
#define SLUICE_STORE_DENIAL_CACHE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"
#include "store/store_meters.h"

enum {
    DENIAL_CACHE_BYTES = 1024 * 1024, /* of what is remembered; never more */
    DENIAL_CACHE_HOLDS_US = 1000 * 1000,
};

struct denial_cache_options {
    struct denial_cache_meters *meters; /* where it counts; borrowed. NULL: nowhere */
    uint64_t (*now_us)(void *context);  /* monotonic; NULL: the clock. A test passes its own */
    void *context;
    const atomic_uint_fast64_t *n_forgets; /* counted up by any thread when nothing that is
                                            * remembered holds any more; NULL: that never happens */
};

/* Over @below, which is owned from now on. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status denial_cache_new(struct store *below,
                                      const struct denial_cache_options *options,
                                      struct store **store);

/* Forget everything, what is being asked just now too: the policy, or somebody's state, is
 * another. */
void denial_cache_clear(struct store *store);

#endif /* SLUICE_STORE_DENIAL_CACHE_H */
