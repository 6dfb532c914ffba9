/* Timers to the microsecond, for things that must happen in order and on time: a timerfd in
 * the loop, which counts milliseconds itself. Arming costs O(log n), and a system call where
 * it is the first to expire. */

#ifndef SLUICE_NET_PRECISE_TIMER_H
#define SLUICE_NET_PRECISE_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

struct event;
struct loop;

/* One timer, a member of whoever waits. All zero is disarmed. */
struct precise_timer {
    uint64_t deadline_us; /* by clock_monotonic_us() */
    uint64_t order;       /* of arming, among those of one deadline */
    size_t place;         /* in the heap, from 1; 0: disarmed */
    void (*on_expiry)(struct precise_timer *timer);
};

/* All of a loop. */
struct precise_timers {
    int fd;
    struct event *event;         /* owned */
    struct precise_timer **heap; /* the first to expire at the front; [0] is unused */
    size_t n_armed;
    size_t n_armed_max;
    uint64_t next_order;
    uint64_t set_for_us; /* what the timerfd is set to; UINT64_MAX: nothing */
};

/* Room for @n_armed_max at once. STATUS_NO_MEMORY, STATUS_IO. */
MUST_USE enum status precise_timers_init(struct precise_timers *timers, struct loop *loop,
                                         size_t n_armed_max);

/* Room for @n_armed_max; what is armed beyond that stays so.
 * STATUS_NO_MEMORY: nothing has changed. */
MUST_USE enum status precise_timers_set_max(struct precise_timers *timers, size_t n_armed_max);

/* None may be armed. One that is all zero, or whose init failed, is closed already. */
void precise_timers_close(struct precise_timers *timers);

/* Call on_expiry once at @deadline_us or right after, never before; those of one deadline in the
 * order of arming. @timer is disarmed. STATUS_FULL: n_armed_max are armed. */
MUST_USE enum status precise_timer_arm(struct precise_timers *timers, struct precise_timer *timer,
                                       uint64_t deadline_us);

/* One that is disarmed stays so. */
void precise_timer_disarm(struct precise_timers *timers, struct precise_timer *timer);

/* How many more may be armed. */
static inline size_t precise_timers_room(const struct precise_timers *timers)
{
    return timers->n_armed < timers->n_armed_max ? timers->n_armed_max - timers->n_armed : 0;
}

#endif /* SLUICE_NET_PRECISE_TIMER_H */
