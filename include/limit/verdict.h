/* Answer of one limit to one request, the same for every algorithm and store. */

#ifndef SLUICE_LIMIT_VERDICT_H
#define SLUICE_LIMIT_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

/* Value of retry_after when waiting cannot help: the cost exceeds the limit. */
#define RETRY_NEVER UINT64_MAX

/* How things stand before the request is charged. Times are in ticks, the unit
 * of time of the limit: see struct limit_params. */
struct verdict {
    bool allowed;
    uint64_t limit;       /* units that pass at once when the quota is untouched */
    uint64_t remaining;   /* units that would pass now; <= limit */
    uint64_t retry_after; /* 0 if allowed, else wait for the same cost, or RETRY_NEVER */
    uint64_t next_after;  /* wait until remaining is one more; 0 if untouched */
    uint64_t reset_after; /* wait until the quota is untouched if nobody else calls */
};

#endif /* SLUICE_LIMIT_VERDICT_H */
