/* Listening sockets: one per worker and address; the kernel distributes the connections
 * (SO_REUSEPORT). */

#ifndef SLUICE_NET_LISTENER_H
#define SLUICE_NET_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/status.h"
#include "net/loop.h"

struct sockaddr;

enum {
    LISTENER_BACKLOG = 4096,
    LISTENER_ACCEPTS_MAX = 64, /* in an iteration of the loop, so that a flood does not starve */
                               /* other events */
};

/* Check that no other process listens on @sockaddr. The check binds without SO_REUSEPORT, so that a
 * forgotten old process gives an error instead of taking half of the traffic. It does not listen,
 * because a client that connected to it would not be served. STATUS_IN_USE, STATUS_IO (see
 * errno). */
MUST_USE enum status listener_probe(const struct sockaddr *sockaddr, size_t sockaddr_bytes);

/* Open a non-blocking listening socket with SO_REUSEPORT in *fd. For port 0 the kernel chooses the
 * port: see getsockname(). STATUS_IN_USE, STATUS_IO. */
MUST_USE enum status listener_bind(const struct sockaddr *sockaddr, size_t sockaddr_bytes, int *fd);

/* --- TCP handshakes of a listening socket ---
 *
 * Closing a listening socket resets the queued connections, and also clients that have received a
 * SYN-ACK and take themselves for connected. POSIX has no call that stops new handshakes without
 * that; a socket filter can. */

/* Whether a handshake is in progress for the address and port of @fd; also true if the kernel
 * cannot answer. It may belong to another socket of the same address. A handshake by SYN cookie is
 * not seen. Takes from a tenth of a millisecond to several, depending on the number of connections
 * of the host. */
bool handshakes_are_under_way(int fd);

/* --- accepting --- */

struct listener {
    int fd; /* owned */
    struct event_room event;
    struct timer pause; /* after the process ran out of file descriptors */
    struct timer look;  /* while leaving: checks whether to close */
    unsigned n_looks;
    bool is_leaving;
    bool is_quiet; /* no handshake was in progress at the last check */
    /* Accepts in an iteration of the loop; LISTENER_ACCEPTS_MAX unless the owner sets it. */
    unsigned n_accepts_max;
    unsigned n_accepts; /* in this one; the owner may add to it, for a connection that costs more */
    /* A connection was accepted. The callee owns @fd: non-blocking, close-on-exec. */
    void (*on_accept)(void *context, int fd, const struct sockaddr *peer);
    void (*on_left)(void *context);
    void *context;
    struct log_gate gate;
    uint64_t n_refused; /* accepts that failed for lack of descriptors or memory */
};

/* Accept from @fd, which becomes owned, within @loop. STATUS_NO_MEMORY: @fd is closed. */
MUST_USE enum status
listener_open(struct listener *listener, struct loop *loop, int fd,
              void (*on_accept)(void *context, int fd, const struct sockaddr *peer), void *context);

/* Let no connection begin from now on, but accept those whose handshake has begun, so that no
 * client is reset. Then close and call @on_left, which may free the listener. This takes 20 ms if
 * no handshake is in progress, and little more than a second if handshakes do not end, for example
 * because the clients are gone. The socket must not be shared, unless it is a unix socket; its file
 * is removed before the call. */
void listener_leave(struct listener *listener, void (*on_left)(void *context));

/* Accept the queued connections, then close at once. A client that connects at that moment is
 * reset, unless the socket is shared. */
void listener_close(struct listener *listener);

#endif /* SLUICE_NET_LISTENER_H */
