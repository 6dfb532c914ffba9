/* What goes out on a stream. Happy path: one system call a message.
 *
 * Failures: a write that the kernel does not take keeps its slices and arms the write event. Where
 * what was kept is lost, no later write succeeds, though the error has passed: there would be a
 * hole. */

#include "net/stream_writing.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/limits.h"
#include "net/pipe.h"

enum stream_result stream_failure(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK ? STREAM_BLOCKED : STREAM_BROKEN;
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

static enum stream_result flush_pipe(struct stream *stream)
{
    struct pipe *pipe = stream->kept_pipe;
    ssize_t n;
    do {
        n = stream->transport->from_pipe(stream, pipe->read_fd, pipe->n_bytes);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n < 0 ? stream_failure(errno) : STREAM_BROKEN;
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
            return stream_failure(errno);
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

void stream_forget_kept(struct stream *stream)
{
    stream->n_kept = 0;
    stream->kept_pipe = NULL;
    stream->awaits_room = false;
    stream->is_offered = false;
    list_remove(&stream->posted);
}

/* It was written, or is lost: then the next write tells. */
static void end_kept(struct stream *stream, enum stream_result result)
{
    stream->is_broken = stream->is_broken || result == STREAM_BROKEN;
    stream_forget_kept(stream);
    stream->handler->on_drained(stream->owner);
}

static void tell_progress(const struct stream *stream)
{
    if (stream->handler->on_progress != NULL) {
        stream->handler->on_progress(stream->owner);
    }
}

void stream_on_writable(evutil_socket_t fd, short events, void *context)
{
    struct stream *stream = context;
    (void)fd;
    (void)events;

    const enum stream_result result = stream->connecting ? STREAM_DONE : flush_kept(stream);
    if (result != STREAM_BLOCKED) {
        event_del(stream->write_event);
        end_kept(stream, result);
    } else {
        tell_progress(stream);
    }
}

/* Whether what was just offered is kept. */
static enum stream_result write_kept(struct stream *stream, enum stream_result result)
{
    if (result == STREAM_BLOCKED) {
        event_add(stream->write_event, NULL);
    } else {
        stream_forget_kept(stream);
    }
    return result;
}

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

enum stream_result stream_write_pipe(struct stream *stream, struct pipe *pipe)
{
    assert(pipe->n_bytes > 0 && !stream_is_blocked(stream));
    if (stream->is_broken) {
        return STREAM_BROKEN;
    }
    stream->kept_pipe = pipe;
    return write_kept(stream, flush_pipe(stream));
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
    if (stream->offered == STREAM_BLOCKED) {
        event_add(stream->write_event, NULL);
        tell_progress(stream);
    } else {
        end_kept(stream, stream->offered);
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

/* A socket is writable while less than half of UNSENT_BYTES_MAX is unsent: the other half fits. One
 * that is lost is writable too: the next write tells. */
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
    if (is_writable(stream)) {
        return UNSENT_BYTES_MAX / 2;
    }
    stream->awaits_room = true;
    event_add(stream->write_event, NULL);
    return 0;
}
