/* Plain sockets as a transport. */

#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"

static ssize_t plain_read(struct stream *stream, void *buffer, size_t capacity)
{
    return read(stream->fd, buffer, capacity);
}

static ssize_t plain_writev(struct stream *stream, const struct iovec *slices, int n_slices)
{
    return writev(stream->fd, slices, n_slices);
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
