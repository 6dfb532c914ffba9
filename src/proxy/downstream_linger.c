#include "proxy/downstream_linger.h"

#include "base/clock.h"
#include "proxy/downstream_regime.h"
#include "proxy/worker.h"

void downstream_linger(struct downstream *downstream)
{
    downstream->phase = DOWNSTREAM_LINGER;
    inbox_end_message(&downstream->inbox);
    inbox_close(&downstream->inbox);
    downstream_leave_regime(downstream);
    stream_shutdown(&downstream->stream);
    stream_want_read(&downstream->stream, true);
    const uint64_t now_us = clock_monotonic_us();
    linger_begin(&downstream->linger, now_us);
    timeout_arm(&downstream->timeout, &downstream->worker->linger_timeouts, now_us);
    eviction_publish(&downstream->candidate, now_us + EVICTION_GRACE_US);
}

void downstream_discard(struct downstream *downstream)
{
    char *block = pool_take(&downstream->worker->body_blocks);
    const uint64_t now_us = clock_monotonic_us();
    size_t n_read = 0;
    enum stream_result result = STREAM_BROKEN;
    if (block != NULL) {
        result = stream_read(&downstream->stream, block, IO_BLOCK_BYTES, &n_read);
        pool_give(&downstream->worker->body_blocks, block);
    }
    if (result == STREAM_EOF || result == STREAM_BROKEN ||
        !linger_takes(&downstream->linger, n_read, now_us)) {
        downstream_close(downstream);
        return;
    }
    timeout_arm(&downstream->timeout, &downstream->worker->linger_timeouts, now_us);
}
