/* Timers: single ones on libevent's heap, and queues of many timeouts with one length.
 *
 * libevent counts from the start of the iteration, by a coarse clock, and may fire early; then the
 * timer is armed again for the rest.
 *
 * Arming cannot fail: if libevent has no memory for a timer, a task at the end of each iteration
 * tries again, or reports the expiry itself once it is due.
 *
 * A queue has one timer, for its oldest timeout. The timer is not moved when that timeout is
 * removed: it fires, finds that the next one is not due, and is armed again. That costs one call
 * per length instead of one per timeout. */

#include <assert.h>
#include <event2/event.h>
#include <stddef.h>

#include "base/clock.h"
#include "net/loop.h"

enum {
    LATE_US_MIN = 2000, /* later than the clock's resolution and a busy machine make a timer */
    LATE_SHARE = 8,     /* of a queue's length */
};

static void add(struct timer *timer, uint64_t delay_us)
{
    const struct timeval delay = {
        .tv_sec = (time_t)(delay_us / 1000000),
        .tv_usec = (suseconds_t)(delay_us % 1000000),
    };
    if (event_add(event_in(&timer->event), &delay) == 0) {
        loop_task_cancel(&timer->retry);
    } else {
        loop_at_iteration_end(timer->loop, &timer->retry);
    }
}

static void expire_or_add(struct timer *timer)
{
    const uint64_t now_us = clock_monotonic_us();
    if (now_us < timer->deadline_us) {
        add(timer, timer->deadline_us - now_us);
        return;
    }
    timer->on_expiry(timer->context);
}

static void on_timer(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    expire_or_add(context);
}

static void on_retry(struct loop_task *task)
{
    expire_or_add(CONTAINER_OF(task, struct timer, retry));
}

void timer_init(struct timer *timer, struct loop *loop, void (*on_expiry)(void *context),
                void *context)
{
    *timer = (struct timer){.loop = loop, .on_expiry = on_expiry, .context = context};
    loop_task_init(&timer->retry, on_retry);
    (void)event_assign(event_in(&timer->event), loop_base(loop), -1, 0, on_timer, timer);
}

void timer_close(struct timer *timer)
{
    if (timer->loop != NULL) {
        timer_disarm(timer);
        timer->loop = NULL;
    }
}

void timer_arm(struct timer *timer, uint64_t delay_us)
{
    timer->deadline_us = clock_monotonic_us() + delay_us;
    add(timer, delay_us);
}

void timer_disarm(struct timer *timer)
{
    event_del(event_in(&timer->event));
    loop_task_cancel(&timer->retry);
}

static void arm_queue(struct timeout_queue *queue, uint64_t delay_us)
{
    queue->is_armed = true;
    timer_arm(&queue->timer, delay_us);
}

/* Whether the oldest timeout has expired long ago. */
static bool is_late(const struct timeout_queue *queue, uint64_t now_us)
{
    const uint64_t share_us = queue->length_us / LATE_SHARE;
    const uint64_t late_us = share_us > LATE_US_MIN ? share_us : LATE_US_MIN;
    return !list_is_empty(&queue->waiting) &&
           now_us >= CONTAINER_OF(queue->waiting.next, struct timeout, node)->deadline_us + late_us;
}

static void on_queue_timer(void *context)
{
    struct timeout_queue *queue = context;
    const uint64_t now_us = clock_monotonic_us();

    queue->is_armed = false;
    queue->is_late = is_late(queue, now_us);
    while (!list_is_empty(&queue->waiting)) {
        struct timeout *timeout = CONTAINER_OF(queue->waiting.next, struct timeout, node);
        if (timeout->deadline_us > now_us) {
            arm_queue(queue, timeout->deadline_us - now_us);
            return;
        }
        list_remove(&timeout->node);
        timeout->on_expiry(timeout);
    }
}

void timeout_queue_init(struct timeout_queue *queue, struct loop *loop, uint64_t length_us)
{
    list_init(&queue->waiting);
    queue->is_armed = false;
    queue->is_late = false;
    queue->length_us = length_us;
    timer_init(&queue->timer, loop, on_queue_timer, queue);
}

void timeout_queue_close(struct timeout_queue *queue)
{
    assert(queue->timer.loop == NULL || list_is_empty(&queue->waiting));
    timer_close(&queue->timer);
}

void timeout_queue_set_length(struct timeout_queue *queue, uint64_t length_us, uint64_t now_us)
{
    const bool is_shorter = length_us < queue->length_us;
    queue->length_us = length_us;
    if (!is_shorter) {
        return;
    }
    if (list_is_empty(&queue->waiting)) {
        timer_disarm(&queue->timer); /* armed for a removed timeout: too late for the next one */
        queue->is_armed = false;
        return;
    }
    /* The last ones have the latest deadlines. Cutting these to one deadline keeps the order. */
    for (struct list *node = queue->waiting.prev; node != &queue->waiting; node = node->prev) {
        struct timeout *timeout = CONTAINER_OF(node, struct timeout, node);
        if (timeout->deadline_us <= now_us + length_us) {
            break;
        }
        timeout->deadline_us = now_us + length_us;
    }
    const uint64_t first_us = CONTAINER_OF(queue->waiting.next, struct timeout, node)->deadline_us;
    arm_queue(queue, first_us > now_us ? first_us - now_us : 0);
}

void timeout_init(struct timeout *timeout, void (*on_expiry)(struct timeout *timeout))
{
    list_init(&timeout->node);
    timeout->deadline_us = 0;
    timeout->on_expiry = on_expiry;
}

void timeout_arm(struct timeout *timeout, struct timeout_queue *queue, uint64_t now_us)
{
    list_remove(&timeout->node);
    timeout->deadline_us = now_us + queue->length_us;
    list_push_back(&queue->waiting, &timeout->node);
    if (!queue->is_armed) {
        arm_queue(queue, queue->length_us);
    }
}

void timeout_disarm(struct timeout *timeout)
{
    list_remove(&timeout->node);
}

bool timeout_restart_if_held(struct timeout *timeout, struct timeout_queue *queue,
                             bool *was_restarted)
{
    if (*was_restarted || !queue->is_late) {
        return false;
    }
    *was_restarted = true;
    timeout_arm(timeout, queue, clock_monotonic_us());
    return true;
}
