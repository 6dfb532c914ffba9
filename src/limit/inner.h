/* What the algorithms share: arithmetic, and the Lua text that the build embeds. */

#ifndef SLUICE_LIMIT_INNER_H
#define SLUICE_LIMIT_INNER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "limit/algorithm.h"

/* One constant per file: see cmake/embed_script.cmake. */
extern const struct script prelude_script;
extern const struct script driver_script;
extern const struct script concurrency_script;
extern const struct script fixed_window_script;
extern const struct script gcra_script;
extern const struct script meter_script;
extern const struct script sliding_log_script;
extern const struct script sliding_window_script;

/* restore() of a state that begins with the two numbers that the script reports, in that order. */
static inline size_t restore_numbers(void *state, const struct limit_params *params,
                                     const uint64_t *reported, size_t n)
{
    (void)params;
    if (n < 2) {
        return 0;
    }
    memcpy(state, reported, 2 * sizeof(*reported));
    return 2;
}

/* Division of mostly small numbers, rounded down, or up for waits, which must never be early. */

/* A 64-bit division takes a processor up to three times as long as a 32-bit one. */
static inline uint64_t divide_down(uint64_t dividend, uint64_t divisor)
{
    if ((dividend | divisor) <= UINT32_MAX) {
        return (uint32_t)dividend / (uint32_t)divisor;
    }
    return dividend / divisor;
}

static inline uint64_t divide_up(uint64_t dividend, uint64_t divisor)
{
    const uint64_t quotient = divide_down(dividend, divisor);
    return quotient + (quotient * divisor < dividend);
}

static inline uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* @value plus @delta units of @scale each, clamped to 0 … @most. @value may be above @most. */
static inline uint64_t settle_scaled(uint64_t value, int64_t delta, uint64_t scale, uint64_t most)
{
    const uint64_t units = delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta;
    uint64_t amount;
    if (__builtin_mul_overflow(units, scale, &amount)) {
        amount = UINT64_MAX;
    }
    if (delta < 0) {
        value = amount < value ? value - amount : 0;
    } else if (__builtin_add_overflow(value, amount, &value)) {
        value = most;
    }
    return value < most ? value : most;
}

#endif /* SLUICE_LIMIT_INNER_H */
