/* Division that rounds up, as every wait is: never early. */

#ifndef SLUICE_LIMIT_DIVIDE_H
#define SLUICE_LIMIT_DIVIDE_H

#include <stdint.h>

static inline uint64_t divide_up(uint64_t dividend, uint64_t divisor)
{
    return dividend / divisor + (dividend % divisor != 0);
}

#endif /* SLUICE_LIMIT_DIVIDE_H */
