/* Sockets to listen on beside those of listener_bind(): unix sockets with a path, and sockets that
 * the parent process has opened.
 *
 * The kernel distributes connections over TCP sockets of one address, but not over unix sockets of
 * one path. So there is one listening socket, and all workers accept from it. */

#ifndef SLUICE_NET_LISTEN_SOCKET_H
#define SLUICE_NET_LISTEN_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

struct sockaddr;

/* --- unix sockets --- */

/* The address for @path, which must fit. */
struct sockaddr_un unix_socket_address(struct span path);

struct unix_listener {
    int fd; /* owned; -1: closed */
    struct sockaddr_un address;
    struct stat file; /* the bound file; another file may have replaced it since */
};

/* Listen at @path, which must fit. The file gets the permissions @mode before a client can connect.
 * A socket file without a listener is replaced; any other file is never replaced. STATUS_IN_USE:
 * another process listens there. STATUS_IO: see errno (ENOTSOCK: the file is no socket). */
MUST_USE enum status unix_listener_open(struct unix_listener *listener, struct span path,
                                        uint32_t mode);

/* A duplicate of the listening socket in *fd, which the caller closes. STATUS_IO. */
MUST_USE enum status unix_listener_share(const struct unix_listener *listener, int *fd);

/* Remove the file if it is still the bound one, and close the socket. Holders of duplicates may go
 * on accepting. No-op on a closed listener. */
void unix_listener_close(struct unix_listener *listener);

/* --- sockets that the parent process passed on (socket activation), found by their address ---
 *
 * They stay open until the process ends, because a later policy may listen again on an address that
 * the current one does not use. */

enum { GIVEN_SOCKETS_MAX = 64 };

struct given_sockets {
    int fds[GIVEN_SOCKETS_MAX]; /* owned */
    bool is_used[GIVEN_SOCKETS_MAX];
    size_t n;
};

/* Take ownership of @fd and make it non-blocking. A descriptor that is no listening stream socket,
 * or beyond GIVEN_SOCKETS_MAX, is closed and logged. */
void given_sockets_add(struct given_sockets *given, int fd);

/* Set *fd to a duplicate of the socket that listens on exactly @sockaddr (IPv4 or IPv6) or at
 * @path; the caller closes it. -1: there is none. STATUS_IO. */
MUST_USE enum status given_sockets_share(struct given_sockets *given,
                                         const struct sockaddr *sockaddr, int *fd);
MUST_USE enum status given_sockets_share_unix(struct given_sockets *given, struct span path,
                                              int *fd);

/* Log a warning if some sockets were never shared. */
void given_sockets_report_unused(const struct given_sockets *given);

void given_sockets_close(struct given_sockets *given);

#endif /* SLUICE_NET_LISTEN_SOCKET_H */
