/* Failures: a file is left behind by a process that died, it is replaced; somebody listens, or it
 * is no socket, it is left alone. Two processes that start at one moment may both find it left
 * behind: the later one has the path then, and the earlier leaves it alone when it ends. */

#include "net/unix_socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* Make room for a file of ours: there is none, or one of a socket that nobody listens on. */
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
        return STATUS_IN_USE; /* EAGAIN: and more wait than it has room for */
    }
    return error == ECONNREFUSED && unlink(address->sun_path) == 0 ? STATUS_OK : STATUS_IO;
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
    if (listener->fd < 0 ||
        bind(listener->fd, (const struct sockaddr *)&listener->address,
             sizeof(listener->address)) != 0 ||
        lstat(listener->address.sun_path, &listener->file) != 0 ||
        chmod(listener->address.sun_path, mode) != 0 ||
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
