#include "base/latency.h"

#include <assert.h>

static const uint32_t EDGES_US[LATENCY_EDGES] = {
    10,    25,    50,     100,    250,    500,     1000,    2500,    5000,     10000,
    25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000,
};

/* By the number of bits of a time: the first edge that is not below the least such time. No
 * doubling has more than two edges, so that it is two steps to the bucket at most. */
static const uint8_t FIRST[] = {
    0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16, 17, 18,
};

size_t latency_bucket(uint64_t us)
{
    const size_t bits = us == 0 ? 0 : 64 - (size_t)__builtin_clzll(us);
    if (bits >= sizeof(FIRST)) {
        return LATENCY_EDGES;
    }
    size_t i = FIRST[bits];
    while (i < LATENCY_EDGES && us > EDGES_US[i]) {
        i++;
    }
    return i;
}

uint64_t latency_edge_us(size_t i)
{
    assert(i < LATENCY_EDGES);

    return EDGES_US[i];
}
