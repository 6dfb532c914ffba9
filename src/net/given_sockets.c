#include "net/given_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/unix_socket.h"

static bool is_listening(int fd)
{
    int listens = 0;
    int type = 0;
    socklen_t bytes = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

void given_sockets_add(struct given_sockets *given, int fd)
{
    if (given->n == GIVEN_SOCKETS_MAX || !is_listening(fd)) {
        log_warn("net.given_sockets", "a socket that was given is not used", "fd=%d err=\"%s\"", fd,
                 given->n == GIVEN_SOCKETS_MAX ? "there are too many"
                                               : "it does not listen for streams");
        close(fd);
        return;
    }
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    given->fds[given->n++] = fd;
}

/* The scope of a link-local address and what the kernel leaves unsaid do not count. */
static bool is_same(const struct sockaddr *one, const struct sockaddr *other)
{
    if (one->sa_family != other->sa_family) {
        return false;
    }
    if (one->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)one;
        const struct sockaddr_in *b = (const struct sockaddr_in *)(const void *)other;
        return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
    }
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)(const void *)one;
    const struct sockaddr_in6 *b = (const struct sockaddr_in6 *)(const void *)other;
    return one->sa_family == AF_INET6 && a->sin6_port == b->sin6_port &&
           memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr)) == 0;
}

static enum status share(struct given_sockets *given, size_t i, int *fd)
{
    given->is_used[i] = true;
    *fd = fcntl(given->fds[i], F_DUPFD_CLOEXEC, 0);
    return *fd >= 0 ? STATUS_OK : STATUS_IO;
}

enum status given_sockets_share(struct given_sockets *given, const struct sockaddr *sockaddr,
                                int *fd)
{
    *fd = -1;
    for (size_t i = 0; i < given->n; i++) {
        struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
        socklen_t bytes = sizeof(own);
        if (getsockname(given->fds[i], (struct sockaddr *)&own, &bytes) == 0 &&
            is_same((const struct sockaddr *)&own, sockaddr)) {
            return share(given, i, fd);
        }
    }
    return STATUS_OK;
}

enum status given_sockets_share_unix(struct given_sockets *given, struct span path, int *fd)
{
    const struct sockaddr_un wanted = unix_socket_address(path);
    *fd = -1;
    for (size_t i = 0; i < given->n; i++) {
        struct sockaddr_un own = {.sun_family = AF_UNSPEC};
        socklen_t bytes = sizeof(own);
        if (getsockname(given->fds[i], (struct sockaddr *)&own, &bytes) == 0 &&
            own.sun_family == AF_UNIX &&
            strncmp(own.sun_path, wanted.sun_path, sizeof(own.sun_path)) == 0) {
            return share(given, i, fd);
        }
    }
    return STATUS_OK;
}

void given_sockets_tell_unused(const struct given_sockets *given)
{
    size_t n_unused = 0;
    for (size_t i = 0; i < given->n; i++) {
        n_unused += !given->is_used[i];
    }
    if (n_unused > 0) {
        log_warn("net.given_sockets", "sockets that were given are not used",
                 "sockets=%zu hint=\"the policy listens on none of their addresses: see listen\"",
                 n_unused);
    }
}

void given_sockets_close(struct given_sockets *given)
{
    for (size_t i = 0; i < given->n; i++) {
        close(given->fds[i]);
    }
    given->n = 0;
}
