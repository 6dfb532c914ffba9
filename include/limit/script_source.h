/* The Lua program that decides in Redis, put together from a prelude, the algorithms that a policy
 * uses and a driver. Constant for a policy; user bytes reach it in KEYS and ARGV alone.
 *
 * KEYS  one per charge
 * ARGV  1  the time to decide at, us since the epoch; 0: Redis's own TIME, read once
 *       then per charge: cost, algorithm number, tick_us, rate, burst, period, offset
 * Returns an array of integers: 1 if all allow, else 0; then per charge: allowed 0/1, remaining,
 *       retry_after (-1: never), next_after, reset_after. `allowed` and retry_after tell how things
 *       stood before anything was charged, the others how they stand now. Times in the limit's
 * ticks. */

#ifndef SLUICE_LIMIT_SCRIPT_SOURCE_H
#define SLUICE_LIMIT_SCRIPT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "base/text.h"
#include "limit/limit.h"

enum {
    SCRIPT_ARGS_PER_CHARGE = 7,
    SCRIPT_INTS_PER_CHARGE = 5,
};

/* Write the program for the algorithms that @limits use into newly allocated memory: *@source is
 * @*len bytes and a NUL, freed by the caller with free(). STATUS_NO_MEMORY. */
MUST_USE enum status script_source_new(const struct limit *limits, size_t n_limits, char **source,
                                       size_t *len);

/* The arguments of a charge of @cost on @limit, in the order above. */
void script_source_args(const struct limit *limit, uint32_t cost,
                        uint64_t args[SCRIPT_ARGS_PER_CHARGE]);

/* Read the SCRIPT_INTS_PER_CHARGE integers at @ints as @limit's verdict. False if they make no
 * sense. */
MUST_USE bool script_source_read_verdict(const struct limit *limit, const long long *ints,
                                         struct verdict *verdict);

#endif /* SLUICE_LIMIT_SCRIPT_SOURCE_H */
