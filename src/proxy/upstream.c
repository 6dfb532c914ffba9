/* Happy path: an idle connection is taken off its list, the request's head and first piece of body
 * go out in one write; the response's head and first piece come with one read and are handed on in
 * one call; the connection goes back to the front of its list.
 *
 * Failures: connect refused or timed out (the exchange tries another server), the peer closed
 * before a response byte (the exchange may try once more), the head or the body breaks the rules,
 * the connection is cut in mid body (the exchange cuts the client). Anything that comes on an
 * idle connection closes it. */

#include "proxy/upstream.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "proxy/counting.h"
#include "proxy/exchange.h"
#include "proxy/exchange_pipe.h"
#include "proxy/framing.h"
#include "proxy/upstream_group.h"
#include "proxy/upstream_life.h"
#include "proxy/upstream_name.h"
#include "proxy/upstream_process.h"
#include "proxy/worker.h"

static struct worker *worker_of(const struct upstream *upstream)
{
    return upstream->server->group->worker;
}

static void die(struct loop_task *task)
{
    free(CONTAINER_OF(task, struct upstream, death));
}

static void drop_out_block(struct upstream *upstream)
{
    pool_give(upstream->out_pool, upstream->out_block);
    upstream->out_block = NULL;
    upstream->out_head = span_of(NULL, 0);
}

/* The connection carries no exchange from now on. */
static void leave_exchange(struct upstream *upstream)
{
    if (upstream->exchange != NULL && upstream->server->group->counts_requests) {
        atomic_fetch_sub_explicit(&upstream->server->process->n_requests, 1, memory_order_relaxed);
    }
    upstream->exchange = NULL;
}

void upstream_close(struct upstream *upstream)
{
    assert(upstream->phase != UPSTREAM_CLOSED);
    leave_exchange(upstream);
    upstream_leave_idle(upstream);
    upstream->phase = UPSTREAM_CLOSED;
    upstream->server->n_connections--;
    counter_down(&counting_server(upstream->server)->connections);
    stream_close(&upstream->stream);
    inbox_close(&upstream->inbox);
    drop_out_block(upstream);
    loop_at_turn_end(worker_of(upstream)->loop, &upstream->death);
    if (upstream->has_place) {
        upstream_give_place(upstream->server);
    }
}

static void on_idle_timeout(struct timeout *timeout)
{
    upstream_close(CONTAINER_OF(timeout, struct upstream, timeout));
}

/* --- the response --- */

/* More of the body is to be read, if the client takes it: what is read and not taken stays with us
 * for as long as the client likes. Who keeps up gets a large block, or a pipe; who does not a small
 * one, and that only when there is room for it, so that as a rule it holds none. Not asked again in
 * this turn before it has got *@room bytes, or where it has just taken a whole pipe. False: it is
 * blocked. */
static bool prepare_read(struct upstream *upstream, size_t *room)
{
    struct inbox *inbox = &upstream->inbox;
    if (*room == 0 && !upstream->exchange->is_head_pending && inbox_wants_large_block(inbox)) {
        const bool has_taken_pipe = inbox->pipe != NULL && inbox_wants_pipe(inbox);
        inbox_release_head(inbox);
        *room = has_taken_pipe ? IO_BLOCK_BYTES : exchange_await_room(upstream->exchange);
        if (*room == 0) {
            inbox_end_turn(inbox);
            return false;
        }
        inbox->is_small = *room < IO_BLOCK_BYTES;
        inbox->takes_pipe = !inbox->is_small;
    }
    inbox->read_max = *room > 0 ? *room : IO_BLOCK_BYTES;
    return true;
}

