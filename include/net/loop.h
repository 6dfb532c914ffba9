/* The event loop of one thread: libevent's, with what a proxy needs besides.
 *
 * Everything here but wakeup_signal() is for the loop's own thread. */

#ifndef SLUICE_NET_LOOP_H
#define SLUICE_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"

struct event;
struct event_base;
struct loop;

/* STATUS_NO_MEMORY or STATUS_IO when the kernel gives no epoll. */
MUST_USE enum status loop_new(struct loop **loop);

/* Runs what still waits for the end of the turn, then frees. Nothing of the loop's may be armed.
 * NULL is a no-op. */
void loop_free(struct loop *loop);

/* One turn: the callbacks of all that is ready, then what waits for their end. @may_wait: until
 * something is ready, where no such task waits. STATUS_IO when the loop cannot go on. */
MUST_USE enum status loop_turn(struct loop *loop, bool may_wait);

/* Turn until loop_stop(). STATUS_IO when the loop cannot go on. */
MUST_USE enum status loop_run(struct loop *loop);

/* Let loop_run() return after this turn. */
void loop_stop(struct loop *loop);

/* For those who bring events of their own (hiredis, evdns). */
struct event_base *loop_base(struct loop *loop);

/* --- the end of the turn --- */

/* Something to do when every callback of this turn of the loop has run: write what was gathered,
 * free what is still on somebody's stack. A member of whoever wants it. */
struct loop_task {
    struct list node; /* list_init() it, or loop_task_init() */
    void (*run)(struct loop_task *task);
};

void loop_task_init(struct loop_task *task, void (*run)(struct loop_task *task));

/* Run @task once at the end of this turn; asking again before that changes nothing. @task may ask
 * for itself again, and may free itself. */
void loop_at_turn_end(struct loop *loop, struct loop_task *task);

/* Forget it if it is waiting. */
void loop_task_cancel(struct loop_task *task);

/* --- timers --- */

/* One timer. Precise to the loop's millisecond, never early. */
struct timer {
    struct event *event;  /* owned */
    uint64_t deadline_us; /* by clock_monotonic_us(), while it is armed */
    void (*on_expiry)(void *context);
    void *context;
};

MUST_USE enum status timer_init(struct timer *timer, struct loop *loop,
                                void (*on_expiry)(void *context), void *context);
/* Disarms. A timer that is all zero is closed already. */
void timer_close(struct timer *timer);
/* Call on_expiry once in @delay_us; an armed timer is moved. */
void timer_arm(struct timer *timer, uint64_t delay_us);
void timer_disarm(struct timer *timer);

/* Many timeouts of one length, cheaply: arming is moving a node to the end of a list. */
struct timeout_queue {
    struct list waiting; /* of struct timeout, soonest first */
    uint64_t length_us;
    struct timer timer;
    bool is_armed; /* the timer, for one that waits or has gone */
};

/* One of them, a member of whoever may time out. */
struct timeout {
    struct list node;
    uint64_t deadline_us; /* by clock_monotonic_us() */
    void (*on_expiry)(struct timeout *timeout);
};

MUST_USE enum status timeout_queue_init(struct timeout_queue *queue, struct loop *loop,
                                        uint64_t length_us);
/* Nothing may wait in it. */
void timeout_queue_close(struct timeout_queue *queue);

/* From now on timeouts are armed for @length_us, and none that waits expires later
 * than that from @now_us. */
void timeout_queue_set_length(struct timeout_queue *queue, uint64_t length_us, uint64_t now_us);

void timeout_init(struct timeout *timeout, void (*on_expiry)(struct timeout *timeout));
/* Expire after the queue's length from @now_us (monotonic); one that waits, in whatever queue, is
 * moved. */
void timeout_arm(struct timeout *timeout, struct timeout_queue *queue, uint64_t now_us);
void timeout_disarm(struct timeout *timeout);

/* --- from other threads --- */

/* An eventfd: how another thread reaches this loop. */
struct wakeup {
    int fd;
    struct event *event; /* owned */
    void (*on_wake)(void *context);
    void *context;
};

/* STATUS_NO_MEMORY, STATUS_IO. */
MUST_USE enum status wakeup_init(struct wakeup *wakeup, struct loop *loop,
                                 void (*on_wake)(void *context), void *context);
void wakeup_close(struct wakeup *wakeup);
/* Any thread, also a signal handler. Several signals may be told as one. */
void wakeup_signal(struct wakeup *wakeup);

#endif /* SLUICE_NET_LOOP_H */
