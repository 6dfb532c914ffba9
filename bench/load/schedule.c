#include "schedule.h"

#include <math.h>

enum { NS_PER_MS = 1000 * 1000 };

/* SplitMix64: every number once in 2^64 turns. */
static uint64_t next_number(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Gaps of a Poisson process: exponential, with the mean 1. */
static double next_gap(uint64_t *state)
{
    const double uniform = ((double)(next_number(state) >> 11) + 1) * 0x1p-53; /* (0, 1] */
    return -log(uniform);
}

size_t schedule_fill(const struct options *options, uint64_t start_ns, struct shot *shots,
                     size_t n_shots)
{
    const double mean_ns = 1e9 / (double)options->rate;
    const double end_ns = (double)options->length_ms * (double)NS_PER_MS;
    uint64_t state = options->seed;
    double at_ns = options->is_poisson ? mean_ns * next_gap(&state) : 0;
    size_t n = 0;
    while (n < n_shots && at_ns < end_ns) {
        shots[n++].intended_ns = start_ns + (uint64_t)at_ns;
        at_ns += options->is_poisson ? mean_ns * next_gap(&state) : mean_ns;
    }
    return n;
}
