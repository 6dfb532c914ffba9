/* The event loop of one thread: libevent's loop, with tasks, timers and wakeups.
 *
 * All functions here except wakeup_signal() are for the loop's own thread. */

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

/* Room for one event of libevent inside its owner, so that making it takes no memory and cannot
 * fail. All zero: there is none. */
struct event_room {
    uint64_t words[16];
};

static inline struct event *event_in(struct event_room *room)
{
    return (struct event *)(void *)room->words;
}

/* STATUS_NO_MEMORY or STATUS_IO when the kernel gives no epoll. */
MUST_USE enum status loop_new(struct loop **loop);

/* Run the tasks that wait for the end of the iteration, then free the loop. No timer or event of
 * the loop may be armed. NULL is a no-op. */
void loop_free(struct loop *loop);

/* Run one iteration: the callbacks of all ready events, then the waiting tasks. @may_wait: block
 * until an event is ready, unless a task waits. STATUS_IO: the loop cannot go on. */
MUST_USE enum status loop_iteration(struct loop *loop, bool may_wait);

/* Run iterations until loop_stop(). STATUS_IO: the loop cannot go on. */
MUST_USE enum status loop_run(struct loop *loop);

/* Make loop_run() return after this iteration. */
void loop_stop(struct loop *loop);

/* For libraries with events of their own (hiredis, evdns). */
struct event_base *loop_base(struct loop *loop);

/* --- the end of the iteration --- */

/* A task that runs after all callbacks of this loop iteration: for example to write collected data,
 * or to free an object that a caller on the stack still uses. It is a member of its owner. */
struct loop_task {
    struct list node; /* list_init() it, or loop_task_init() */
    void (*run)(struct loop_task *task);
};

void loop_task_init(struct loop_task *task, void (*run)(struct loop_task *task));

/* Run @task once at the end of this iteration. Adding it again before that has no effect. @task may
 * add itself again, and may free itself. */
void loop_at_iteration_end(struct loop *loop, struct loop_task *task);

/* Run @task once after those of loop_at_iteration_end(), in the same iteration also if one of them
 * adds it: to write what callbacks and tasks have collected. What is added meanwhile waits for the
 * next iteration. */
void loop_after_tasks(struct loop *loop, struct loop_task *task);

/* Remove the task if it is waiting. */
void loop_task_cancel(struct loop_task *task);

/* --- timers --- */

/* One timer, with the loop's resolution of a millisecond. It never expires early. */
struct timer {
    struct loop *loop; /* NULL: closed */
    struct event_room event;
    struct loop_task retry; /* waits while the timer is armed and libevent has no memory for it */
    uint64_t deadline_us;   /* by clock_monotonic_us(), while it is armed */
    void (*on_expiry)(void *context);
    void *context;
};

void timer_init(struct timer *timer, struct loop *loop, void (*on_expiry)(void *context),
                void *context);
/* Disarms the timer. No-op on a timer that is all zero. */
void timer_close(struct timer *timer);
/* Call on_expiry once in @delay_us. An armed timer gets the new deadline. Cannot fail. */
void timer_arm(struct timer *timer, uint64_t delay_us);
void timer_disarm(struct timer *timer);

/* Many timeouts of one length. Arming one only moves a node to the end of a list. */
struct timeout_queue {
    struct list waiting; /* of struct timeout, soonest first */
    uint64_t length_us;
    struct timer timer;
    bool is_armed; /* the timer is armed, maybe for a timeout removed since */
    bool is_late;  /* it has fired so late that the loop must have been held up until then */
};

/* One timeout of a queue, a member of its owner. */
struct timeout {
    struct list node;
    uint64_t deadline_us; /* by clock_monotonic_us() */
    void (*on_expiry)(struct timeout *timeout);
};

void timeout_queue_init(struct timeout_queue *queue, struct loop *loop, uint64_t length_us);
/* The queue must be empty. No-op on a queue that is all zero. */
void timeout_queue_close(struct timeout_queue *queue);

/* Arm timeouts for @length_us from now on. A waiting timeout expires at @now_us + @length_us at the
 * latest. */
void timeout_queue_set_length(struct timeout_queue *queue, uint64_t length_us, uint64_t now_us);

void timeout_init(struct timeout *timeout, void (*on_expiry)(struct timeout *timeout));
/* Expire after the queue's length from @now_us (monotonic). A timeout that waits in any queue is
 * moved. */
void timeout_arm(struct timeout *timeout, struct timeout_queue *queue, uint64_t now_us);
void timeout_disarm(struct timeout *timeout);
/* For on_expiry of what waits for bytes that this loop reads and writes itself: if the loop was
 * held up until well after the deadline, arm @timeout again in @queue, once. Whether it did; it
 * sets @was_restarted then. */
bool timeout_restart_if_held(struct timeout *timeout, struct timeout_queue *queue,
                             bool *was_restarted);

/* --- from other threads --- */

/* An eventfd with which other threads wake this loop. */
struct wakeup {
    int fd; /* -1: closed */
    struct event_room event;
    void (*on_wake)(void *context);
    void *context;
};

/* STATUS_NO_MEMORY, STATUS_IO. */
MUST_USE enum status wakeup_init(struct wakeup *wakeup, struct loop *loop,
                                 void (*on_wake)(void *context), void *context);
void wakeup_close(struct wakeup *wakeup);
/* From any thread or a signal handler. Several signals may be reported as one. */
void wakeup_signal(struct wakeup *wakeup);

#endif /* SLUICE_NET_LOOP_H */