static void pump_body(struct upstream *upstream)
{
    struct exchange *exchange = upstream->exchange;
    size_t room = 0; /* that the client is known to have */
    for (unsigned i = 0; i < PUMP_READS_MAX; i++) {
        struct span piece = span_of(NULL, 0);
        bool last;
        if (!prepare_read(upstream, &room)) {
            return;
        }
        switch (inbox_next(&upstream->inbox, &piece, &last)) {
        case INBOX_PIECE:
            if (!exchange_on_upstream_body(exchange, piece, last)) {
                return; /* blocked, or over: the connection may be somebody else's by now */
            }
            room = piece.len + SMALL_BLOCK_BYTES <= room ? room - piece.len : 0;
            break;
        case INBOX_PIPED:
            if (!exchange_on_upstream_pipe(exchange, upstream->inbox.pipe)) {
                return;
            }
            room = 0;
            i += PIPE_READS - 1;
            break;
        case INBOX_END:
            (void)exchange_on_upstream_body(exchange, span_of(NULL, 0), true);
            return;
        case INBOX_BLOCKED:
            stream_want_read(&upstream->stream, true);
            exchange_flush_response_head(exchange); /* perhaps a chunk line came with it, no more */
            return;
        case INBOX_CUT:
            exchange_on_upstream_lost(exchange);
            return;
        case INBOX_BAD:
            exchange_on_upstream_bad(exchange, upstream->inbox.error.reason);
            return;
        }
    }
    /* The loop comes back for what is in the socket; what is in the block has been given out. */
    inbox_end_turn(&upstream->inbox);
    stream_want_read(&upstream->stream, true);
}

/* What follows the 101 is no HTTP any more. */
static void hand_over_switch(struct upstream *upstream, size_t consumed)
{
    upstream->phase = UPSTREAM_STREAMING;
    upstream->is_chunked = false;
    inbox_begin_body(&upstream->inbox, consumed, BODY_UNTIL_CLOSE, 0);
    if (exchange_on_upstream_switch(upstream->exchange)) {
        inbox_end_head(&upstream->inbox);
        pump_body(upstream);
    }
}

/* One head is complete: hand it on, and what came with it. False: the connection may be gone. */
static bool hand_over_head(struct upstream *upstream, size_t consumed)
{
    struct exchange *exchange = upstream->exchange;
    const struct head *response = &exchange->response;
    head_parser_reset(&upstream->parser);
    if (response->status == 101) {
        hand_over_switch(upstream, consumed);
        return false;
    }
    if (response->status < 200) {
        inbox_begin_body(&upstream->inbox, consumed, BODY_NONE, 0);
        if (!exchange_on_upstream_interim(exchange)) {
            return false;
        }
        inbox_end_head(&upstream->inbox);
        return true;
    }
    upstream->phase = UPSTREAM_STREAMING;
    inbox_begin_body(&upstream->inbox, consumed, response->body, response->content_length);
    if (!exchange_on_upstream_head(exchange)) {
        return false;
    }
    if (inbox_has_bytes(&upstream->inbox)) {
        pump_body(upstream);
    } else {
        exchange_flush_response_head(exchange);
    }
    return false;
}

/* Parse what is there; several interim responses may come before the final one. */
static void parse_heads(struct upstream *upstream)
{
    struct exchange *exchange = upstream->exchange;
    for (;;) {
        size_t consumed;
        const struct span bytes = inbox_head_bytes(&upstream->inbox);
        if (bytes.len == 0) {
            return;
        }
        switch (head_parse_response(&upstream->parser, bytes, exchange_is_head_request(exchange),
                                    &exchange->response, &consumed)) {
        case PARSE_DONE:
            if (!hand_over_head(upstream, consumed)) {
                return;
            }
            break;
        case PARSE_PARTIAL:
            return;
        case PARSE_BAD:
            exchange_on_upstream_bad(exchange, exchange->response.error.reason);
            return;
        }
    }
}

void upstream_pump(struct upstream *upstream)
{
    if (upstream->phase == UPSTREAM_STREAMING) {
        inbox_end_turn(&upstream->inbox); /* that was blocked */
        pump_body(upstream);
    } else {
        inbox_end_head(&upstream->inbox); /* it was an interim response that blocked */
        stream_want_read(&upstream->stream, true);
        parse_heads(upstream);
    }
}

