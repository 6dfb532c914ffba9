/* Division of numbers that mostly are small, and division that rounds up, as
 * every wait is: never early. */

#ifndef SLUICE_LIMIT_DIVIDE_H
#define SLUICE_LIMIT_DIVIDE_H

#include <stdint.h>

/* A division of 64 bits takes a processor up to three times as long as one of 32. */
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

#endif /* SLUICE_LIMIT_DIVIDE_H */
