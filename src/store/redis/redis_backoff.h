/* Exponential back-off with jitter. */

#ifndef SLUICE_STORE_REDIS_REDIS_BACKOFF_H
#define SLUICE_STORE_REDIS_REDIS_BACKOFF_H

#include <stdint.h>

#include "base/hash.h"

struct redis_backoff {
    uint64_t min_us;
    uint64_t max_us;
    uint64_t next_us; /* upper bound of the next wait */
};

static inline struct redis_backoff redis_backoff_of(uint64_t min_us, uint64_t max_us)
{
    return (struct redis_backoff){.min_us = min_us, .max_us = max_us, .next_us = min_us};
}

/* Random, between half of @us and @us, so that proxies that lost the same Redis, and workers that
 * began together, do not act at the same moment. */
static inline uint64_t redis_backoff_jitter(uint64_t us)
{
    uint64_t random;
    hash_random(&random, sizeof(random));
    return us / 2 + random % (us / 2 + 1);
}

/* The time to wait now, with jitter. The next wait is twice as long, up to max_us. */
static inline uint64_t redis_backoff_wait(struct redis_backoff *backoff)
{
    const uint64_t us = backoff->next_us;
    backoff->next_us = us * 2 < backoff->max_us ? us * 2 : backoff->max_us;
    return redis_backoff_jitter(us);
}

/* The attempt has succeeded: the next wait is the shortest again. */
static inline void redis_backoff_reset(struct redis_backoff *backoff)
{
    backoff->next_us = backoff->min_us;
}

#endif /* SLUICE_STORE_REDIS_REDIS_BACKOFF_H */
