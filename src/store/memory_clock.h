/* The two times of the embedded store, both in us since the epoch, and how they follow the clocks
 * of the machine.
 *
 * state_us dates the states that measure how much time has passed: it never steps, and goes on
 * while the machine is suspended. It agrees with the wall clock at start alone. wall_us is the wall
 * clock: windows that start at its times (see limit_follows_wall_clock()) are judged by it, and
 * nothing else is, so that a step of it gives nothing back elsewhere.
 *
 * Callers pass the monotonic time. The distances of the other clocks to it are read again when a
 * second has passed since the last reading. NTP that slews the clock slews all of them: a step or
 * a suspension alone changes the distances. Safe from any thread. */

#ifndef SLUICE_STORE_MEMORY_CLOCK_H
#define SLUICE_STORE_MEMORY_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"

/* A moment, by both. */
struct memory_time {
    uint64_t state_us;
    uint64_t wall_us;
};

/* Fills @reading; clock_read(), but in tests. */
typedef void (*memory_clock_read)(void *context, struct clock_reading *reading);

struct memory_clock {
    memory_clock_read read;
    void *context;
    pthread_mutex_t lock;  /* of who reads the clocks */
    uint64_t boot_lead_us; /* state time minus the clock that goes on in a suspension: fixed */
    /* What is to be added to the monotonic time. */
    _Atomic uint64_t state_lead_us;
    _Atomic uint64_t wall_lead_us;
    _Atomic uint64_t due_us; /* when they are read again, monotonic */
};

/* @read may be NULL: clock_read(). */
void memory_clock_init(struct memory_clock *clock, memory_clock_read read, void *context);

void memory_clock_close(struct memory_clock *clock);

/* Read the clocks now. A step of the wall clock and a suspension are logged, one line each. */
void memory_clock_follow(struct memory_clock *clock);

/* For memory_clock_at(): the same, unless another thread does it. */
void memory_clock_look(struct memory_clock *clock);

/* The time that the monotonic clock calls @monotonic_us. */
static inline struct memory_time memory_clock_at(struct memory_clock *clock, uint64_t monotonic_us)
{
    if (UNLIKELY(monotonic_us >= atomic_load_explicit(&clock->due_us, memory_order_relaxed))) {
        memory_clock_look(clock);
    }
    return (struct memory_time){
        .state_us =
            monotonic_us + atomic_load_explicit(&clock->state_lead_us, memory_order_relaxed),
        .wall_us = monotonic_us + atomic_load_explicit(&clock->wall_lead_us, memory_order_relaxed),
    };
}

/* The monotonic time now. */
uint64_t memory_clock_monotonic_us(const struct memory_clock *clock);

#endif /* SLUICE_STORE_MEMORY_CLOCK_H */
