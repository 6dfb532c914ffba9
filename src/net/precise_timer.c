/* Precise timers: a binary heap and a timerfd. The timerfd is set again when the front changes to
 * an earlier deadline. If the front timer is removed, the timerfd fires at most once without
 * need. */

#include "net/precise_timer.h"

#include <assert.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/loop.h"

enum { US_PER_S = 1000000, NS_PER_US = 1000 };

static void set_fd(struct precise_timers *timers, uint64_t deadline_us)
{
    /* A time of 0 would disarm the timerfd. */
    const uint64_t at_us = deadline_us > 0 ? deadline_us : 1;
    const struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(at_us / US_PER_S),
                     .tv_nsec = (long)(at_us % US_PER_S * NS_PER_US)},
    };
    timers->set_for_us = deadline_us;
    (void)timerfd_settime(timers->fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* --- the heap --- */

static bool is_sooner(const struct precise_timer *a, const struct precise_timer *b)
{
    return a->deadline_us != b->deadline_us ? a->deadline_us < b->deadline_us : a->order < b->order;
}

static void put(struct precise_timers *timers, struct precise_timer *timer, size_t slot)
{
    timers->heap[slot] = timer;
    timer->slot = slot;
}

static void sift_up(struct precise_timers *timers, struct precise_timer *timer, size_t slot)
{
    while (slot > 1 && is_sooner(timer, timers->heap[slot / 2])) {
        put(timers, timers->heap[slot / 2], slot);
        slot /= 2;
    }
    put(timers, timer, slot);
}

static void sift_down(struct precise_timers *timers, struct precise_timer *timer, size_t slot)
{
    for (;;) {
        size_t child = slot * 2;
        if (child > timers->n_armed) {
            break;
        }
        if (child < timers->n_armed && is_sooner(timers->heap[child + 1], timers->heap[child])) {
            child++;
        }
        if (!is_sooner(timers->heap[child], timer)) {
            break;
        }
        put(timers, timers->heap[child], slot);
        slot = child;
    }
    put(timers, timer, slot);
}

static void take_out(struct precise_timers *timers, struct precise_timer *timer)
{
    const size_t slot = timer->slot;
    struct precise_timer *last = timers->heap[timers->n_armed--];
    timer->slot = 0;
    if (last == timer) {
        return;
    }
    if (slot > 1 && is_sooner(last, timers->heap[slot / 2])) {
        sift_up(timers, last, slot);
    } else {
        sift_down(timers, last, slot);
    }
}

/* --- the loop --- */

static void on_fire(evutil_socket_t fd, short events, void *context)
{
    struct precise_timers *timers = context;
    uint64_t n_expirations;
    (void)events;
    if (read((int)fd, &n_expirations, sizeof(n_expirations)) < 0) {
        return; /* the timerfd was set again meanwhile */
    }
    timers->set_for_us = UINT64_MAX;
    const uint64_t now_us = clock_monotonic_us();
    while (timers->n_armed > 0 && timers->heap[1]->deadline_us <= now_us) {
        struct precise_timer *timer = timers->heap[1];
        take_out(timers, timer);
        timer->on_expiry(timer);
    }
    if (timers->n_armed > 0) {
        set_fd(timers, timers->heap[1]->deadline_us);
    }
}

enum status precise_timers_init(struct precise_timers *timers, struct loop *loop,
                                size_t n_armed_max)
{
    *timers = (struct precise_timers){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        .heap = calloc(n_armed_max + 1, sizeof(timers->heap[0])),
        .n_armed_max = n_armed_max,
        .set_for_us = UINT64_MAX,
    };
    struct event *event = event_in(&timers->event);
    (void)event_assign(event, loop_base(loop), timers->fd, EV_READ | EV_PERSIST, on_fire, timers);
    if (timers->fd < 0 || timers->heap == NULL || event_add(event, NULL) != 0) {
        const enum status status = timers->fd < 0 ? STATUS_IO : STATUS_NO_MEMORY;
        precise_timers_close(timers);
        return status;
    }
    return STATUS_OK;
}

enum status precise_timers_set_max(struct precise_timers *timers, size_t n_armed_max)
{
    const size_t room = n_armed_max > timers->n_armed ? n_armed_max : timers->n_armed;
    struct precise_timer **heap = realloc(timers->heap, (room + 1) * sizeof(heap[0]));
    if (heap == NULL) {
        return STATUS_NO_MEMORY;
    }
    timers->heap = heap;
    timers->n_armed_max = n_armed_max;
    return STATUS_OK;
}

void precise_timers_close(struct precise_timers *timers)
{
    assert(timers->n_armed == 0);
    /* A struct that is all zero has no descriptor: 0 belongs to another owner. */
    if (timers->fd > 0) {
        event_del(event_in(&timers->event));
        close(timers->fd);
    }
    free(timers->heap);
    *timers = (struct precise_timers){.fd = -1};
}

enum status precise_timer_arm(struct precise_timers *timers, struct precise_timer *timer,
                              uint64_t deadline_us)
{
    assert(timer->slot == 0);
    if (timers->n_armed == timers->n_armed_max) {
        return STATUS_FULL;
    }
    timer->deadline_us = deadline_us;
    timer->order = timers->next_order++;
    timers->n_armed++;
    sift_up(timers, timer, timers->n_armed);
    if (timers->heap[1] == timer && deadline_us < timers->set_for_us) {
        set_fd(timers, deadline_us);
    }
    return STATUS_OK;
}

void precise_timer_disarm(struct precise_timers *timers, struct precise_timer *timer)
{
    if (timer->slot > 0) {
        take_out(timers, timer);
    }
}
