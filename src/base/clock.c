#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now); /* cannot fail for these two clocks */
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t clock_monotonic_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

uint64_t clock_wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec;
}
