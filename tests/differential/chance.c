#include "chance.h"

static uint64_t random_state;

void random_seed(uint64_t seed)
{
    random_state = seed;
}

/* splitmix64: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static uint64_t random_u64(void)
{
    uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t random_below(uint64_t bound)
{
    return random_u64() % bound;
}

bool one_in(uint64_t n)
{
    return random_below(n) == 0;
}

uint64_t random_size(uint64_t max)
{
    if (one_in(6)) {
        return max;
    }
    unsigned bits = 0;
    while (bits < 63 && max >> bits > 1) {
        bits++;
    }
    const uint64_t bound = UINT64_C(1) << random_below(bits + 1);
    const uint64_t size = bound + random_below(bound);
    return size < max ? size : max;
}
