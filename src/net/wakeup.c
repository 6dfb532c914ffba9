/* An eventfd within a loop: libevent's bases are not for other threads, a file descriptor is. */

#include <errno.h>
#include <event2/event.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/loop.h"

static void on_signalled(evutil_socket_t fd, short events, void *context)
{
    struct wakeup *wakeup = context;
    uint64_t count;
    (void)events;
    if (read((int)fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        wakeup->on_wake(wakeup->context);
    }
}

enum status wakeup_init(struct wakeup *wakeup, struct loop *loop, void (*on_wake)(void *context),
                        void *context)
{
    *wakeup = (struct wakeup){
        .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
        .on_wake = on_wake,
        .context = context,
    };
    if (wakeup->fd < 0) {
        return STATUS_IO;
    }
    wakeup->event =
        event_new(loop_base(loop), wakeup->fd, EV_READ | EV_PERSIST, on_signalled, wakeup);
    if (wakeup->event == NULL || event_add(wakeup->event, NULL) != 0) {
        wakeup_close(wakeup);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void wakeup_close(struct wakeup *wakeup)
{
    if (wakeup->event != NULL) {
        event_free(wakeup->event);
        wakeup->event = NULL;
    }
    if (wakeup->fd >= 0) {
        close(wakeup->fd);
        wakeup->fd = -1;
    }
}

void wakeup_signal(struct wakeup *wakeup)
{
    const uint64_t one = 1;
    const int error = errno; /* of what a signal handler has interrupted */
    ssize_t n;
    /* EAGAIN means that it is signalled already, more than any count can say. */
    do {
        n = write(wakeup->fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    errno = error;
}
