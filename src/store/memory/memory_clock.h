/* The clocks of the embedded store: two times, both in us since the epoch, that follow the clocks
 * of the machine.
 *
 * state_us dates the states that measure elapsed time. It never steps, and goes on while the
 * machine is suspended. It equals the wall clock only at start. wall_us is the wall clock. Only
 * windows that start at wall clock times (see limit_follows_wall_clock()) are judged by it, so a
 * step of the wall clock does not change other limits.
 *
 * Callers pass the monotonic time. The offsets of the other clocks to it are read again when a
 * second has passed since the last reading. NTP slewing applies to all clocks alike; only a step or
 * a suspension changes the offsets. Safe from any thread. */

#ifndef SLUICE_STORE_MEMORY_MEMORY_CLOCK_H
#define SLUICE_STORE_MEMORY_MEMORY_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"

/* One instant in both times. */
struct memory_time {
    uint64_t state_us;
    uint64_t wall_us;
};

/* Fills @reading; clock_read(), except in tests. */
typedef void (*memory_clock_read)(void *context, struct clock_reading *reading);

struct memory_clock {
    memory_clock_read read;
    void *context;
    pthread_mutex_t lock;  /* held while the clocks are read */
    uint64_t boot_lead_us; /* state time minus the clock that goes on in a suspension: fixed */
    /* Offsets to be added to the monotonic time. */
    _Atomic uint64_t state_lead_us;
    _Atomic uint64_t wall_lead_us;
    _Atomic uint64_t due_us; /* when the clocks are read again, monotonic */
};

/* @read may be NULL: clock_read(). */
void memory_clock_init(struct memory_clock *clock, memory_clock_read read, void *context);

void memory_clock_close(struct memory_clock *clock);

/* Reads the clocks now. A step of the wall clock and a suspension are logged, one line each. */
void memory_clock_follow(struct memory_clock *clock);

/* For memory_clock_at(): as memory_clock_follow(), unless another thread is doing it. */
void memory_clock_refresh(struct memory_clock *clock);

/* Converts the monotonic time @monotonic_us. */
static inline struct memory_time memory_clock_at(struct memory_clock *clock, uint64_t monotonic_us)
{
    if (UNLIKELY(monotonic_us >= atomic_load_explicit(&clock->due_us, memory_order_relaxed))) {
        memory_clock_refresh(clock);
    }
    return (struct memory_time){
        .state_us =
            monotonic_us + atomic_load_explicit(&clock->state_lead_us, memory_order_relaxed),
        .wall_us = monotonic_us + atomic_load_explicit(&clock->wall_lead_us, memory_order_relaxed),
    };
}

/* The monotonic time now. */
uint64_t memory_clock_monotonic_us(const struct memory_clock *clock);

#endif /* SLUICE_STORE_MEMORY_MEMORY_CLOCK_H */
