/* Answer of one limit to one request, the same for every algorithm and store. */

#ifndef SLUICE_LIMIT_VERDICT_H
#define SLUICE_LIMIT_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

/* Value of retry_after when waiting cannot help: the cost exceeds the limit. */
#define RETRY_NEVER UINT64_MAX

/* Value of retry_after when nobody can tell: a slot comes back when a request ends. */
#define RETRY_UNKNOWN (UINT64_MAX - 1)

/* Times are in ticks, the unit of time of the limit: see struct limit_params. */
struct verdict {
    /* The judgement: of the request, before it is charged. */
    bool allowed;
    uint64_t retry_after; /* 0 if allowed, else wait for the same cost, or one of the above */
    uint64_t wait;        /* an admitted request is held so long; shaping alone */

    /* The report: how things stand. */
    uint64_t limit;       /* units that pass at once when the quota is untouched */
    uint64_t remaining;   /* units that would pass now; <= limit */
    uint64_t next_after;  /* wait until remaining is one more; 0 if untouched */
    uint64_t reset_after; /* wait until the quota is untouched if nobody else calls */
};

#endif /* SLUICE_LIMIT_VERDICT_H */
