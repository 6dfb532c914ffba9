/* The generic cell rate algorithm: one number of state, the theoretical arrival time.
 *
 * Each unit moves that time on by an interval of ceil(period / rate) ticks; a request passes
 * while the time would be at most burst intervals after now. A rate whose interval that
 * rounding changes by more than 0.1 % is refused. Answers as redis-cell's CL.THROTTLE does
 * with max_burst = burst - 1.
 *
 * One number cannot tell how long ago it was written. A clock that was set back is known by a time
 * further away than the bucket is deep and a second, and then the bucket is full; a smaller step
 * back takes away what would have come back in it. A burst that is lowered by as much looks the
 * same. For the same reason a cost learnt later fills the bucket at most.
 *
 * Source: ITU-T I.371 annex A (virtual scheduling); brandur/redis-cell.
 * Twin: gcra.lua answers the same; tests/data/vectors/gcra.tsv is run through both. */

#ifndef SLUICE_LIMIT_GCRA_H
#define SLUICE_LIMIT_GCRA_H

#include <stdint.h>

#include "limit/algorithm.h"
#include "limit/refill.h"

/* What is remembered per key. All zero is untouched. Plain data. */
struct gcra {
    uint64_t arrival;     /* theoretical arrival time, ticks */
    struct refill refill; /* there if the limit settles */
};

/* The registry's row: see struct algorithm. Constant time. */
extern const struct algorithm gcra_algorithm;

/* Ticks that one unit takes. */
uint64_t gcra_interval(const struct limit_params *params);

#endif /* SLUICE_LIMIT_GCRA_H */
