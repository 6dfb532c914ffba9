/* Timers with microsecond resolution, for events that must be in order and on time. They use a
 * timerfd, because the loop itself has a resolution of a millisecond. Arming costs O(log n), plus a
 * system call if the timer is the first to expire. */

#ifndef SLUICE_NET_PRECISE_TIMER_H
#define SLUICE_NET_PRECISE_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"

/* One timer, a member of its owner. All zero is disarmed. */
struct precise_timer {
    uint64_t deadline_us; /* by clock_monotonic_us() */
    uint64_t order;       /* order of arming among timers of one deadline */
    size_t slot;          /* in the heap, from 1; 0: disarmed */
    void (*on_expiry)(struct precise_timer *timer);
};

/* All precise timers of a loop. */
struct precise_timers {
    int fd;
    struct event_room event;
    struct precise_timer **heap; /* the first to expire at the front; [0] is unused */
    size_t n_armed;
    size_t n_armed_max;
    uint64_t next_order;
    uint64_t set_for_us; /* the deadline set in the timerfd; UINT64_MAX: none */
};

/* At most @n_armed_max timers can be armed at once. STATUS_NO_MEMORY, STATUS_IO. */
MUST_USE enum status precise_timers_init(struct precise_timers *timers, struct loop *loop,
                                         size_t n_armed_max);

/* Change the maximum to @n_armed_max; armed timers beyond it stay armed. STATUS_NO_MEMORY: nothing
 * has changed. */
MUST_USE enum status precise_timers_set_max(struct precise_timers *timers, size_t n_armed_max);

/* No timer may be armed. No-op on a struct that is all zero or whose init failed. */
void precise_timers_close(struct precise_timers *timers);

/* Call on_expiry once at @deadline_us or right after, never before. Timers with the same deadline
 * expire in the order of arming. @timer must be disarmed. STATUS_FULL: n_armed_max are armed. */
MUST_USE enum status precise_timer_arm(struct precise_timers *timers, struct precise_timer *timer,
                                       uint64_t deadline_us);

/* No-op on a disarmed timer. */
void precise_timer_disarm(struct precise_timers *timers, struct precise_timer *timer);

/* How many more timers can be armed. */
static inline size_t precise_timers_room(const struct precise_timers *timers)
{
    return timers->n_armed < timers->n_armed_max ? timers->n_armed_max - timers->n_armed : 0;
}

#endif /* SLUICE_NET_PRECISE_TIMER_H */
