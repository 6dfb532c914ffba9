/* The program's own functions come before those of the C library. */

#include "support/counted_calls.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct counted_calls counted_calls;

/* The C library's type of an address is a union of pointers to all its kinds. */
int accept4(int fd, __SOCKADDR_ARG peer, socklen_t *restrict peer_bytes, int flags)
{
    counted_calls.n_accept4++;
    return (int)syscall(SYS_accept4, fd, peer.__sockaddr__, peer_bytes, flags);
}

int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    counted_calls.n_epoll_ctl++;
    return (int)syscall(SYS_epoll_ctl, epoll_fd, operation, fd, event);
}

ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    counted_calls.n_recv++;
    return syscall(SYS_recvfrom, fd, bytes, len, flags, NULL, NULL);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    counted_calls.n_send++;
    return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes)
{
    counted_calls.n_setsockopt++;
    return (int)syscall(SYS_setsockopt, fd, level, name, value, value_bytes);
}
