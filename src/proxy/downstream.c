/* Happy path: a head is read with one read() and given to an exchange; the answer goes out with one
 * writev(); the connection is idle again, without a buffer, until the next.
 *
 *   NEW ─ PROXY header, where one is to come ─► IDLE
 *   IDLE ─ first byte ─► BUSY ─ answered ─► ANSWERED ─ written, another may follow ─► IDLE
 *                          │                    └ written, none may ─► LINGER ─► CLOSED
 *                          └ lost, or cut ─► CLOSED
 *
 * Failures: a client that leaves ends its exchange; one that has ended its side only still gets its
 * answer; one that goes on sending what nobody wants is answered and listened to for a moment, so
 * that the answer is not lost in a reset. */

#include "proxy/downstream.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/proxy_header.h"
#include "proxy/downstream_body.h"
#include "proxy/downstream_eviction.h"
#include "proxy/downstream_linger.h"
#include "proxy/downstream_regime.h"
#include "proxy/downstream_writer.h"
#include "proxy/entrance.h"
#include "proxy/exchange_steps.h"
#include "proxy/worker.h"

/* --- the end --- */

static void die(struct loop_task *task)
{
    struct downstream *downstream = CONTAINER_OF(task, struct downstream, death);
    struct worker *worker = downstream->worker;
    pool_give(&worker->downstreams, downstream);
    worker_on_downstream_gone(worker);
}

/* Let go of everything; no exchange is under way. */
static void close_idle(struct downstream *downstream)
{
    assert(downstream->phase != DOWNSTREAM_CLOSED && downstream->exchange == NULL);
    if (downstream->is_stalled) {
        stream_reset_on_close(&downstream->stream); /* what is cut must not look complete */
    }
    downstream->phase = DOWNSTREAM_CLOSED;
    list_remove(&downstream->node);
    timeout_disarm(&downstream->timeout);
    loop_task_cancel(&downstream->next);
    stream_close(&downstream->stream);
    inbox_close(&downstream->inbox);
    downstream_drop_out_block(downstream);
    downstream_leave_regime(downstream);
    eviction_remove(&downstream->worker->shared->entrance.eviction, &downstream->candidate);
    downstream_leave_entrance(downstream);
    loop_at_turn_end(downstream->worker->loop, &downstream->death);
}

void downstream_close(struct downstream *downstream)
{
    if (downstream->exchange != NULL) {
        exchange_on_client_gone(downstream->exchange); /* comes back through on_done() */
    } else if (downstream->phase != DOWNSTREAM_CLOSED) {
        close_idle(downstream);
    }
}

void downstream_cut(struct downstream *downstream)
{
    if (downstream->exchange != NULL) {
        /* comes back through on_done() */
        exchange_cut(downstream->exchange, ANSWER_SERVER_FAILED, "the proxy ended it");
    } else if (downstream->phase != DOWNSTREAM_CLOSED) {
        close_idle(downstream);
    }
}

static void on_timeout(struct timeout *timeout)
{
    struct downstream *downstream = CONTAINER_OF(timeout, struct downstream, timeout);
    if (downstream->phase == DOWNSTREAM_BUSY) {
        downstream_end_late_head(downstream);
    } else {
        close_idle(downstream);
    }
}

/* Answered, and no other request may follow. */
static void finish(struct downstream *downstream)
{
    const bool sends_more = !downstream->inbox.ended || inbox_has_bytes(&downstream->inbox) ||
                            stream_peek(&downstream->stream) == STREAM_DONE;
    if (sends_more && !downstream->has_ended && !downstream->is_evicted) {
        downstream_linger(downstream);
    } else {
        close_idle(downstream);
    }
}

/* --- one request after another --- */

static void arm_rest(struct downstream *downstream, uint64_t now_us)
{
    downstream->rest_since_us = now_us;
    timeout_arm(&downstream->timeout, &downstream->worker->rest_timeouts, now_us);
}

/* The client is known, and its first request is to come. */
static void begin_first(struct downstream *downstream, uint64_t now_us)
{
    if (!downstream_await_first(downstream, now_us)) {
        arm_rest(downstream, now_us);
    }
}

