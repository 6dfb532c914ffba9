/* Accepting connections.
 *
 * Leaving: no handshake begins any more; one look after another whether one is under way; where
 * none was at the look before, what it may have left in the queue is accepted, and the socket
 * closes. A client that is connected by its own view, but whose last ACK was lost, ends the
 * handshake with its request, within the time there is.
 *
 * Failures: out of file descriptors or memory, accepting pauses for a moment instead of spinning on
 * a listening socket that stays readable. */

#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/handshakes.h"

enum {
    ACCEPTS_PER_TURN_MAX = 64,    /* so that a flood of connections does not starve the others */
    PAUSE_US = 100 * 1000,        /* after running out of descriptors */
    CLOSING_ACCEPTS_MAX = 100000, /* queued connections are taken at close, but not for ever */
    LOOK_US = 10 * 1000,          /* from leaving to the first look; then twice as long each time */
    LOOKS_MAX = 7,                /* 1.3 s in all: more than a round trip to anywhere. Counted, */
                                  /* so that a machine that stalls does not take them away */
};

static int open_socket(const struct sockaddr *sockaddr)
{
    const int on = 1;
    const int fd = socket(sockaddr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* Connections of an earlier process in TIME_WAIT do not count as somebody who listens. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sockaddr->sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    return fd;
}

static enum status close_failed(int fd)
{
    const int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return error == EADDRINUSE ? STATUS_IN_USE : STATUS_IO;
}

enum status listener_probe(const struct sockaddr *sockaddr, size_t sockaddr_bytes)
{
    const int fd = open_socket(sockaddr);
    if (fd < 0 || bind(fd, sockaddr, (socklen_t)sockaddr_bytes) != 0) {
        return close_failed(fd);
    }
    close(fd);
    return STATUS_OK;
}

enum status listener_bind(const struct sockaddr *sockaddr, size_t sockaddr_bytes, int *fd)
{
    const int on = 1;
    const int opened = open_socket(sockaddr);
    if (opened < 0 || setsockopt(opened, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
        bind(opened, sockaddr, (socklen_t)sockaddr_bytes) != 0 ||
        listen(opened, LISTENER_BACKLOG) != 0) {
        return close_failed(opened);
    }
    *fd = opened;
    return STATUS_OK;
}

/* Connections wait in the kernel's queue meanwhile. */
static void pause_accepting(struct listener *listener)
{
    const int error = errno;
    uint64_t n_held;
    listener->n_refused++;
    if (log_gate_pass(&listener->gate, clock_monotonic_us(), &n_held)) {
        log_warn("net.listener", "cannot accept", "err=\"%s\" times_before=%llu hint=\"%s\"",
                 strerror(error), (unsigned long long)n_held,
                 error == EMFILE ? "raise ulimit -n" : "the system has no more to give");
    }
    event_del(listener->event);
    timer_arm(&listener->pause, PAUSE_US);
}

/* Accept up to @max connections. True: none is queued any more. */
static bool accept_some(struct listener *listener, unsigned max)
{
    for (unsigned i = 0; i < max; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t peer_bytes = sizeof(peer);
        const int fd = accept4(listener->fd, (struct sockaddr *)(void *)&peer, &peer_bytes,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (listener->is_leaving) {
                handshakes_free_child(fd);
            }
            listener->on_accept(listener->context, fd, (struct sockaddr *)(void *)&peer);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return true;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(listener);
            return false;
        }
        /* Anything else is about that one connection: it is gone already. */
    }
    return false;
}

static void on_acceptable(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    (void)accept_some(context, ACCEPTS_PER_TURN_MAX);
}

static void on_pause_end(void *context)
{
    struct listener *listener = context;
    event_add(listener->event, NULL);
}

static void on_look(void *context)
{
    struct listener *listener = context;
    const bool is_empty = accept_some(listener, CLOSING_ACCEPTS_MAX);
    if ((is_empty && listener->is_quiet) || listener->n_looks == LOOKS_MAX) {
        listener_close(listener);
        listener->on_left(listener->context);
        return;
    }
    /* One that ends just now is for a moment neither under way nor queued: hence one more look. */
    listener->is_quiet = is_empty && !handshakes_are_under_way(listener->fd);
    timer_arm(&listener->look,
              listener->is_quiet ? LOOK_US : (uint64_t)LOOK_US << listener->n_looks);
    listener->n_looks++;
}

enum status listener_open(struct listener *listener, struct loop *loop, int fd,
                          void (*on_accept)(void *context, int fd, const struct sockaddr *peer),
                          void *context)
{
    *listener = (struct listener){.fd = fd, .on_accept = on_accept, .context = context};
    listener->event = event_new(loop_base(loop), fd, EV_READ | EV_PERSIST, on_acceptable, listener);
    if (listener->event == NULL || event_add(listener->event, NULL) != 0 ||
        timer_init(&listener->pause, loop, on_pause_end, listener) != STATUS_OK ||
        timer_init(&listener->look, loop, on_look, listener) != STATUS_OK) {
        timer_close(&listener->pause);
        if (listener->event != NULL) {
            event_free(listener->event);
        }
        close(fd);
        listener->fd = -1;
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void listener_leave(struct listener *listener, void (*on_left)(void *context))
{
    listener->is_leaving = true;
    listener->on_left = on_left;
    handshakes_stop(listener->fd);
    timer_arm(&listener->look, LOOK_US);
}

void listener_close(struct listener *listener)
{
    if (listener->fd < 0) {
        return;
    }
    (void)accept_some(listener, CLOSING_ACCEPTS_MAX);
    timer_close(&listener->pause);
    timer_close(&listener->look);
    event_free(listener->event);
    close(listener->fd);
    listener->fd = -1;
}
