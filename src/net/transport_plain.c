/* Plain sockets as a transport. */

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/stream.h"

/* Copying so few bytes costs less than the kernel's handling of several slices. */
enum { JOINED_BYTES_MAX = 2048 };

/* recv() and send() are cancellation points, which in a program with threads costs two locked
 * instructions each. No thread is ever cancelled here, so the system calls are made directly. */

static ssize_t plain_read(struct stream *stream, void *buffer, size_t capacity)
{
    return syscall(SYS_recvfrom, stream->fd, buffer, capacity, 0, NULL, NULL);
}

static ssize_t send_bytes(int fd, const void *bytes, size_t n)
{
    return syscall(SYS_sendto, fd, bytes, n, MSG_NOSIGNAL, NULL, 0);
}

static size_t bytes_of(const struct iovec *slices, int n_slices)
{
    size_t n = 0;
    for (int i = 0; i < n_slices; i++) {
        n += slices[i].iov_len;
    }
    return n;
}

static ssize_t send_joined(int fd, const struct iovec *slices, int n_slices)
{
    char joined[JOINED_BYTES_MAX];
    size_t n = 0;
    for (int i = 0; i < n_slices; i++) {
        memcpy(joined + n, slices[i].iov_base, slices[i].iov_len);
        n += slices[i].iov_len;
    }
    return send_bytes(fd, joined, n);
}

static ssize_t plain_writev(struct stream *stream, const struct iovec *slices, int n_slices)
{
    if (n_slices == 1) {
        return send_bytes(stream->fd, slices[0].iov_base, slices[0].iov_len);
    }
    if (bytes_of(slices, n_slices) <= JOINED_BYTES_MAX) {
        return send_joined(stream->fd, slices, n_slices);
    }
    /* writev() would raise SIGPIPE if the peer has gone. */
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

static ssize_t plain_to_pipe(struct stream *stream, int pipe_fd, size_t most)
{
    return splice(stream->fd, NULL, pipe_fd, NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

/* splice() has no MSG_NOSIGNAL: the process must ignore SIGPIPE. */
static ssize_t plain_from_pipe(struct stream *stream, int pipe_fd, size_t most)
{
    return splice(pipe_fd, NULL, stream->fd, NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

static enum stream_result plain_shutdown(struct stream *stream)
{
    shutdown(stream->fd, SHUT_WR);
    return STREAM_DONE;
}

const struct transport transport_plain = {
    .name = "plain",
    .read = plain_read,
    .writev = plain_writev,
    .peek = plain_peek,
    .to_pipe = plain_to_pipe,
    .from_pipe = plain_from_pipe,
    .shutdown = plain_shutdown,
};
