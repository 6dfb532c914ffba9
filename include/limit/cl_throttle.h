/* CL.THROTTLE of redis-cell: arguments of that command from a gcra limit, and a verdict from its
 * reply.
 *
 *   CL.THROTTLE <key> <max_burst> <count> <period, s> <quantity>
 *   ─► limited 0 or 1, max_burst + 1, remaining, seconds to retry or -1, seconds to full
 *
 * Its seconds are whole: up to version 0.3.0 a fraction is dropped; later versions round up a
 * fraction of at least a millisecond. In both cases n seconds may be any time below n + 1. The
 * times of a verdict are therefore upper bounds, never too early.
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
    CL_THROTTLE_ARGS = 4, /* after the key */
    CL_THROTTLE_INTS = 5,
};

/* Returns NULL if the command can judge @limit, else the reason as a static phrase that follows
 * "because". */
const char *cl_throttle_misfit(const struct limit *limit);

/* The arguments for @cost. A cost above the burst would overflow the command's numbers: the
 * argument is 0 instead, which queries the state, and the verdict denies the request. Here and
 * below, cl_throttle_misfit() of @limit is NULL. */
void cl_throttle_args(const struct limit *limit, uint32_t cost, uint64_t args[CL_THROTTLE_ARGS]);

/* Read the CL_THROTTLE_INTS integers at @ints, the reply to cl_throttle_args(), as @limit's verdict
 * of @cost. False: they are invalid. */
MUST_USE bool cl_throttle_read_verdict(const struct limit *limit, uint32_t cost,
                                       const long long *ints, struct verdict *verdict);

#endif /* SLUICE_LIMIT_CL_THROTTLE_H */
