/* What a limit admits at most, and which of two limits is the stricter one. */

#ifndef SLUICE_LIMIT_BOUNDS_H
#define SLUICE_LIMIT_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/limit.h"

/* The most units that @limit, a bucket, admits in a time shorter than @us. Saturates. */
uint64_t bounds_bucket_admits(const struct limit *limit, uint64_t us);

/* Whether @loose allows every request that @strict allows. Both count the same requests at the same
 * cost; @strict may count more requests, and refunds nothing. May return false although the answer
 * is yes, if that depends on calendars, on windows that begin with a request, or on rounding. */
bool bounds_never_binds(const struct limit *loose, const struct limit *strict);

#endif /* SLUICE_LIMIT_BOUNDS_H */
