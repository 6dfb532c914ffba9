/* Listening sockets that whoever started the process has opened for it (socket activation), found
 * by the address that they have. They stay open to the end of the process: a policy that no longer
 * listens there may be followed by one that does. */

#ifndef SLUICE_NET_GIVEN_SOCKETS_H
#define SLUICE_NET_GIVEN_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

struct sockaddr;

enum { GIVEN_SOCKETS_MAX = 64 };

struct given_sockets {
    int fds[GIVEN_SOCKETS_MAX]; /* owned */
    bool is_used[GIVEN_SOCKETS_MAX];
    size_t n;
};

/* Take over @fd; it is made non-blocking. One that is no listening stream socket, or too many, is
 * closed and told in the log. */
void given_sockets_add(struct given_sockets *given, int fd);

/* In *fd, once more, the socket that listens on exactly @sockaddr, of IPv4 or IPv6, or at @path: to
 * be closed by its own. -1: none does. STATUS_IO. */
MUST_USE enum status given_sockets_share(struct given_sockets *given,
                                         const struct sockaddr *sockaddr, int *fd);
MUST_USE enum status given_sockets_share_unix(struct given_sockets *given, struct span path,
                                              int *fd);

/* Tell in the log of those that nobody has asked for. */
void given_sockets_tell_unused(const struct given_sockets *given);

void given_sockets_close(struct given_sockets *given);

#endif /* SLUICE_NET_GIVEN_SOCKETS_H */