/* The timeout is armed already. */
static void rest(struct downstream *downstream)
{
    downstream->phase = DOWNSTREAM_IDLE;
    eviction_publish(&downstream->candidate, downstream->rest_since_us + EVICTION_GRACE_US);
    downstream_leave_regime(downstream);
    stream_want_read(&downstream->stream, true);
}

/* Take what is buffered of a body that nobody wanted. */
static void skip_body(struct downstream *downstream)
{
    struct span piece;
    bool last;
    while (!downstream->inbox.ended && inbox_has_bytes(&downstream->inbox) &&
           inbox_next(&downstream->inbox, &piece, &last) == INBOX_PIECE) {
    }
}

/* The answer has been written. */
static void go_on(struct downstream *downstream)
{
    if (downstream->keep_alive) {
        skip_body(downstream);
    }
    if (!downstream->keep_alive || !downstream->inbox.ended || downstream->worker->draining) {
        finish(downstream);
        return;
    }
    inbox_end_message(&downstream->inbox);
    head_parser_reset(&downstream->parser);
    if (inbox_head_bytes(&downstream->inbox).len > 0) {
        downstream->phase = DOWNSTREAM_IDLE;
        downstream_renew_regime(downstream);
        loop_at_turn_end(downstream->worker->loop, &downstream->next);
    } else if (downstream->has_ended) {
        close_idle(downstream);
    } else {
        rest(downstream);
    }
}

static void on_done(struct client *client, uint64_t now_us)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    const bool is_answered = downstream->exchange->state == EXCHANGE_DONE;
    const bool is_cut = !is_answered && downstream->exchange->is_response_started;
    pool_give(&downstream->regime->stock->exchanges, downstream->exchange);
    downstream->exchange = NULL;
    downstream->wants_body = false;
    if (is_cut) {
        /* An orderly end would make an answer that is delimited by it look complete. */
        stream_reset_on_close(&downstream->stream);
    }
    if (!is_answered) {
        close_idle(downstream);
        return;
    }
    arm_rest(downstream, now_us);
    if (stream_is_blocked(&downstream->stream)) {
        downstream->phase = DOWNSTREAM_ANSWERED;
    } else {
        go_on(downstream);
    }
}

/* The first byte of a request is there. */
static bool begin(struct downstream *downstream, uint64_t now_us)
{
    struct regime *regime = downstream->regime;
    void *memory = pool_take(&regime->stock->exchanges);
    if (memory == NULL) {
        close_idle(downstream);
        return false;
    }
    if (!downstream->is_first) {
        timeout_disarm(&downstream->timeout);
    }
    eviction_publish(&downstream->candidate, EVICTION_NEVER);
    if (UNLIKELY(!downstream->candidate.has_spoken)) {
        eviction_note_spoken(&downstream->worker->shared->entrance.eviction,
                             &downstream->candidate);
    }
    downstream->phase = DOWNSTREAM_BUSY;
    downstream->exchange =
        exchange_init(memory, regime, &downstream->client, &downstream->peer, now_us);
    downstream->parser.fields = downstream->exchange->fields;
    return true;
}

static void parse(struct downstream *downstream, uint64_t now_us)
{
    struct exchange *exchange = downstream->exchange;
    struct head *request = &exchange->request;
    size_t consumed;
    switch (head_parse_request(&downstream->parser, inbox_head_bytes(&downstream->inbox), request,
                               &consumed)) {
    case PARSE_DONE:
        downstream_end_first(downstream);
        eviction_publish(&downstream->candidate, EVICTION_NEVER);
        inbox_begin_body(&downstream->inbox, consumed, request->body, request->content_length);
        exchange_on_head(exchange, now_us);
        return;
    case PARSE_PARTIAL:
        if (downstream->has_ended) {
            exchange_on_client_gone(exchange);
        } else {
            eviction_publish(&downstream->candidate, exchange->started_us + EVICTION_HEAD_GRACE_US);
            stream_want_read(&downstream->stream, true);
        }
        return;
    case PARSE_BAD:
        downstream_end_first(downstream);
        eviction_publish(&downstream->candidate, EVICTION_NEVER);
        downstream->inbox.ended = false; /* nobody knows where this one ends */
        exchange_on_bad_head(exchange);
        return;
    }
}

