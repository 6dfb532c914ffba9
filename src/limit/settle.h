/* A signed correction of a number that never leaves 0 … its greatest. */

#ifndef SLUICE_LIMIT_SETTLE_H
#define SLUICE_LIMIT_SETTLE_H

#include <stdint.h>

/* @value corrected by @delta units of @scale each, kept within 0 … @most. @value may be
 * above @most: then it is cut. */
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

#endif /* SLUICE_LIMIT_SETTLE_H */
