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

static int take(struct given_sockets *given, size_t i)
{
    const int fd = given->fds[i];
    given->fds[i] = -1;
    return fd;
}

int given_sockets_take(struct given_sockets *given, const struct sockaddr *sockaddr)
{
    for (size_t i = 0; i < given->n; i++) {
        struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
        socklen_t own_bytes = sizeof(own);
        if (given->fds[i] >= 0 &&
            getsockname(given->fds[i], (struct sockaddr *)&own, &own_bytes) == 0 &&
            is_same((const struct sockaddr *)&own, sockaddr)) {
            return take(given, i);
        }
    }
    return -1;
}

int given_sockets_take_unix(struct given_sockets *given, struct span path)
{
    const struct sockaddr_un wanted = unix_socket_address(path);
    for (size_t i = 0; i < given->n; i++) {
        struct sockaddr_un own = {.sun_family = AF_UNSPEC};
        socklen_t bytes = sizeof(own);
        if (given->fds[i] >= 0 &&
            getsockname(given->fds[i], (struct sockaddr *)&own, &bytes) == 0 &&
            own.sun_family == AF_UNIX &&
            strncmp(own.sun_path, wanted.sun_path, sizeof(own.sun_path)) == 0) {
            return take(given, i);
        }
    }
    return -1;
}

void given_sockets_close(struct given_sockets *given)
{
    size_t n_left = 0;
    for (size_t i = 0; i < given->n; i++) {
        if (given->fds[i] >= 0) {
            close(take(given, i));
            n_left++;
        }
    }
    given->n = 0;
    if (n_left > 0) {
        log_warn("net.given_sockets", "sockets that were given are not used",
                 "sockets=%zu hint=\"the policy listens on none of their addresses: see listen\"",
                 n_left);
    }
}