static void read_head(struct upstream *upstream)
{
    switch (inbox_read_head(&upstream->inbox)) {
    case STREAM_DONE:
        exchange_on_upstream_byte(upstream->exchange);
        parse_heads(upstream);
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        exchange_on_upstream_lost(upstream->exchange);
        return;
    }
}

/* A request has come that is not written yet, and what there is to read, if anything is, was there
 * before it: an end, or bytes that answer nothing. */
static void meet_idle(struct upstream *upstream)
{
    if (stream_peek(&upstream->stream) != STREAM_BLOCKED) {
        exchange_on_upstream_lost(upstream->exchange);
    }
}

static void on_readable(void *owner)
{
    struct upstream *upstream = owner;
    if (upstream->exchange != NULL && exchange_is_client_blocked(upstream->exchange)) {
        stream_want_read(&upstream->stream, false);
        return;
    }
    switch (upstream->phase) {
    case UPSTREAM_IDLE:
        upstream_close(upstream); /* an end, or bytes that answer nothing (RFC 9112 section 9.2) */
        return;
    case UPSTREAM_AWAITING:
        if (upstream->is_reused && stream_is_unoffered(&upstream->stream)) {
            meet_idle(upstream);
        } else {
            read_head(upstream);
        }
        return;
    case UPSTREAM_STREAMING:
        pump_body(upstream);
        return;
    case UPSTREAM_CONNECTING:
    case UPSTREAM_CLOSED:
        return;
    }
}

/* --- the request --- */

static void on_drained(void *owner)
{
    struct upstream *upstream = owner;
    if (upstream->phase == UPSTREAM_CONNECTING) {
        const enum status status = stream_connect_status(&upstream->stream);
        if (status == STATUS_OK) {
            upstream->phase = UPSTREAM_AWAITING;
        }
        exchange_on_upstream_connected(upstream->exchange, status);
        return;
    }
    drop_out_block(upstream);
    if (upstream->exchange != NULL) {
        exchange_on_upstream_drained(upstream->exchange);
    }
}

static void on_progress(void *owner)
{
    struct upstream *upstream = owner;
    if (upstream->exchange != NULL) {
        exchange_on_upstream_progress(upstream->exchange);
    }
}

const struct stream_handler UPSTREAM_HANDLER = {
    .on_readable = on_readable,
    .on_progress = on_progress,
    .on_drained = on_drained,
};

/* --- life --- */

void upstream_prepare(struct upstream *upstream, struct upstream_server *server)
{
    struct worker *worker = server->group->worker;
    upstream->server = server;
    upstream->has_place = server->group->is_limited;
    list_init(&upstream->node);
    timeout_init(&upstream->timeout, on_idle_timeout);
    loop_task_init(&upstream->death, die);
    inbox_init(&upstream->inbox, &upstream->stream, NULL, &worker->body_blocks,
               &worker->small_blocks);
    upstream->inbox.pipes = &worker->pipes;
    upstream->inbox.looks_beyond = true;
}

void upstream_begin_exchange(struct upstream *upstream, struct exchange *exchange)
{
    struct regime *regime = exchange->regime;
    upstream->exchange = exchange;
    upstream->out_pool = &regime->stock->head_blocks;
    upstream->inbox.head_pool = &regime->stock->answer_blocks;
    if (upstream->server->group->counts_requests) {
        atomic_fetch_add_explicit(&upstream->server->process->n_requests, 1, memory_order_relaxed);
    }
    upstream->parser = (struct head_parser){
        .fields = exchange->fields + exchange->request.n_fields,
        .n_fields_max = exchange->n_fields_max,
        .head_bytes_max = regime->policy->max.head_bytes,
    };
}

