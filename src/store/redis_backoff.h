/* Waiting before trying again: doubling, with jitter. */

#ifndef SLUICE_STORE_REDIS_BACKOFF_H
#define SLUICE_STORE_REDIS_BACKOFF_H

#include <stdint.h>

struct redis_backoff {
    uint64_t min_us;
    uint64_t max_us;
    uint64_t next_us; /* the wait to come, at most */
};

struct redis_backoff redis_backoff_of(uint64_t min_us, uint64_t max_us);

/* How long to wait now: a random length between half of what is due and all of it, so that proxies
 * that lost the same Redis do not come back at one instant. The next wait is twice as long. */
uint64_t redis_backoff_wait(struct redis_backoff *backoff);

/* What was waited for has worked. */
void redis_backoff_reset(struct redis_backoff *backoff);

#endif /* SLUICE_STORE_REDIS_BACKOFF_H */
