/* The clock of the load: monotonic, in ns. */

#ifndef SLUICE_BENCH_LOAD_NOW_H
#define SLUICE_BENCH_LOAD_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif /* SLUICE_BENCH_LOAD_NOW_H */
