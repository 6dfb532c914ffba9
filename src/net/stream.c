/* Streams. Happy path: one read and one write per message; the read event is armed once and then
 * stays.
 *
 * Failures: the next read or write reports a broken connection; there is no callback for it. If
 * libevent has no memory to watch a socket, the connection counts as broken, because no event would
 * wake its owner. A write that the kernel does not take keeps its slices and arms the write event.
 * Once kept bytes are lost, no later write succeeds, even if the error has passed: the output would
 * have a gap. */

#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "net/loop.h"
#include "net/pipe.h"

/* --- kept bytes --- */

static enum stream_result failure(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK ? STREAM_BLOCKED : STREAM_BROKEN;
}

/* Remove the first @n kept bytes. */
static void drop_kept(struct stream *stream, size_t n)
{
    int taken = 0;
    while (taken < stream->n_kept && n >= stream->kept[taken].iov_len) {
        n -= stream->kept[taken].iov_len;
        taken++;
    }
    stream->n_kept -= taken;
    if (stream->n_kept == 0) {
        return;
    }
    memmove(stream->kept, stream->kept + taken, (size_t)stream->n_kept * sizeof(stream->kept[0]));
    if (n > 0) {
        stream->kept[0].iov_base = (char *)stream->kept[0].iov_base + n;
        stream->kept[0].iov_len -= n;
    }
}

static enum stream_result flush_pipe(struct stream *stream)
{
    struct pipe *pipe = stream->kept_pipe;
    ssize_t n;
    do {
        n = stream->transport->from_pipe(stream, pipe->read_fd, pipe->n_bytes);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n < 0 ? failure(errno) : STREAM_BROKEN;
    }
    pipe->n_bytes -= (size_t)n;
    return pipe->n_bytes > 0 ? STREAM_BLOCKED : STREAM_DONE;
}

