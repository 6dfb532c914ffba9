/* Accepting connections.
 *
 * Failures: out of file descriptors or memory, accepting pauses for a moment instead of spinning on a
 * listening socket that stays readable. */

#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    ACCEPTS_PER_TURN_MAX = 64,    /* so that a flood of connections does not starve the others */
    PAUSE_US = 100 * 1000,        /* after running out of descriptors */
    CLOSING_ACCEPTS_MAX = 100000, /* queued connections are taken at close, but not for ever */
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
    if (fd < 0 || bind(fd, sockaddr, (socklen_t)sockaddr_bytes) != 0 || listen(fd, 1) != 0) {
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

/* Accept up to @max connections. */
static void accept_some(struct listener *listener, unsigned max)
{
    for (unsigned i = 0; i < max; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t peer_bytes = sizeof(peer);
        const int fd = accept4(listener->fd, (struct sockaddr *)(void *)&peer, &peer_bytes,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->on_accept(listener->context, fd, (struct sockaddr *)(void *)&peer);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(listener);
            return;
        }
        /* Anything else is about that one connection: it is gone already. */
    }
}

static void on_acceptable(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    accept_some(context, ACCEPTS_PER_TURN_MAX);
}

static void on_pause_end(void *context)
{
    struct listener *listener = context;
    event_add(listener->event, NULL);
}

enum status listener_open(struct listener *listener, struct loop *loop, int fd,
                          void (*on_accept)(void *context, int fd, const struct sockaddr *peer),
                          void *context)
{
    *listener = (struct listener){.fd = fd, .on_accept = on_accept, .context = context};
    listener->event = event_new(loop_base(loop), fd, EV_READ | EV_PERSIST, on_acceptable, listener);
    if (listener->event == NULL || event_add(listener->event, NULL) != 0 ||
        timer_init(&listener->pause, loop, on_pause_end, listener) != STATUS_OK) {
        if (listener->event != NULL) {
            event_free(listener->event);
        }
        close(fd);
        listener->fd = -1;
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void listener_close(struct listener *listener)
{
    if (listener->fd < 0) {
        return;
    }
    accept_some(listener, CLOSING_ACCEPTS_MAX);
    timer_close(&listener->pause);
    event_free(listener->event);
    close(listener->fd);
    listener->fd = -1;
}
