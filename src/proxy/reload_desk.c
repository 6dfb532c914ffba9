#include "proxy/reload_desk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/loop.h"

struct reload_desk {
    pthread_mutex_t lock;        /* of what follows, but the fd */
    uint64_t n_begun;            /* attempts */
    struct reload_report report; /* of the latest that has ended */
    struct wakeup *listener;
    int fd; /* an eventfd */
};

enum status reload_desk_new(struct reload_desk **desk)
{
    struct reload_desk *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made->fd < 0) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    made->report.edition = 1;
    made->report.loaded_us = clock_wall_us();
    *desk = made;
    return STATUS_OK;
}

void reload_desk_free(struct reload_desk *desk)
{
    if (desk != NULL) {
        pthread_mutex_destroy(&desk->lock);
        close(desk->fd);
        free(desk);
    }
}

uint64_t reload_desk_ask(struct reload_desk *desk)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&desk->lock);
    const uint64_t number = desk->n_begun + 1;
    pthread_mutex_unlock(&desk->lock);
    (void)!write(desk->fd, &one, sizeof(one)); /* full: it is readable all the same */
    return number;
}

void reload_desk_read(struct reload_desk *desk, struct reload_report *report)
{
    pthread_mutex_lock(&desk->lock);
    *report = desk->report;
    pthread_mutex_unlock(&desk->lock);
}

void reload_desk_listen(struct reload_desk *desk, struct wakeup *wakeup)
{
    pthread_mutex_lock(&desk->lock);
    desk->listener = wakeup;
    pthread_mutex_unlock(&desk->lock);
}

int reload_desk_fd(const struct reload_desk *desk)
{
    return desk->fd;
}

void reload_desk_begin(struct reload_desk *desk)
{
    uint64_t n;
    pthread_mutex_lock(&desk->lock);
    desk->n_begun++;
    (void)!read(desk->fd, &n, sizeof(n)); /* who asks from here on gets the next one */
    pthread_mutex_unlock(&desk->lock);
}

void reload_desk_end(struct reload_desk *desk, bool succeeded, struct span text)
{
    pthread_mutex_lock(&desk->lock);
    struct reload_report *report = &desk->report;
    const size_t len = text.len < sizeof(report->text) ? text.len : sizeof(report->text) - 1;
    report->number = desk->n_begun;
    report->succeeded = succeeded;
    report->ended_us = clock_wall_us();
    report->n_successes += succeeded;
    report->n_failures += !succeeded;
    if (succeeded) {
        report->edition++;
        report->loaded_us = report->ended_us;
    }
    memcpy(report->text, len > 0 ? text.data : "", len);
    report->text[len] = '\0';
    if (desk->listener != NULL) {
        wakeup_signal(desk->listener);
    }
    pthread_mutex_unlock(&desk->lock);
}
