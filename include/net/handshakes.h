/* The handshakes of a listening socket: beginning no more, and seeing the last of them end.
 *
 * A socket that is closed resets not only what is queued but also whoever has got its
 * SYN-ACK and believes to be connected. Nothing of POSIX stops a socket from listening
 * without that: a filter can. */

#ifndef SLUICE_NET_HANDSHAKES_H
#define SLUICE_NET_HANDSHAKES_H

#include <stdbool.h>

/* No handshake begins on @fd from now on. Who tries is served by another socket that listens on the
 * port and covers the address, or refused; before Linux 5.7, and while a socket of the very same
 * address goes on, it seems to him that the SYN was lost, and it is sent again a second later.
 * Those that have begun go on, but for one by a SYN cookie. Of a socket that is not of TCP nothing
 * changes. Not for a socket that another process shares: it would be deaf as well. */
void handshakes_stop(int fd);

/* @fd was accepted from a socket where they are stopped, and inherits how: take that from it. */
void handshakes_free_child(int fd);

/* Whether a handshake is under way with the address and the port of @fd; also where the kernel does
 * not tell. Whose it is, if several listen there, is not told. A handshake by a SYN cookie is not
 * seen. Takes from a tenth of a millisecond to several, the more connections the host has. */
bool handshakes_are_under_way(int fd);

#endif /* SLUICE_NET_HANDSHAKES_H */