/* Write the kept bytes as far as the kernel takes them. */
static enum stream_result flush_slices(struct stream *stream)
{
    while (stream->n_kept > 0) {
        const ssize_t n = stream->transport->writev(stream, stream->kept, stream->n_kept);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return failure(errno);
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
    stream->awaits_room = false;
    stream->is_offered = false;
    list_remove(&stream->posted);
}

/* The kept bytes were written, or are lost: then the next write reports it. */
static void end_kept(struct stream *stream, enum stream_result result)
{
    stream->is_broken = stream->is_broken || result == STREAM_BROKEN;
    forget_kept(stream);
    stream->handler->on_drained(stream->owner);
}

static void report_progress(const struct stream *stream)
{
    if (stream->handler->on_progress != NULL) {
        stream->handler->on_progress(stream->owner);
    }
}

static void on_writable(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    (void)fd;
    (void)events;

    const enum stream_result result = stream->connecting ? STREAM_DONE : flush_kept(stream);
    if (result != STREAM_BLOCKED) {
        event_del(event_in(&stream->write_event));
        end_kept(stream, result);
    } else {
        report_progress(stream);
    }
}

/* False: no memory. The kept bytes are lost, because no event would wake the stream to write
 * them. */
static bool watch_writable(struct stream *stream)
{
    if (event_add(event_in(&stream->write_event), NULL) != 0) {
        stream->is_broken = true;
        errno = ENOMEM;
        return false;
    }
    return true;
}

/* Handle the @result of the first write: with STREAM_BLOCKED the rest stays kept, otherwise nothing
 * is. */
static enum stream_result write_kept(struct stream *stream, enum stream_result result)
{
    if (result == STREAM_BLOCKED && !watch_writable(stream)) {
        result = STREAM_BROKEN;
    }
    if (result != STREAM_BLOCKED) {
        forget_kept(stream);
    }
    return result;
}

/* --- life --- */

static void on_readable(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    (void)fd;
    (void)events;
    stream->handler->on_readable(stream->owner);
}

/* Called once for each change, which may also be more bytes. */
static void on_change(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    struct pollfd peer = {.fd = (int)fd, .events = POLLRDHUP};
    (void)events;
    if (poll(&peer, 1, 0) == 1) {
        stream->handler->on_ended(stream->owner);
    }
}

/* libevent takes one trigger mode per descriptor, so one event serves both. It is not armed. */
static void make_read_event(struct stream *stream, struct event_base *base, bool of_end)
{
    /* Edge-triggered: unread bytes would otherwise trigger the event without end. */
    const short events = of_end ? EV_READ | EV_ET | EV_PERSIST : EV_READ | EV_PERSIST;
    (void)event_assign(event_in(&stream->read_event), base, stream->fd, events,
                       of_end ? on_change : on_readable, stream);
}

/* Make the events of a stream with a socket; none is armed. */
static void make_events(struct stream *stream, struct loop *loop)
{
    struct event_base *base = loop_base(loop);
    make_read_event(stream, base, false);
    (void)event_assign(event_in(&stream->write_event), base, stream->fd, EV_WRITE | EV_PERSIST,
                       on_writable, stream);
}

/* A stream that no event would wake is closed at once. */
static enum status check_watched(struct stream *stream)
{
    if (stream->is_unwatched) {
        stream_close(stream);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

/* Both options fail on unix sockets, which do not have them. */
static void tune(int fd)
{
    /* Messages are written whole: waiting to fill a segment only adds delay. */
    const int on = 1;
    /* Otherwise the kernel would buffer megabytes for a peer that does not read. Bytes in flight do
     * not count. */
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
    make_events(stream, loop);
    stream_want_read(stream, true);
    return check_watched(stream);
}

/* --- connecting --- */

enum {
    RETRY_FIRST_US = 5 * 1000,
    RETRY_LONGEST_US = 100 * 1000,
};

/* A unix socket whose queue of connections is full does not answer later, as TCP does: the kernel
 * refuses to wait, and connect() has to be called again. */
struct connect_retry {
    struct sockaddr_storage sockaddr;
    size_t sockaddr_bytes;
    struct timer timer;
    uint64_t delay_us;
    int error; /* of the last call */
};

static void forget_retry(struct stream *stream)
{
    if (stream->retry != NULL) {
        timer_close(&stream->retry->timer);
        free(stream->retry);
        stream->retry = NULL;
    }
}

static void on_retry(void *context)
{
    struct stream *stream = context;
    struct connect_retry *retry = stream->retry;
    const struct sockaddr *sockaddr = (const struct sockaddr *)&retry->sockaddr;
    retry->error = connect(stream->fd, sockaddr, (socklen_t)retry->sockaddr_bytes) == 0 ? 0 : errno;
    if (retry->error == EAGAIN) {
        const uint64_t longer_us = 2 * retry->delay_us;
        retry->delay_us = longer_us < RETRY_LONGEST_US ? longer_us : RETRY_LONGEST_US;
        timer_arm(&retry->timer, retry->delay_us);
    } else {
        stream->handler->on_drained(stream->owner);
    }
}

/* False: no memory. */
static bool begin_retries(struct stream *stream, struct loop *loop, const struct sockaddr *sockaddr,
                          size_t sockaddr_bytes)
{
    struct connect_retry *retry = calloc(1, sizeof(*retry));
    assert(sockaddr_bytes <= sizeof(retry->sockaddr));
    if (retry == NULL) {
        return false;
    }
    memcpy(&retry->sockaddr, sockaddr, sockaddr_bytes);
    retry->sockaddr_bytes = sockaddr_bytes;
    retry->delay_us = RETRY_FIRST_US;
    timer_init(&retry->timer, loop, on_retry, stream);
    timer_arm(&retry->timer, retry->delay_us);
    stream->retry = retry;
    return true;
}

/* What a connect that failed with @error says: what is lacking here says nothing of the peer. */
static enum status status_of_connect(int error)
{
    switch (error) {
    case ENOMEM:
    case ENOBUFS:
        return STATUS_NO_MEMORY;
    case EADDRNOTAVAIL:
        return STATUS_NO_PORT;
    default:
        return STATUS_UNREACHABLE;
    }
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
    make_events(stream, loop);
    if (connect(stream->fd, sockaddr, (socklen_t)sockaddr_bytes) != 0 && errno != EINPROGRESS) {
        int error = errno;
        if (error == EAGAIN && sockaddr->sa_family == AF_UNIX) {
            if (begin_retries(stream, loop, sockaddr, sockaddr_bytes)) {
                return STATUS_OK;
            }
            error = ENOMEM;
        }
        stream_close(stream);
        errno = error;
        return status_of_connect(error);
    }
    stream->is_unwatched = event_add(event_in(&stream->write_event), NULL) != 0;
    return check_watched(stream);
}

enum status stream_connect_status(struct stream *stream)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    assert(stream->connecting);

    if (stream->retry != NULL) {
        error = stream->retry->error;
        forget_retry(stream);
    }
    if (error == 0 && getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
        error = errno;
    }
    if (error != 0) {
        errno = error;
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
    stream->is_reset = true;
}

/* The socket stays open. */
static void drop_events(struct stream *stream)
{
    event_del(event_in(&stream->read_event));
    event_del(event_in(&stream->write_event));
    forget_retry(stream);
    forget_kept(stream);
    stream->reading = false;
    stream->watches_end = false;
    stream->fd = -1;
}

void stream_close(struct stream *stream)
{
    const int fd = stream->fd;
    if (fd >= 0) {
        if (stream->transport->close != NULL) {
            stream->transport->close(stream);
        }
        drop_events(stream);
        close(fd);
    }
}

int stream_detach(struct stream *stream)
{
    const int fd = stream->fd;
    assert(!stream_is_blocked(stream) && stream->transport->close == NULL);
    drop_events(stream);
    return fd;
}

/* --- reading --- */

static enum stream_result read_with(struct stream *stream,
                                    ssize_t (*read_op)(struct stream *, void *, size_t),
                                    void *buffer, size_t capacity, size_t *n_read)
{
    *n_read = 0;
    if (stream->is_unwatched) {
        errno = ENOMEM;
        return STREAM_BROKEN;
    }
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
            return failure(errno);
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
    if (stream->is_unwatched || stream->transport->to_pipe == NULL) {
        return STREAM_BROKEN;
    }
    const ssize_t n = stream->transport->to_pipe(stream, pipe->write_fd, most);
    if (n <= 0) {
        return n < 0 ? failure(errno) : STREAM_EOF;
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
    if (!wanted) {
        event_del(event_in(&stream->read_event));
        return;
    }
    stream->is_unwatched =
        stream->is_unwatched || event_add(event_in(&stream->read_event), NULL) != 0;
    if (stream->is_unwatched) {
        event_active(event_in(&stream->read_event), EV_READ, 0); /* takes no memory */
    }
    if (stream->transport->resume != NULL) {
        stream->transport->resume(stream);
    }
}

void stream_watch_end(struct stream *stream, bool wanted)
{
    assert(!stream_is_blocked(stream));
    struct event *event = event_in(&stream->read_event);
    if (stream->watches_end != wanted) {
        struct event_base *base = event_get_base(event);
        event_del(event);
        stream->reading = false;
        make_read_event(stream, base, wanted);
        stream->watches_end = wanted && event_add(event, NULL) == 0;
        if (wanted && !stream->watches_end) {
            make_read_event(stream, base, false);
        }
    }
    if (!stream->watches_end) {
        stream_want_read(stream, true);
    }
}

/* --- writing --- */

enum stream_result stream_keep(struct stream *stream, const struct iovec *slices, int n_slices)
{
    assert(n_slices <= STREAM_SLICES_MAX && !stream_is_blocked(stream));
    if (stream->is_broken) {
        return STREAM_BROKEN;
    }
    memcpy(stream->kept, slices, (size_t)n_slices * sizeof(slices[0]));
    stream->n_kept = n_slices;
    return STREAM_BLOCKED;
}

enum stream_result stream_write(struct stream *stream, const struct iovec *slices, int n_slices)
{
    if (stream_keep(stream, slices, n_slices) == STREAM_BROKEN) {
        return STREAM_BROKEN;
    }
    return write_kept(stream, flush_slices(stream));
}

void *stream_copy_kept(struct stream *stream)
{
    size_t n_bytes = 0;
    assert(stream->n_kept > 0);
    for (int i = 0; i < stream->n_kept; i++) {
        n_bytes += stream->kept[i].iov_len;
    }
    char *copy = malloc(n_bytes > 0 ? n_bytes : 1);
    if (copy == NULL) {
        return NULL;
    }
    size_t at = 0;
    for (int i = 0; i < stream->n_kept; i++) {
        memcpy(copy + at, stream->kept[i].iov_base, stream->kept[i].iov_len);
        at += stream->kept[i].iov_len;
    }
    stream->kept[0] = (struct iovec){.iov_base = copy, .iov_len = n_bytes};
    stream->n_kept = 1;
    return copy;
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

void stream_give_up_writing(struct stream *stream)
{
    assert(!stream->connecting);
    event_del(event_in(&stream->write_event));
    forget_kept(stream);
    stream->is_broken = true;
}

void stream_offer(struct stream *stream)
{
    stream->offered = flush_kept(stream);
    stream->is_offered = true;
}

void stream_end_offer(struct stream *stream)
{
    assert(stream->is_offered);
    stream->is_offered = false;
    list_remove(&stream->posted);
    if (stream->offered != STREAM_BLOCKED) {
        end_kept(stream, stream->offered);
    } else if (watch_writable(stream)) {
        report_progress(stream);
    } else {
        end_kept(stream, STREAM_BROKEN);
    }
}

bool stream_is_unoffered(const struct stream *stream)
{
    return !list_is_empty(&stream->posted) && !stream->is_offered;
}

bool stream_is_broken(const struct stream *stream)
{
    return stream->is_broken;
}

bool stream_is_blocked(const struct stream *stream)
{
    return stream->n_kept > 0 || stream->kept_pipe != NULL || stream->awaits_room ||
           stream->is_offered;
}

bool stream_await_flush(struct stream *stream)
{
    static char byte;
    stream->kept[0] = (struct iovec){.iov_base = &byte, .iov_len = 1};
    stream->n_kept = 1;
    if (!watch_writable(stream)) {
        stream->n_kept = 0;
        return false;
    }
    return true;
}

void stream_shutdown(struct stream *stream)
{
    if (stream->transport->shutdown(stream) == STREAM_BLOCKED && !stream_await_flush(stream)) {
        shutdown(stream->fd, SHUT_WR);
    }
}

uint64_t stream_unread_bytes(const struct stream *stream)
{
    int in_socket = 0;
    uint64_t bytes = stream->kept_pipe != NULL ? stream->kept_pipe->n_bytes : 0;
    for (int i = 0; i < stream->n_kept; i++) {
        bytes += stream->kept[i].iov_len;
    }
    if (stream->transport->unsent != NULL) {
        bytes += stream->transport->unsent(stream);
    }
    if (ioctl(stream->fd, SIOCOUTQ, &in_socket) == 0 && in_socket > 0) {
        bytes += (uint64_t)in_socket;
    }
    return bytes;
}

uint64_t stream_received_bytes(const struct stream *stream)
{
    int n_bytes = 0;
    return ioctl(stream->fd, FIONREAD, &n_bytes) == 0 && n_bytes > 0 ? (uint64_t)n_bytes : 0;
}

bool stream_has_peer_ended(const struct stream *stream)
{
    struct pollfd socket = {.fd = stream->fd, .events = POLLRDHUP};
    return poll(&socket, 1, 0) > 0;
}

bool stream_keeps_up(const struct stream *stream)
{
    int unsent_bytes = 0;
    return ioctl(stream->fd, SIOCOUTQNSD, &unsent_bytes) != 0 || unsent_bytes == 0;
}

/* A socket is writable while less than half of UNSENT_BYTES_MAX is unsent, so the other half fits.
 * A broken one is writable too; the next write reports it. */
static bool is_writable(const struct stream *stream)
{
    struct pollfd socket = {.fd = stream->fd, .events = POLLOUT};
    return poll(&socket, 1, 0) != 0;
}

size_t stream_await_room(struct stream *stream)
{
    assert(!stream_is_blocked(stream));
    if (stream_keeps_up(stream)) {
        return IO_BLOCK_BYTES;
    }
    if (is_writable(stream) || !watch_writable(stream)) {
        return UNSENT_BYTES_MAX / 2; /* to a broken stream too: the next write reports it */
    }
    stream->awaits_room = true;
    return 0;
}
