/* A byte stream. Happy path: one read a message, one writev a message, the read event armed
 * once and never touched again.
 *
 * Failures: a write that the kernel does not take keeps its slices and arms the write event; a
 * broken connection is told by the next read or write, never by a callback of its own. Where what
 * was kept is lost, no later write succeeds, though the error has passed: there would be a hole. */

#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "net/loop.h"
#include "net/pipe.h"

static void on_readable(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    (void)fd;
    (void)events;
    stream->handler->on_readable(stream->owner);
}

/* Drop the first @n bytes of what is kept. */
static void drop_kept(struct stream *stream, size_t n)
{
    int taken = 0;
    while (taken < stream->n_kept && n >= stream->kept[taken].iov_len) {
        n -= stream->kept[taken].iov_len;
        taken++;
    }
    stream->n_kept -= taken;
    memmove(stream->kept, stream->kept + taken, (size_t)stream->n_kept * sizeof(stream->kept[0]));
    if (n > 0) {
        stream->kept[0].iov_base = (char *)stream->kept[0].iov_base + n;
        stream->kept[0].iov_len -= n;
    }
}

static enum stream_result failure_of(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK ? STREAM_BLOCKED : STREAM_BROKEN;
}

static enum stream_result flush_pipe(struct stream *stream)
{
    struct pipe *pipe = stream->kept_pipe;
    ssize_t n;
    do {
        n = stream->transport->from_pipe(stream, pipe->read_fd, pipe->n_bytes);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n < 0 ? failure_of(errno) : STREAM_BROKEN;
    }
    pipe->n_bytes -= (size_t)n;
    return pipe->n_bytes > 0 ? STREAM_BLOCKED : STREAM_DONE;
}

/* Offer the kernel what is kept. */
static enum stream_result flush_slices(struct stream *stream)
{
    while (stream->n_kept > 0) {
        const ssize_t n = stream->transport->writev(stream, stream->kept, stream->n_kept);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return failure_of(errno);
        }
        drop_kept(stream, (size_t)n);
        if (stream->n_kept > 0) {
            return STREAM_BLOCKED; /* a short write: the socket's buffer is full */
        }
    }
    return STREAM_DONE;
}

static enum stream_result flush_kept(struct stream *stream)
{
    return stream->kept_pipe != NULL ? flush_pipe(stream) : flush_slices(stream);
}

static void forget_kept(struct stream *stream)
{
    stream->n_kept = 0;
    stream->kept_pipe = NULL;
}

static void on_writable(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    (void)fd;
    (void)events;

    if (!stream->connecting) {
        const enum stream_result result = flush_kept(stream);
        if (result == STREAM_BLOCKED) {
            if (stream->handler->on_progress != NULL) {
                stream->handler->on_progress(stream->owner);
            }
            return;
        }
        stream->is_broken = result == STREAM_BROKEN; /* the next write tells */
        forget_kept(stream);
    }
    event_del(stream->write_event);
    stream->handler->on_drained(stream->owner);
}

static enum status watch(struct stream *stream, struct loop *loop)
{
    struct event_base *base = loop_base(loop);
    stream->read_event = event_new(base, stream->fd, EV_READ | EV_PERSIST, on_readable, stream);
    stream->write_event = event_new(base, stream->fd, EV_WRITE | EV_PERSIST, on_writable, stream);
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
        close(stream->fd);
        stream->fd = -1;
    }
    forget_kept(stream);
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
            return failure_of(errno);
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
        return n < 0 ? failure_of(errno) : STREAM_EOF;
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

/* Whether what was just offered is kept. */
static enum stream_result write_kept(struct stream *stream, enum stream_result result)
{
    if (result == STREAM_BLOCKED) {
        event_add(stream->write_event, NULL);
    } else {
        forget_kept(stream);
    }
    return result;
}

enum stream_result stream_write(struct stream *stream, const struct iovec *slices, int n_slices)
{
    assert(n_slices <= STREAM_SLICES_MAX && !stream_is_blocked(stream));
    if (stream->is_broken) {
        return STREAM_BROKEN;
    }
    memcpy(stream->kept, slices, (size_t)n_slices * sizeof(slices[0]));
    stream->n_kept = n_slices;
    return write_kept(stream, flush_slices(stream));
}

enum stream_result stream_write_pipe(struct stream *stream, struct pipe *pipe)
{
    assert(pipe->n_bytes > 0 && !stream_is_blocked(stream));
    if (stream->is_broken) {
        return STREAM_BROKEN;
    }
    stream->kept_pipe = pipe;
    return write_kept(stream, flush_pipe(stream));
}

bool stream_is_broken(const struct stream *stream)
{
    return stream->is_broken;
}

bool stream_is_blocked(const struct stream *stream)
{
    return stream->n_kept > 0 || stream->kept_pipe != NULL;
}

void stream_shutdown(struct stream *stream)
{
    stream->transport->shutdown(stream);
}

uint64_t stream_unread_bytes(const struct stream *stream)
{
    int in_socket = 0;
    uint64_t bytes = stream->kept_pipe != NULL ? stream->kept_pipe->n_bytes : 0;
    for (int i = 0; i < stream->n_kept; i++) {
        bytes += stream->kept[i].iov_len;
    }
    if (ioctl(stream->fd, SIOCOUTQ, &in_socket) == 0 && in_socket > 0) {
        bytes += (uint64_t)in_socket;
    }
    return bytes;
}

bool stream_keeps_up(const struct stream *stream)
{
    int unsent_bytes = 0;
    return ioctl(stream->fd, SIOCOUTQNSD, &unsent_bytes) != 0 || unsent_bytes == 0;
}
