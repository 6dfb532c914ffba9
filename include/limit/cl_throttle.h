/* CL.THROTTLE of redis-cell: a gcra limit as the arguments of that command,
 * and its answer as a verdict.
 *
 *   CL.THROTTLE <key> <max_burst> <count> <period, s> <quantity>
 *   ─► limited 0 or 1, max_burst + 1, remaining, seconds to retry or -1, seconds to full
 *
 * Its seconds are whole: up to version 0.3.0 a fraction is dropped, later versions round up what is
 * at least a millisecond. Either way n seconds may be anything below n + 1, and that is what a
 * verdict says: its times are upper bounds, never too early.
 *
 * Source: brandur/redis-cell, README.md, src/lib.rs and src/cell/mod.rs of version 0.4.0; its issue
 * 56 and pull request 58 on rounding. */

#ifndef SLUICE_LIMIT_CL_THROTTLE_H
#define SLUICE_LIMIT_CL_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "limit/limit.h"

enum {
    CL_THROTTLE_ARGS = 4, /* behind the key */
    CL_THROTTLE_INTS = 5,
};

/* Why the command cannot judge @limit: a static phrase that follows "because", or NULL: it can. */
const char *cl_throttle_misfit(const struct limit *limit);

/* The arguments for @cost. What is above the burst would overflow its numbers: it is asked, as 0,
 * how things stand, and the verdict denies it. @limit is no misfit, here and below. */
void cl_throttle_args(const struct limit *limit, uint32_t cost, uint64_t args[CL_THROTTLE_ARGS]);

/* Read the CL_THROTTLE_INTS integers at @ints, the answer to cl_throttle_args(), as @limit's
 * verdict of @cost. False if they make no sense. */
MUST_USE bool cl_throttle_read_verdict(const struct limit *limit, uint32_t cost,
                                       const long long *ints, struct verdict *verdict);

#endif /* SLUICE_LIMIT_CL_THROTTLE_H */
