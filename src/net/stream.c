/* A byte stream: its life, and what comes on it. Happy path: one read a message, the read event
 * armed once and never touched again.
 *
 * Failures: a broken connection is told by the next read or write, never by a callback of its
 * own. */

#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "net/loop.h"
#include "net/pipe.h"
#include "net/stream_writing.h"

static void on_readable(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    (void)fd;
    (void)events;
    stream->handler->on_readable(stream->owner);
}

static enum status watch(struct stream *stream, struct loop *loop)
{
    struct event_base *base = loop_base(loop);
    stream->read_event = event_new(base, stream->fd, EV_READ | EV_PERSIST, on_readable, stream);
    stream->write_event =
        event_new(base, stream->fd, EV_WRITE | EV_PERSIST, stream_on_writable, stream);
    if (stream->read_event == NULL || stream->write_event == NULL) {
        stream_close(stream);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

/* Both fail on unix sockets, which have no such thing. */
static void tune(int fd)
{
    /* We write whole messages: waiting to fill a segment only delays. */
    const int on = 1;
    /* The kernel would keep megabytes for a peer that does not read. What is on
     * its way does not count. */
    const int unsent_bytes = UNSENT_BYTES_MAX;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof(unsent_bytes));
}

enum status stream_open(struct stream *stream, struct loop *loop, int fd,
                        const struct stream_handler *handler, void *owner)
{
    *stream = (struct stream){
        .fd = fd,
        .transport = &transport_plain,
        .handler = handler,
        .owner = owner,
    };
    list_init(&stream->posted);
    tune(fd);
    const enum status status = watch(stream, loop);
    if (status == STATUS_OK) {
        stream_want_read(stream, true);
    }
    return status;
}

enum status stream_connect(struct stream *stream, struct loop *loop,
                           const struct sockaddr *sockaddr, size_t sockaddr_bytes,
                           const struct stream_handler *handler, void *owner)
{
    *stream = (struct stream){
        .fd = socket(sockaddr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
        .transport = &transport_plain,
        .handler = handler,
        .owner = owner,
        .connecting = true,
    };
    list_init(&stream->posted);
    if (stream->fd < 0) {
        return errno == ENOMEM || errno == ENOBUFS ? STATUS_NO_MEMORY : STATUS_FULL;
    }
    tune(stream->fd);
    if (connect(stream->fd, sockaddr, (socklen_t)sockaddr_bytes) != 0 && errno != EINPROGRESS) {
        stream_close(stream);
        return STATUS_UNREACHABLE;
    }
    const enum status status = watch(stream, loop);
    if (status == STATUS_OK) {
        event_add(stream->write_event, NULL);
    }
    return status;
}

enum status stream_connect_status(struct stream *stream)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    assert(stream->connecting);

    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0) {
        return STATUS_UNREACHABLE;
    }
    stream->connecting = false;
    stream_want_read(stream, true);
    return STATUS_OK;
}

void stream_reset_on_close(struct stream *stream)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void stream_close(struct stream *stream)
{
    if (stream->end_event != NULL) {
        event_free(stream->end_event);
        stream->end_event = NULL;
    }
    if (stream->read_event != NULL) {
        event_free(stream->read_event);
        stream->read_event = NULL;
    }
    if (stream->write_event != NULL) {
        event_free(stream->write_event);
        stream->write_event = NULL;
    }
    if (stream->fd >= 0) {
        stream_forget_kept(stream);
        close(stream->fd);
        stream->fd = -1;
    }
    stream->reading = false;
}

int stream_detach(struct stream *stream)
{
    const int fd = stream->fd;
    assert(!stream_is_blocked(stream));
    stream->fd = -1;
    stream_close(stream);
    return fd;
}

void stream_set_handler(struct stream *stream, const struct stream_handler *handler, void *owner)
{
    stream->handler = handler;
    stream->owner = owner;
}

static enum stream_result read_with(struct stream *stream,
                                    ssize_t (*read_op)(struct stream *, void *, size_t),
                                    void *buffer, size_t capacity, size_t *n_read)
{
    *n_read = 0;
    for (;;) {
        const ssize_t n = read_op(stream, buffer, capacity);
        if (n > 0) {
            *n_read = (size_t)n;
            return STREAM_DONE;
        }
        if (n == 0) {
            return STREAM_EOF;
        }
        if (errno != EINTR) {
            return stream_failure(errno);
        }
    }
}

enum stream_result stream_read(struct stream *stream, void *buffer, size_t capacity, size_t *n_read)
{
    assert(capacity > 0);
    return read_with(stream, stream->transport->read, buffer, capacity, n_read);
}

enum stream_result stream_read_pipe(struct stream *stream, struct pipe *pipe, size_t most)
{
    assert(most > 0 && pipe->n_bytes == 0);
    if (stream->transport->to_pipe == NULL) {
        return STREAM_BROKEN;
    }
    const ssize_t n = stream->transport->to_pipe(stream, pipe->write_fd, most);
    if (n <= 0) {
        return n < 0 ? stream_failure(errno) : STREAM_EOF;
    }
    pipe->n_bytes = (size_t)n;
    return STREAM_DONE;
}

enum stream_result stream_peek(struct stream *stream)
{
    char byte;
    size_t n_read;
    return read_with(stream, stream->transport->peek, &byte, 1, &n_read);
}

void stream_want_read(struct stream *stream, bool wanted)
{
    if (stream->reading == wanted) {
        return;
    }
    stream->reading = wanted;
    if (wanted) {
        event_add(stream->read_event, NULL);
    } else {
        event_del(stream->read_event);
    }
}

/* Told once for each change: it may be more bytes. */
static void on_change(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    struct pollfd peer = {.fd = (int)fd, .events = POLLRDHUP};
    (void)events;
    if (poll(&peer, 1, 0) == 1) {
        stream->handler->on_ended(stream->owner);
    }
}

void stream_watch_end(struct stream *stream, bool wanted)
{
    assert(!stream_is_blocked(stream));
    if (!wanted) {
        if (stream->end_event != NULL) {
            event_del(stream->end_event);
        }
        stream_want_read(stream, true);
        return;
    }
    if (stream->end_event == NULL) {
        /* By edges: bytes that nobody reads would otherwise be told without end. */
        stream->end_event = event_new(event_get_base(stream->read_event), stream->fd,
                                      EV_READ | EV_ET | EV_PERSIST, on_change, stream);
    }
    if (stream->end_event != NULL) {
        stream_want_read(stream, false); /* libevent knows a descriptor by one kind alone */
        event_add(stream->end_event, NULL);
    }
}
