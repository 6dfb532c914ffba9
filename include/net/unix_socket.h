/* Unix sockets that are files: where to connect to, and listening on one.
 *
 * The kernel spreads connections over TCP sockets of one address, but not over unix sockets of one
 * path: there is one listening socket, which all workers accept from. */

#ifndef SLUICE_NET_UNIX_SOCKET_H
#define SLUICE_NET_UNIX_SOCKET_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

/* @path, which fits, as an address. */
struct sockaddr_un unix_socket_address(struct span path);

struct unix_listener {
    int fd; /* owned; -1: closed */
    struct sockaddr_un address;
    struct stat file; /* what it was when it was bound: another may have taken its place since */
};

/* Listen at @path, which fits; the file gets the permissions @mode before anybody can connect. A
 * socket's file on which nobody listens any more is replaced, another file never is. STATUS_IN_USE:
 * somebody listens there; STATUS_IO: errno says why (ENOTSOCK: the file is no socket). */
MUST_USE enum status unix_listener_open(struct unix_listener *listener, struct span path,
                                        uint32_t mode);

/* The same listening socket once more, in *fd: to be closed by its own. STATUS_IO. */
MUST_USE enum status unix_listener_share(const struct unix_listener *listener, int *fd);

/* Remove the file, if it is still ours, and let go of the socket; who shares it may go on
 * accepting. One that is closed stays so. */
void unix_listener_close(struct unix_listener *listener);

#endif /* SLUICE_NET_UNIX_SOCKET_H */
