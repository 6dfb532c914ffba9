/* Timers: single ones on libevent's heap, and queues of many with one length.
 *
 * libevent counts from the start of the turn, and by a clock that is coarse: what it
 * calls early waits for the rest.
 *
 * A queue keeps one timer for its oldest member. It is not moved when that member goes: it
 * fires, finds the next one still early, and is armed again, which costs one call per length
 * instead of one per member. */

#include <assert.h>
#include <event2/event.h>
#include <stddef.h>

#include "base/clock.h"
#include "net/loop.h"

/* False: no memory. */
static bool add(struct timer *timer, uint64_t delay_us)
{
    const struct timeval delay = {
        .tv_sec = (time_t)(delay_us / 1000000),
        .tv_usec = (suseconds_t)(delay_us % 1000000),
    };
    return event_add(timer->event, &delay) == 0;
}

static void on_timer(evutil_socket_t fd, short events, void *context)
{
    struct timer *timer = context;
    const uint64_t now_us = clock_monotonic_us();
    (void)fd;
    (void)events;
    if (now_us < timer->deadline_us) {
        (void)add(timer, timer->deadline_us - now_us);
        return;
    }
    timer->on_expiry(timer->context);
}

enum status timer_init(struct timer *timer, struct loop *loop, void (*on_expiry)(void *context),
                       void *context)
{
    *timer = (struct timer){.on_expiry = on_expiry, .context = context};
    timer->event = event_new(loop_base(loop), -1, 0, on_timer, timer);
    return timer->event == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void timer_close(struct timer *timer)
{
    if (timer->event != NULL) {
        event_free(timer->event);
        timer->event = NULL;
    }
}

static bool arm(struct timer *timer, uint64_t delay_us)
{
    timer->deadline_us = clock_monotonic_us() + delay_us;
    return add(timer, delay_us);
}

void timer_arm(struct timer *timer, uint64_t delay_us)
{
    (void)arm(timer, delay_us);
}

void timer_disarm(struct timer *timer)
{
    event_del(timer->event);
}

static void arm_queue(struct timeout_queue *queue, uint64_t delay_us)
{
    queue->is_armed = arm(&queue->timer, delay_us); /* or the next member tries again */
}

static void on_queue_timer(void *context)
{
    struct timeout_queue *queue = context;
    const uint64_t now_us = clock_monotonic_us();

    queue->is_armed = false;
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

enum status timeout_queue_init(struct timeout_queue *queue, struct loop *loop, uint64_t length_us)
{
    list_init(&queue->waiting);
    queue->is_armed = false;
    queue->length_us = length_us;
    return timer_init(&queue->timer, loop, on_queue_timer, queue);
}

void timeout_queue_close(struct timeout_queue *queue)
{
    if (queue->timer.event != NULL) {
        assert(list_is_empty(&queue->waiting));
        timer_close(&queue->timer);
    }
}

void timeout_queue_set_length(struct timeout_queue *queue, uint64_t length_us, uint64_t now_us)
{
    const bool is_shorter = length_us < queue->length_us;
    queue->length_us = length_us;
    if (!is_shorter) {
        return;
    }
    if (list_is_empty(&queue->waiting)) {
        timer_disarm(&queue->timer); /* armed yet for one that has gone: too late for the next */
        queue->is_armed = false;
        return;
    }
    /* Those at the end wait longest: cut to one deadline, they stay in order. */
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
