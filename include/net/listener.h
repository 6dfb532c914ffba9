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
 * process is an error and not half of the traffic. STATUS_IN_USE, STATUS_IO (errno says why). */
MUST_USE enum status listener_probe(const struct sockaddr *sockaddr, size_t sockaddr_bytes);

/* A non-blocking listening socket with SO_REUSEPORT in *fd. A port of 0 is chosen by the kernel:
 * ask getsockname(). STATUS_IN_USE, STATUS_IO. */
MUST_USE enum status listener_bind(const struct sockaddr *sockaddr, size_t sockaddr_bytes, int *fd);

struct listener {
    int fd; /* owned */
    struct event *event;
    struct timer pause; /* after the process ran out of file descriptors */
    /* A connection: @fd is the callee's now, non-blocking, close-on-exec. */
    void (*on_accept)(void *context, int fd, const struct sockaddr *peer);
    void *context;
    struct log_gate gate;
    uint64_t n_refused; /* accepts that failed for want of descriptors or memory */
};

/* Accept from @fd (taken over) within @loop. STATUS_NO_MEMORY: @fd is closed. */
MUST_USE enum status
listener_open(struct listener *listener, struct loop *loop, int fd,
              void (*on_accept)(void *context, int fd, const struct sockaddr *peer), void *context);

/* Accept what is queued already, then close. */
void listener_close(struct listener *listener);

#endif /* SLUICE_NET_LISTENER_H */
