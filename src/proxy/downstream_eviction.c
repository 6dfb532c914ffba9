#include "proxy/downstream_eviction.h"

#include "proxy/entrance.h"
#include "proxy/worker.h"

bool downstream_await_first(struct downstream *downstream, uint64_t now_us)
{
    struct worker *worker = downstream->worker;
    const struct timeouts_section *timeouts = &worker->regime->policy->timeouts;
    if (entrance_is_protected(worker, &downstream->peer)) {
        return false;
    }
    downstream->rest_since_us = now_us;
    /* Where idle is less it closes silent connections: a head has its time from its first byte. */
    downstream->is_first = timeouts->head_us <= timeouts->idle_us;
    if (list_is_empty(&downstream->timeout.node)) {
        timeout_arm(&downstream->timeout, &worker->first_timeouts, now_us);
    }
    eviction_add(&worker->shared->entrance.eviction, &downstream->candidate, &downstream->peer,
                 now_us + EVICTION_GRACE_US);
    return true;
}

void downstream_end_first(struct downstream *downstream)
{
    if (downstream->is_first) {
        downstream->is_first = false;
        timeout_disarm(&downstream->timeout);
    }
}

static void refuse_head(struct downstream *downstream, const char *reason)
{
    downstream->exchange->request.error = (struct http_error){.status = 408, .reason = reason};
    exchange_on_bad_head(downstream->exchange);
}

void downstream_end_late_head(struct downstream *downstream)
{
    downstream->is_first = false;
    refuse_head(downstream, "the request's head took too long");
}

void downstream_leave_entrance(struct downstream *downstream)
{
    if (!downstream->has_left) {
        downstream->has_left = true;
        entrance_leave(downstream->worker, downstream->is_counted ? &downstream->peer : NULL);
    }
}

enum eviction_kind downstream_evict(struct downstream *downstream)
{
    const bool has_spoken = downstream->candidate.has_spoken;
    const bool is_idle =
        downstream->phase == DOWNSTREAM_IDLE && list_is_empty(&downstream->next.node);
    const bool is_reading_head =
        downstream->phase == DOWNSTREAM_BUSY && downstream->exchange->state == EXCHANGE_READ_HEAD;
    if (downstream->phase == DOWNSTREAM_LINGER) {
        downstream_close(downstream);
        return EVICTED_IDLE;
    }
    if ((!is_idle && !is_reading_head) ||
        stream_peek(&downstream->stream) == STREAM_DONE) { /* bytes that are not read yet */
        return EVICTED_NONE;
    }
    if (is_idle) {
        downstream_close(downstream);
        return has_spoken ? EVICTED_IDLE : EVICTED_SILENT;
    }
    downstream->is_evicted = true;
    downstream_leave_entrance(downstream);
    refuse_head(downstream, "too many connections: the head was not whole yet");
    return EVICTED_HEAD;
}
