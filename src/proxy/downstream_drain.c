#include "base/clock.h"
#include "proxy/downstream.h"
#include "proxy/worker.h"

void downstream_drain(struct downstream *downstream)
{
    if (downstream->phase == DOWNSTREAM_NEW) {
        timeout_arm(&downstream->timeout, &downstream->worker->grace_timeouts,
                    clock_monotonic_us());
        return;
    }
    if (downstream->phase != DOWNSTREAM_IDLE || !list_is_empty(&downstream->next.node)) {
        return;
    }
    switch (stream_peek(&downstream->stream)) {
    case STREAM_DONE:
        return; /* a request has come and is not read yet */
    case STREAM_BLOCKED:
        if (downstream->keep_alive) {
            break; /* had its answers */
        }
        /* Its first request is on its way: a client that has just connected is not waiting idly. */
        downstream->is_first = false;
        timeout_arm(&downstream->timeout, &downstream->worker->grace_timeouts,
                    clock_monotonic_us());
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    downstream_close(downstream);
}
