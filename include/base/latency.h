/* How long things took, in the buckets that a page of metrics shows: few, and with round edges,
 * where base/histogram.h has many and exact ones. Zeroed memory is one without an entry.
 *
 * One thread adds, any thread reads. */

#ifndef SLUICE_BASE_LATENCY_H
#define SLUICE_BASE_LATENCY_H

#include <stddef.h>
#include <stdint.h>

#include "base/counter.h"

enum { LATENCY_EDGES = 19 };

struct latency {
    struct counter
        counts[LATENCY_EDGES + 1]; /* by bucket; what is above all edges is in the last */
    struct counter sum_us;
};

/* The bucket of @us: the first whose edge is not below it. */
size_t latency_bucket(uint64_t us);

/* The largest time in the bucket @i < LATENCY_EDGES, us: 10, 25, 50, 100, … 10,000,000. */
uint64_t latency_edge_us(size_t i);

static inline void latency_add(struct latency *latency, uint64_t us)
{
    counter_up(&latency->counts[latency_bucket(us)]);
    counter_add(&latency->sum_us, us);
}

#endif /* SLUICE_BASE_LATENCY_H */
