/* What the programs of this folder measure with: the time that a thread has run, to which whatever
 * else the machine does adds little, and random numbers that are the same in each run. */

#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <stdint.h>
#include <time.h>

static inline uint64_t run_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t run_us(void)
{
    return run_ns() / 1000;
}

/* xorshift64, of George Marsaglia. */
static inline uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252U;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#endif /* BENCH_ROUNDS_H */
