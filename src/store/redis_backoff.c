#include "store/redis_backoff.h"

#include "base/hash.h"

struct redis_backoff redis_backoff_of(uint64_t min_us, uint64_t max_us)
{
    return (struct redis_backoff){.min_us = min_us, .max_us = max_us, .next_us = min_us};
}

uint64_t redis_backoff_wait(struct redis_backoff *backoff)
{
    const uint64_t due_us = backoff->next_us;
    uint64_t random;
    hash_random(&random, sizeof(random));
    backoff->next_us = due_us * 2 < backoff->max_us ? due_us * 2 : backoff->max_us;
    return due_us / 2 + random % (due_us / 2 + 1);
}

void redis_backoff_reset(struct redis_backoff *backoff)
{
    backoff->next_us = backoff->min_us;
}
