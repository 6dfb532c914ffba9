/* Plain sockets as a transport. */

#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"

static ssize_t plain_read(struct stream *stream, void *buffer, size_t capacity)
{
    return read(stream->fd, buffer, capacity);
}

static ssize_t plain_writev(struct stream *stream, const struct iovec *slices, int n_slices)
{
    /* writev() would raise SIGPIPE when the peer has gone. */
    const struct msghdr message = {
        .msg_iov = (struct iovec *)(uintptr_t)slices, /* sendmsg() does not write there */
        .msg_iovlen = (size_t)n_slices,
    };
    return sendmsg(stream->fd, &message, MSG_NOSIGNAL);
}

static ssize_t plain_peek(struct stream *stream, void *buffer, size_t capacity)
{
    return recv(stream->fd, buffer, capacity, MSG_PEEK | MSG_DONTWAIT);
}

static void plain_shutdown(struct stream *stream)
{
    shutdown(stream->fd, SHUT_WR);
}

const struct transport transport_plain = {
    .name = "plain",
    .read = plain_read,
    .writev = plain_writev,
    .peek = plain_peek,
    .shutdown = plain_shutdown,
};
