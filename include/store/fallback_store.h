/* A fallback store: a shared store over an embedded one. Decisions that the shared store cannot
 * make follow the on_failure setting of each limit.
 *
 * If the limits of a request differ: deny wins; local is judged in the embedded store, with the
 * limit divided by the number of proxies; allow is skipped. A skipped charge gets a verdict that
 * allows and shows an unused quota.
 *
 * Local charges stay in the embedded store, so an outage that begins again does not reset local
 * quotas. When the number of proxies changes, buckets start afresh and windows continue. */

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
    /* Returns the number of proxies that a local limit is divided among, at least 1. Called for
     * each decision that is made here. */
    uint32_t (*count_instances)(void *context);
    void *context;
};

/* Makes a fallback store. If on_failure denies a decision, the decision keeps the shared store's
 * status. Other failed decisions get STATUS_OK, source LOCAL or SKIPPED, and the shared store's
 * status in `failure`. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status fallback_store_new(const struct fallback_store_options *options,
                                        struct store **store);

#endif /* SLUICE_STORE_FALLBACK_STORE_H */
