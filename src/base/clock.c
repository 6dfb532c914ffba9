#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now); /* cannot fail for the clocks that are read here */
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

void clock_read(struct clock_reading *reading)
{
    enum { ATTEMPTS_MAX = 10, CLOSE_US = 50 };
    uint64_t least_us = UINT64_MAX;
    for (int i = 0; i < ATTEMPTS_MAX && least_us > CLOSE_US; i++) {
        const uint64_t before_us = clock_monotonic_us();
        const uint64_t boot_us = read_us(CLOCK_BOOTTIME);
        const uint64_t wall_us = clock_wall_us();
        const uint64_t took_us = clock_monotonic_us() - before_us;
        if (took_us < least_us) {
            least_us = took_us;
            *reading = (struct clock_reading){
                .monotonic_us = before_us + took_us / 2,
                .boot_us = boot_us,
                .wall_us = wall_us,
            };
        }
    }
}

uint64_t clock_wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec;
}
