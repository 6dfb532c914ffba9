/* A denial cache: repeats denials of the store below until their retry_after, for at most one
 * second.
 *
 * A denial is cached by (limit, key). It applies to every request of that cost or more, whatever
 * its other limits are. Its time starts when the request was asked, so it never lasts too long. A
 * request that the cache denies charges nothing, as in the store below. Denials by limits that hold
 * slots, or whose charges are corrected later, are not cached. Requests with a limit that counts
 * denied requests always go to the store below.
 *
 * A cached answer has the verdicts of the original answer, with the times counted down. A charge
 * without a cached verdict is marked unreported: it might deny too. The source of the answer is
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
    DENIAL_CACHE_BYTES = 1024 * 1024, /* maximum size of the cache */
    DENIAL_CACHE_HOLDS_US = 1000 * 1000,
};

struct denial_cache_options {
    struct denial_cache_meters *meters; /* borrowed; NULL: nothing is counted */
    uint64_t (*now_us)(void *context);  /* monotonic; NULL: the clock. A test passes its own */
    void *context;
    /* incremented by any thread when the whole cache is void; NULL: that never happens */
    const atomic_uint_fast64_t *n_forgets;
};

/* Makes a cache over @below, which it owns. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status denial_cache_new(struct store *below,
                                      const struct denial_cache_options *options,
                                      struct store **store);

/* Drops all cached verdicts, and does not cache the answers to decisions in flight. Called when the
 * policy or the state of a key has changed. */
void denial_cache_clear(struct store *store);

#endif /* SLUICE_STORE_DENIAL_CACHE_H */
