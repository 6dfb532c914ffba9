/* Listening sockets that whoever started the process has opened for it (socket activation), to be taken by the
 * address that they have. */

#ifndef SLUICE_NET_GIVEN_SOCKETS_H
#define SLUICE_NET_GIVEN_SOCKETS_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

struct sockaddr;

enum { GIVEN_SOCKETS_MAX = 64 };

struct given_sockets {
    int fds[GIVEN_SOCKETS_MAX]; /* owned; -1: taken */
    size_t n;
};

/* Take over @fd; it is made non-blocking. One that is no listening stream socket, or too many, is closed and told
 * in the log. */
void given_sockets_add(struct given_sockets *given, int fd);

/* The socket that listens on exactly @sockaddr, of IPv4 or IPv6, or at @path, which is the caller's then; -1: none does. */
MUST_USE int given_sockets_take(struct given_sockets *given, const struct sockaddr *sockaddr);
MUST_USE int given_sockets_take_unix(struct given_sockets *given, struct span path);

/* Close those that nobody has taken, and tell in the log that there were some. */
void given_sockets_close(struct given_sockets *given);

#endif /* SLUICE_NET_GIVEN_SOCKETS_H */
