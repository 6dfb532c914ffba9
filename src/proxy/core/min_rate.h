/* The minimum rate: whether a peer moves the bytes of a body fast enough. The peer has an allowance
 * of time. It starts with some in advance, earns more with each byte, and uses it up while the
 * proxy waits for it.
 *
 * Pure: the clock (monotonic) is an argument. Checked from time to time, not with each byte. */

#ifndef SLUICE_PROXY_CORE_MIN_RATE_H
#define SLUICE_PROXY_CORE_MIN_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct min_rate_rule {
    uint64_t bytes_per_s; /* 0: there is no minimum rate */
    uint64_t first_us;    /* the allowance in advance */
    uint64_t most_us;     /* the largest allowance after a check; at least first_us is used */
};

/* Initially all zero. */
struct min_rate {
    uint64_t since_us;   /* start of the current wait; 0: there is none */
    uint64_t waited_us;  /* since the last check, without the current wait */
    uint64_t left_us;    /* the allowance left by the last check */
    uint64_t seen_bytes; /* total bytes at the last check */
    uint64_t checked_us; /* time of the last check; 0: there was none */
    uint64_t total_us;   /* waited in total, without the current wait */
};

/* A wait for the peer begins or ends. Repeated calls have no effect. */
void min_rate_begin_wait(struct min_rate *min_rate, uint64_t now_us);
void min_rate_end_wait(struct min_rate *min_rate, uint64_t now_us);

/* Whether the last check was at least @every_us ago, or there was none. Call this whenever a wait
 * begins or ends, so that a series of shorter waits is checked as well. */
bool min_rate_is_due(const struct min_rate *min_rate, uint64_t every_us, uint64_t now_us);

/* The total waiting time. */
uint64_t min_rate_total_us(const struct min_rate *min_rate, uint64_t now_us);

/* Check the rate: @n_bytes have moved in total. Bytes since the last check pay for all waits since
 * then, because their order is not known. So a burst pays in full for waits up to the next check,
 * and for later waits with at most most_us. Returns the time that was waited beyond the allowance;
 * 0: none. */
MUST_USE uint64_t min_rate_check(struct min_rate *min_rate, const struct min_rate_rule *rule,
                                 uint64_t n_bytes, uint64_t now_us);

/* The same: whether the peer is too slow. */
bool min_rate_is_too_slow(struct min_rate *min_rate, const struct min_rate_rule *rule,
                          uint64_t n_bytes, uint64_t now_us);

#endif /* SLUICE_PROXY_CORE_MIN_RATE_H */