enum status upstream_begin_head(struct upstream *upstream, struct text *text)
{
    assert(upstream->out_block == NULL);
    upstream->out_block = pool_take(upstream->out_pool);
    if (upstream->out_block == NULL) {
        return STATUS_NO_MEMORY;
    }
    *text = text_of(upstream->out_block, upstream->out_pool->block_bytes);
    return STATUS_OK;
}

void upstream_end_head(struct upstream *upstream, const struct text *text, bool body_is_chunked)
{
    upstream->out_head = text_span(text);
    upstream->is_chunked = body_is_chunked;
}

/* The head is kept while it is being written. */
static enum stream_result after_write(struct upstream *upstream, enum stream_result result)
{
    if (result != STREAM_BLOCKED) {
        drop_out_block(upstream);
    }
    return result;
}

enum stream_result upstream_send(struct upstream *upstream, struct span piece, bool last)
{
    struct iovec slices[STREAM_SLICES_MAX];
    int n = 0;
    if (upstream->out_head.len > 0) {
        slices[n++] = framing_slice(upstream->out_head);
        upstream->out_head.len = 0;
    }
    n = framing_add_piece(slices, n, upstream->is_chunked ? upstream->chunk_head : NULL, piece,
                          last);
    return n == 0 ? STREAM_DONE : after_write(upstream, stream_write(&upstream->stream, slices, n));
}

enum stream_result upstream_post_head(struct upstream *upstream)
{
    const struct iovec head = framing_slice(upstream->out_head);
    upstream->out_head.len = 0;
    return after_write(upstream,
                       outbox_write(&worker_of(upstream)->outbox, &upstream->stream, &head, 1));
}

enum stream_result upstream_send_pipe(struct upstream *upstream, struct pipe *pipe)
{
    assert(!upstream_owes_head(upstream) && !upstream->is_chunked);
    return stream_write_pipe(&upstream->stream, pipe);
}

enum stream_result upstream_flush_head(struct upstream *upstream)
{
    return upstream_send(upstream, span_of(NULL, 0), false);
}

void upstream_keep_trailers(struct upstream *upstream, char *memory)
{
    upstream->inbox.decoder.trailers = memory;
}

size_t upstream_trailer_bytes(const struct upstream *upstream)
{
    return upstream->inbox.decoder.trailer_bytes;
}

void upstream_end_tunnel(struct upstream *upstream)
{
    stream_shutdown(&upstream->stream);
}

void upstream_has_ended(struct upstream *upstream)
{
    stream_want_read(&upstream->stream, false);
}

/* --- the end --- */

/* True if the answer, to a HEAD, announced a body. A server that sends the body in spite of the
 * rules may send it late, when the connection carries another request, which it would answer. */
static bool may_bring_late_body(const struct upstream *upstream)
{
    const struct exchange *exchange = upstream->exchange;
    const struct head *response = &exchange->response;
    return response->body == BODY_NONE &&
           (response->content_length > 0 || head_has(response, FIELD_TRANSFER_ENCODING)) &&
           exchange_is_head_request(exchange) && !exchange->route->upstream->reuse_after_head;
}

void upstream_release(struct upstream *upstream, uint64_t now_us)
{
    const struct head *response = &upstream->exchange->response;
    const bool is_clean = upstream->phase == UPSTREAM_STREAMING && response->keep_alive &&
                          upstream->inbox.ended && !inbox_has_bytes(&upstream->inbox) &&
                          !may_bring_late_body(upstream) && !stream_is_blocked(&upstream->stream) &&
                          !stream_is_broken(&upstream->stream);
    if (!is_clean || worker_of(upstream)->draining || upstream->server->group->is_retired ||
        !upstream_name_is_current(upstream)) {
        upstream_close(upstream);
        return;
    }
    leave_exchange(upstream);
    inbox_end_message(&upstream->inbox);
    stream_want_read(&upstream->stream, true);
    upstream_enter_idle(upstream, now_us);
}
