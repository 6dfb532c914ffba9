/* A shared store over an embedded one: what the first cannot answer is decided by each limit's
 * on_failure, in one place.
 *
 * Where the limits of a request differ: deny wins, local is judged (limit->local, in the embedded
 * store), allow is skipped. Skipped charges get a verdict that allows and shows an untouched quota.
 */

#ifndef SLUICE_STORE_FALLBACK_STORE_H
#define SLUICE_STORE_FALLBACK_STORE_H

#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"

/* @shared is owned from now on; @embedded is borrowed and answers at once. A decision that
 * on_failure denies keeps the shared store's status; others are STATUS_OK with source LOCAL or
 * SKIPPED and the shared store's status in `failure`. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status fallback_store_new(struct store *shared, struct store *embedded,
                                        struct store **store);

#endif /* SLUICE_STORE_FALLBACK_STORE_H */