static void on_next(struct loop_task *task)
{
    struct downstream *downstream = CONTAINER_OF(task, struct downstream, next);
    const uint64_t now_us = clock_monotonic_us();
    if (begin(downstream, now_us)) {
        parse(downstream, now_us);
    }
}

static void read_head(struct downstream *downstream)
{
    if (downstream->regime == NULL) {
        downstream_enter_regime(downstream, downstream->worker->regime);
    }
    const enum stream_result result = inbox_read_head(&downstream->inbox);
    const uint64_t now_us = clock_monotonic_us();
    switch (result) {
    case STREAM_DONE:
        if (downstream->phase == DOWNSTREAM_BUSY || begin(downstream, now_us)) {
            parse(downstream, now_us);
        }
        return;
    case STREAM_BLOCKED:
        if (downstream->phase == DOWNSTREAM_IDLE) {
            downstream_leave_regime(downstream);
        }
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        downstream_close(downstream);
        return;
    }
}

/* --- who the client is --- */

/* The PROXY header is whole: @consumed bytes. What follows it is the first
 * request, or part of one. */
static void take_header(struct downstream *downstream, const struct proxy_header *header,
                        size_t consumed)
{
    if (header->has_source) {
        downstream->peer = header->source;
    }
    if (!entrance_count(downstream->worker, &downstream->peer, downstream->stream.fd,
                        &downstream->is_counted)) {
        close_idle(downstream);
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    inbox_begin_body(&downstream->inbox, consumed, BODY_NONE, 0);
    inbox_end_head(&downstream->inbox);
    begin_first(downstream, now_us);
    if (inbox_head_bytes(&downstream->inbox).len == 0) {
        rest(downstream);
        if (downstream->worker->draining) {
            downstream_drain(downstream);
        }
    } else if (begin(downstream, now_us)) {
        parse(downstream, now_us);
    }
}

static void read_header(struct downstream *downstream)
{
    struct proxy_header header;
    size_t consumed;
    const enum stream_result result = inbox_read_head(&downstream->inbox);
    if (result == STREAM_EOF || result == STREAM_BROKEN) {
        close_idle(downstream);
        return;
    }
    switch (proxy_header_parse(inbox_head_bytes(&downstream->inbox), &header, &consumed)) {
    case PARSE_DONE:
        take_header(downstream, &header, consumed);
        return;
    case PARSE_PARTIAL:
        return;
    case PARSE_BAD:
        entrance_refuse(downstream->worker, downstream->stream.fd, &downstream->peer,
                        REFUSAL_HEADER, header.problem);
        close_idle(downstream);
        return;
    }
}

/* --- the loop --- */

/* Something comes that nobody waits for: the next request, which waits in
 * the kernel, or the end. */
static void look(struct downstream *downstream)
{
    switch (stream_peek(&downstream->stream)) {
    case STREAM_EOF:
        downstream->has_ended = true;
        stream_want_read(&downstream->stream, false);
        exchange_on_client_ended(downstream->exchange);
        return;
    case STREAM_DONE:
        stream_want_read(&downstream->stream, false);
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_BROKEN:
        downstream_close(downstream);
        return;
    }
}

static void on_readable(void *owner)
{
    struct downstream *downstream = owner;
    switch (downstream->phase) {
    case DOWNSTREAM_NEW:
        read_header(downstream);
        return;
    case DOWNSTREAM_IDLE:
        if (!list_is_empty(&downstream->next.node)) {
            stream_want_read(&downstream->stream, false); /* one after another */
            return;
        }
        read_head(downstream);
        return;
    case DOWNSTREAM_BUSY:
        if (downstream->exchange->state == EXCHANGE_READ_HEAD) {
            read_head(downstream);
        } else if (downstream->wants_body && exchange_takes_body(downstream->exchange)) {
            downstream_pump(&downstream->client);
        } else {
            look(downstream);
        }
        return;
    case DOWNSTREAM_ANSWERED:
        stream_want_read(&downstream->stream, false); /* one after another */
        return;
    case DOWNSTREAM_LINGER:
        downstream_discard(downstream);
        return;
    case DOWNSTREAM_CLOSED:
        return;
    }
}

static void on_drained(void *owner)
{
    struct downstream *downstream = owner;
    downstream_drop_out_block(downstream);
    if (stream_is_broken(&downstream->stream)) {
        downstream_close(downstream);
    } else if (downstream->phase == DOWNSTREAM_ANSWERED) {
        if (downstream->is_stalled) {
            downstream->is_stalled = false;
            arm_rest(downstream, clock_monotonic_us());
        }
        go_on(downstream);
    } else if (downstream->exchange != NULL) {
        exchange_on_client_drained(downstream->exchange);
    }
}

/* The last of an answer is not taken: no more than a block, behind what the kernel holds. It has
 * the time that body_rate gives in advance. */
static void stall(struct downstream *downstream)
{
    struct regime *regime = downstream->regime;
    const bool has_rate = regime->policy->timeouts.body_bytes_per_s > 0 &&
                          regime->head_timeouts.length_us < regime->idle_timeouts.length_us;
    if (!downstream->is_stalled) {
        downstream->is_stalled = true;
        timeout_arm(&downstream->timeout,
                    has_rate ? &regime->head_timeouts : &regime->idle_timeouts,
                    clock_monotonic_us());
    }
}

static void on_progress(void *owner)
{
    struct downstream *downstream = owner;
    if (downstream->phase == DOWNSTREAM_ANSWERED) {
        stall(downstream);
    } else if (downstream->exchange != NULL) {
        exchange_on_client_progress(downstream->exchange);
    }
}

static void on_ended(void *owner)
{
    struct downstream *downstream = owner;
    exchange_on_client_ended(downstream->exchange);
}

static const struct stream_handler HANDLER = {
    .on_readable = on_readable,
    .on_ended = on_ended,
    .on_progress = on_progress,
    .on_drained = on_drained,
};

static void hold(struct client *client, bool is_held)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    stream_watch_end(&downstream->stream, is_held);
}

