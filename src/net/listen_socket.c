/* Unix sockets with a path.
 *
 * Failures: a socket file left behind by a dead process is replaced. A file with a listener, or
 * that is no socket, is left alone. Two processes that start at the same moment may both find a
 * file left behind: then the later one owns the path, and the earlier one does not remove it when
 * it ends. */

#include "net/listen_socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/listener.h"

struct sockaddr_un unix_socket_address(struct span path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert(path.len < sizeof(address.sun_path));
    memcpy(address.sun_path, path.data, path.len);
    return address;
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Make @address free: there is no file, or a socket file without a listener is removed. */
static enum status clear_path(const struct sockaddr_un *address)
{
    struct stat file;
    if (lstat(address->sun_path, &file) != 0) {
        return errno == ENOENT ? STATUS_OK : STATUS_IO;
    }
    if (!S_ISSOCK(file.st_mode)) {
        errno = ENOTSOCK;
        return STATUS_IO;
    }
    const int fd = open_socket();
    if (fd < 0) {
        return STATUS_IO;
    }
    const int result =
        connect(fd, (const struct sockaddr *)(const void *)address, sizeof(*address));
    const int error = errno;
    close(fd);
    errno = error;
    if (result == 0 || error == EAGAIN) {
        errno = EADDRINUSE;
        return STATUS_IN_USE; /* EAGAIN: its queue of connections is full */
    }
    return error == ECONNREFUSED && unlink(address->sun_path) == 0 ? STATUS_OK : STATUS_IO;
}

/* Set the permissions of the file bound at @address, and *file to its status. The file is held by a
 * descriptor, so that a link that another user puts in its place is not followed. -1: see errno. */
static int set_mode(const struct sockaddr_un *address, mode_t mode, struct stat *file)
{
    char held[32];
    struct stat now;
    const int fd = open(address->sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    int result = fstat(fd, &now);
    if (result == 0 && !S_ISSOCK(now.st_mode)) {
        errno = ENOTSOCK;
        result = -1;
    }
    if (result == 0) {
        *file = now;
        if ((now.st_mode & ALLPERMS) != mode) {
            (void)snprintf(held, sizeof(held), "/proc/self/fd/%d", fd);
            result = chmod(held, mode); /* fchmod() does not accept an O_PATH descriptor */
        }
    }
    const int error = errno;
    close(fd);
    errno = error;
    return result;
}

static enum status close_failed(struct unix_listener *listener)
{
    const int error = errno;
    unix_listener_close(listener);
    errno = error;
    return error == EADDRINUSE ? STATUS_IN_USE : STATUS_IO;
}

enum status unix_listener_open(struct unix_listener *listener, struct span path, uint32_t mode)
{
    *listener = (struct unix_listener){.fd = -1, .address = unix_socket_address(path)};
    const enum status status = clear_path(&listener->address);
    if (status != STATUS_OK) {
        return status;
    }
    listener->fd = open_socket();
    if (listener->fd < 0 || fchmod(listener->fd, mode) != 0 || /* for bind(), minus the umask */
        bind(listener->fd, (const struct sockaddr *)&listener->address,
             sizeof(listener->address)) != 0 ||
        set_mode(&listener->address, mode, &listener->file) != 0 ||
        listen(listener->fd, LISTENER_BACKLOG) != 0) {
        return close_failed(listener);
    }
    return STATUS_OK;
}

enum status unix_listener_share(const struct unix_listener *listener, int *fd)
{
    const int shared = fcntl(listener->fd, F_DUPFD_CLOEXEC, 0);
    if (shared < 0) {
        return STATUS_IO;
    }
    *fd = shared;
    return STATUS_OK;
}

void unix_listener_close(struct unix_listener *listener)
{
    struct stat file;
    if (listener->fd < 0) {
        return;
    }
    if (lstat(listener->address.sun_path, &file) == 0 && file.st_dev == listener->file.st_dev &&
        file.st_ino == listener->file.st_ino) {
        (void)unlink(listener->address.sun_path);
    }
    close(listener->fd);
    listener->fd = -1;
}

/* --- given sockets --- */

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

/* Compares family, address and port. The scope of a link-local address is ignored. */
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

void given_sockets_report_unused(const struct given_sockets *given)
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
