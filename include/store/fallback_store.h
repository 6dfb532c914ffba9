/* A shared store over an embedded one: what the first cannot answer is decided by each limit's
 * on_failure, in one place.
 *
 * Where the limits of a request differ: deny wins, local is judged (in the embedded store, at the
 * share of one proxy among as many as there are), allow is skipped. Skipped charges get a verdict
 * that allows and shows an untouched quota.
 *
 * What is charged here stays in the embedded store: a shared store that comes and goes makes
 * nobody's local quota untouched again. Buckets start afresh when the number of proxies changes,
 * windows go on. */

#ifndef SLUICE_STORE_FALLBACK_STORE_H
#define SLUICE_STORE_FALLBACK_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"

struct fallback_store_options {
    struct store *shared;       /* owned from now on */
    struct store *embedded;     /* borrowed; answers at once */
    const struct limit *limits; /* all of the policy, by index; borrowed */
    size_t n_limits;
    /* Proxies among which a local limit is shared out, at least 1. Asked for each decision that is
     * made here. */
    uint32_t (*count_instances)(void *context);
    void *context;
};

/* A decision that on_failure denies keeps the shared store's status; others are STATUS_OK with
 * source LOCAL or SKIPPED and the shared store's status in `failure`. STATUS_NO_MEMORY: nothing is
 * owned. */
MUST_USE enum status fallback_store_new(const struct fallback_store_options *options,
                                        struct store **store);

#endif /* SLUICE_STORE_FALLBACK_STORE_H */
