/* Active health checks: one GET after another to a server, each on a connection of its own, whose
 * outcome all workers see. They are made by one worker of the process alone. */

#ifndef SLUICE_PROXY_HEALTH_CHECK_H
#define SLUICE_PROXY_HEALTH_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"

struct upstream_server;

enum {
    CHECK_STATUS_BYTES = 12,    /* "HTTP/1.1 200" */
    CHECK_REQUEST_BYTES = 9216, /* a target and a host, each as long as it may be */
};

enum check_phase {
    CHECK_RESTING,
    CHECK_CONNECTING,
    CHECK_AWAITING, /* the answer's status */
    CHECK_DRAINING, /* the rest of the answer, so that the server's close is in order */
};

struct health_check {
    struct upstream_server *server; /* NULL: not begun */
    enum check_phase phase;
    struct timer timer; /* until the next check; or for the one under way */
    uint64_t started_us;
    struct stream stream;
    char *request; /* owned */
    size_t request_len;
    char status[CHECK_STATUS_BYTES]; /* what came of it */
    size_t status_len;
    size_t n_drained; /* bytes */
};

/* Begin to check @server, at once but for a moment's jitter. @check is all
 * zero. STATUS_NO_MEMORY. */
MUST_USE enum status health_check_begin(struct health_check *check, struct upstream_server *server);

/* One that is all zero is closed already. */
void health_check_close(struct health_check *check);

#endif /* SLUICE_PROXY_HEALTH_CHECK_H */