static size_t await_room(struct client *client)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    return stream_await_room(&downstream->stream);
}

static uint64_t unread_bytes(struct client *client)
{
    const struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    return stream_unread_bytes(&downstream->stream);
}

static const struct client_ops OPS = {
    .send = downstream_send,
    .send_pipe = downstream_send_pipe,
    .send_interim = downstream_send_interim,
    .pump = downstream_pump,
    .hold = hold,
    .await_room = await_room,
    .unread_bytes = unread_bytes,
    .on_done = on_done,
};

void downstream_open(struct worker *worker, int fd, const struct address *peer, bool awaits_header,
                     bool is_counted)
{
    struct downstream *downstream = pool_take(&worker->downstreams);
    if (downstream == NULL) {
        entrance_refuse(worker, fd, peer, REFUSAL_MEMORY, NULL);
        entrance_leave(worker, is_counted ? peer : NULL);
        close(fd);
        return;
    }
    *downstream = (struct downstream){
        .client = {.ops = &OPS},
        .worker = worker,
        .peer = *peer,
        .is_counted = is_counted,
    };
    list_push_back(&worker->open, &downstream->node);
    eviction_candidate_init(&downstream->candidate, &worker->victims);
    timeout_init(&downstream->timeout, on_timeout);
    loop_task_init(&downstream->next, on_next);
    loop_task_init(&downstream->death, die);
    inbox_init(&downstream->inbox, &downstream->stream, NULL, &worker->body_blocks,
               &worker->small_blocks);
    downstream->inbox.pipes = &worker->pipes;
    if (stream_open(&downstream->stream, worker->loop, fd, &HANDLER, downstream) != STATUS_OK) {
        close_idle(downstream);
    } else if (awaits_header) {
        downstream->phase = DOWNSTREAM_NEW;
        downstream_enter_regime(downstream, worker->regime);
        timeout_arm(&downstream->timeout, &worker->first_timeouts, clock_monotonic_us());
    } else {
        begin_first(downstream, clock_monotonic_us());
        rest(downstream);
    }
    if (worker->draining && downstream->phase != DOWNSTREAM_CLOSED) {
        downstream_drain(downstream);
    }
}
