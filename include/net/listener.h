/* Listening sockets: one a worker and address, the kernel spreads the connections (SO_REUSEPORT).
 */

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

enum { LISTENER_BACKLOG = 4096 };

/* Look whether somebody else listens on @sockaddr: without SO_REUSEPORT, so that a forgotten old
 * process is an error and not half of the traffic. It does not listen itself: nobody would be
 * served who connects meanwhile. STATUS_IN_USE, STATUS_IO (errno says why). */
MUST_USE enum status listener_probe(const struct sockaddr *sockaddr, size_t sockaddr_bytes);

/* A non-blocking listening socket with SO_REUSEPORT in *fd. A port of 0 is chosen by the kernel:
 * ask getsockname(). STATUS_IN_USE, STATUS_IO. */
MUST_USE enum status listener_bind(const struct sockaddr *sockaddr, size_t sockaddr_bytes, int *fd);

struct listener {
    int fd; /* owned */
    struct event *event;
    struct timer pause; /* after the process ran out of file descriptors */
    struct timer look;  /* while it leaves: whether it may close */
    unsigned n_looks;
    bool is_leaving;
    bool is_quiet; /* at the latest look no handshake was under way */
    /* A connection: @fd is the callee's now, non-blocking, close-on-exec. */
    void (*on_accept)(void *context, int fd, const struct sockaddr *peer);
    void (*on_left)(void *context);
    void *context;
    struct log_gate gate;
    uint64_t n_refused; /* accepts that failed for want of descriptors or memory */
};

/* Accept from @fd (taken over) within @loop. STATUS_NO_MEMORY: @fd is closed. */
MUST_USE enum status
listener_open(struct listener *listener, struct loop *loop, int fd,
              void (*on_accept)(void *context, int fd, const struct sockaddr *peer), void *context);

/* Begin no connection from now on, but accept those whose handshake has begun: nobody who
 * could connect is lost. Then close and call @on_left, which may free the listener: after 20
 * ms where there are none, after little more than a second where handshakes do not end, as
 * those of clients that are gone. The socket is nobody else's, but for one of a unix socket:
 * its file is gone by now. */
void listener_leave(struct listener *listener, void (*on_left)(void *context));

/* Accept what is queued already, then close at once. Whoever connects at that moment is reset, but
 * where others share the socket. */
void listener_close(struct listener *listener);

#endif /* SLUICE_NET_LISTENER_H */
