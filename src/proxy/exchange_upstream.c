/* From a server's connection to the last byte; exchange_connect.c has the way there.
 *
 * Happy path: the request's head goes out with the first piece of its body; pieces pass in both
 * directions, each side stopping while the other is blocked.
 *
 * Failures: a bad answer (502), a slow one (504); once the answer has begun, the client's
 * connection is cut so that it never looks complete. */

#include <assert.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/pipe.h"
#include "policy/cost.h"
#include "proxy/counting.h"
#include "proxy/edits.h"
#include "proxy/exchange.h"
#include "proxy/exchange_pipe.h"
#include "proxy/exchange_steps.h"
#include "proxy/forwarded.h"
#include "proxy/reply.h"
#include "proxy/trailers.h"
#include "proxy/worker.h"

/* --- the request goes out --- */

static void on_sent(struct exchange *exchange, enum stream_result result, uint64_t now_us)
{
    switch (result) {
    case STREAM_DONE:
        break;
    case STREAM_BLOCKED:
        exchange->is_request_blocked = true;
        break;
    case STREAM_EOF:
    case STREAM_BROKEN:
        /* The server may have answered before it closed: what can be read
         * tells. Nothing more is sent. */
        exchange->is_request_blocked = true;
        stream_want_read(&exchange->upstream->stream, true);
        break;
    }
    exchange_touch_at(exchange, now_us);
}

void exchange_forward(struct exchange *exchange, uint64_t now_us)
{
    struct upstream *upstream = exchange->upstream;
    struct text head;
    if (upstream_begin_head(upstream, &head) != STATUS_OK) {
        exchange_fail(exchange, 503, status_text(STATUS_NO_MEMORY));
        return;
    }
    forwarded_write_request(exchange, &head);
    if (head.truncated) {
        exchange_fail(exchange, 431, "the request's head is too large to be passed on");
        return;
    }
    upstream_end_head(upstream, &head, exchange->request.body == BODY_CHUNKED);
    exchange->is_request_sent = exchange->request.body == BODY_NONE;
    exchange->is_request_blocked = false;
    exchange_enter_state(exchange, EXCHANGE_FORWARD);
    counter_up(&counting_server(exchange->server)->requests);
    if (exchange->is_request_sent) {
        on_sent(exchange, upstream_post_head(upstream), now_us);
        return;
    }
    exchange_touch_at(exchange, now_us);
    exchange->client->ops->pump(exchange->client);
}

/* @n more bytes of the request's body have come. False: they are too many, and it is over. */
static bool count_body(struct exchange *exchange, size_t n)
{
    exchange->request_bytes += n;
    if (exchange->request_bytes > exchange->route->body_bytes_max) {
        exchange_fail(exchange, 413, "the request's body is too large");
        return false;
    }
    return true;
}

bool exchange_on_body(struct exchange *exchange, struct span piece, bool last)
{
    assert(!exchange->is_request_blocked);
    if (exchange->state == EXCHANGE_TUNNEL) {
        return tunnel_on_client_piece(exchange, piece, last);
    }
    assert(exchange->state == EXCHANGE_FORWARD);
    if (!count_body(exchange, piece.len)) {
        return false;
    }
    exchange->is_request_sent = last; /* first: from now on it is the upstream that is waited for */
    on_sent(exchange, upstream_send(exchange->upstream, piece, last), clock_monotonic_us());
    return !exchange->is_request_blocked && !last;
}

bool exchange_takes_pipe(const struct exchange *exchange, bool has_taken_one)
{
    return exchange->state == EXCHANGE_FORWARD && !upstream_owes_head(exchange->upstream) &&
           (has_taken_one || stream_keeps_up(&exchange->upstream->stream));
}

bool exchange_on_pipe(struct exchange *exchange, struct pipe *pipe)
{
    assert(!exchange->is_request_blocked && exchange->state == EXCHANGE_FORWARD);
    if (!count_body(exchange, pipe->n_bytes)) {
        return false;
    }
    on_sent(exchange, upstream_send_pipe(exchange->upstream, pipe), clock_monotonic_us());
    return !exchange->is_request_blocked;
}

bool exchange_on_body_blocked(struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_TUNNEL) {
        return true; /* nothing has moved */
    }
    if (upstream_owes_head(exchange->upstream)) {
        /* The server may want to see it before the client sends on: Expect: 100-continue. */
        on_sent(exchange, upstream_flush_head(exchange->upstream), clock_monotonic_us());
    }
    return !exchange->is_request_blocked;
}

void exchange_on_upstream_progress(struct exchange *exchange)
{
    exchange_touch(exchange);
}

void exchange_on_upstream_drained(struct exchange *exchange)
{
    const uint64_t now_us = clock_monotonic_us();
    exchange->is_request_blocked = false;
    exchange_touch_at(exchange, now_us);
    if (exchange_waits_for_body(exchange) &&
        !exchange_look_if_due(exchange, &exchange->request_pace, now_us)) {
        return;
    }
    if (!exchange->is_request_sent) {
        exchange->client->ops->pump(exchange->client);
    }
}

/* --- the answer comes --- */

void exchange_on_upstream_byte(struct exchange *exchange)
{
    /* The time for the head goes on: a server that sends it byte by byte has no more of it. */
    exchange->has_upstream_answered = true;
}

static void on_client_blocked(struct exchange *exchange)
{
    exchange->is_client_blocked = true;
    exchange_touch(exchange);
}

size_t exchange_await_room(struct exchange *exchange)
{
    const size_t room = exchange->client->ops->await_room(exchange->client);
    if (room == 0) {
        on_client_blocked(exchange);
    }
    return room;
}

bool exchange_on_upstream_interim(struct exchange *exchange)
{
    const struct head *interim = &exchange->response;
    if (++exchange->n_interims > INTERIMS_MAX) {
        exchange_fail(exchange, 502, "the upstream sent too many interim responses");
        return false;
    }
    exchange->may_go_ahead = exchange->may_go_ahead || interim->status == 100;
    exchange_touch(exchange);
    if (exchange->route->edits != NULL) {
        edits_hide(exchange);
    }
    const struct response response = {
        .status = interim->status,
        .fields = interim->fields,
        .n_fields = interim->n_fields,
        .body = BODY_NONE,
    };
    switch (exchange->client->ops->send_interim(exchange->client, &response)) {
    case STREAM_DONE:
        return true;
    case STREAM_BLOCKED:
        on_client_blocked(exchange);
        return false;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    exchange_on_client_gone(exchange);
    return false;
}

/* What became of a piece of the answer; @last ends it. False: blocked or over. */
static bool on_piece_sent(struct exchange *exchange, enum stream_result result, bool last)
{
    switch (result) {
    case STREAM_DONE:
        if (last) {
            exchange_complete(exchange);
            return false;
        }
        exchange_touch(exchange);
        return true;
    case STREAM_BLOCKED:
        exchange->is_last_blocked = last;
        on_client_blocked(exchange);
        return false;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    exchange_on_client_gone(exchange);
    return false;
}

/* Give the client the head, if it waits, and a piece. False: blocked or over. */
static bool send_piece(struct exchange *exchange, struct span piece, bool last)
{
    struct client *client = exchange->client;
    const struct response *head = exchange->is_head_pending ? &exchange->out : NULL;
    exchange->is_head_pending = false;
    exchange->is_response_started = true;
    exchange->response_bytes += piece.len;
    return on_piece_sent(exchange, client->ops->send(client, head, piece, last), last);
}

/* The head is gone when the exchange is settled. */
static void learn_cost(struct exchange *exchange)
{
    const struct cost_spec *cost = &exchange->route->cost;
    exchange->is_cost_told = cost->kind == COST_RESPONSE_HEADER &&
                             cost_of_response(cost, &exchange->response, &exchange->told_cost);
}

/* The field that tells the cost is not for the client where the policy says so. */
static void hide_cost(struct exchange *exchange)
{
    const struct cost_spec *cost = &exchange->route->cost;
    if (cost->kind != COST_RESPONSE_HEADER || !cost->strip) {
        return;
    }
    for (size_t i = 0; i < exchange->response.n_fields; i++) {
        struct field *field = &exchange->response.fields[i];
        if (span_equals_ignore_case(field->name, cost->field)) {
            field->hop_by_hop = true;
        }
    }
}

void exchange_begin_answer(struct exchange *exchange)
{
    const struct head *response = &exchange->response;
    learn_cost(exchange);
    hide_cost(exchange);
    exchange->upstream_us = clock_monotonic_us() - exchange->connect_started_us;
    latency_add(&counting_upstream(exchange)->response, exchange->upstream_us);
    exchange->out = (struct response){
        .status = response->status,
        .fields = response->fields,
        .n_fields = response->n_fields,
        .own_fields = exchange->own_fields,
        .body = response->body,
    };
    const struct field *date = head_find(response, FIELD_DATE);
    if (date == NULL || date->hop_by_hop) {
        reply_add_field(exchange, FIELD_DATE, field_name(FIELD_DATE),
                        worker_date(exchange->worker));
    }
    reply_add_ratelimit_fields(exchange);
    if (exchange->route->edits != NULL) {
        edits_hide(exchange);
        edits_add(exchange);
    }
}

/* Server-sent events, which come when they come. */
static bool is_event_stream(const struct head *response)
{
    if (response->body != BODY_CHUNKED && response->body != BODY_UNTIL_CLOSE) {
        return false;
    }
    const struct field *type = head_find_name(response, SPAN("content-type"));
    const size_t end = type == NULL ? 0 : span_find(type->value, ';');
    return type != NULL && span_equals_ignore_case(span_trim(span_of(type->value.data, end)),
                                                   SPAN("text/event-stream"));
}

/* The client takes trailers: keep those that come. Without memory they are dropped. */
static void keep_trailers(struct exchange *exchange)
{
    if (exchange->response.body != BODY_CHUNKED || !trailers_are_wanted(&exchange->request) ||
        !trailers_keep_connection(&exchange->response, &exchange->arena)) {
        return;
    }
    exchange->trailers = arena_alloc(&exchange->arena, TRAILER_BYTES_MAX);
    upstream_keep_trailers(exchange->upstream, exchange->trailers);
}

bool exchange_on_upstream_head(struct exchange *exchange)
{
    exchange_begin_answer(exchange);
    keep_trailers(exchange);
    exchange->is_event_stream = is_event_stream(&exchange->response);
    exchange->is_head_pending = true;
    if (exchange->response.body == BODY_NONE) {
        return send_piece(exchange, span_of(NULL, 0), true);
    }
    return true;
}

void exchange_flush_response_head(struct exchange *exchange)
{
    if (exchange->is_head_pending) {
        (void)send_piece(exchange, span_of(NULL, 0), false);
    }
}

bool exchange_on_upstream_body(struct exchange *exchange, struct span piece, bool last)
{
    if (exchange->state == EXCHANGE_TUNNEL) {
        return tunnel_on_upstream_piece(exchange, piece, last);
    }
    if (last && exchange->trailers != NULL) {
        exchange->out.trailers =
            trailers_keep(exchange->trailers, upstream_trailer_bytes(exchange->upstream),
                          &exchange->response, exchange->route);
    }
    return send_piece(exchange, piece, last);
}

bool exchange_on_upstream_pipe(struct exchange *exchange, struct pipe *pipe)
{
    struct client *client = exchange->client;
    assert(exchange->is_response_started && !exchange->is_head_pending);
    exchange->response_bytes += pipe->n_bytes;
    return on_piece_sent(exchange, client->ops->send_pipe(client, pipe), false);
}

void exchange_on_client_progress(struct exchange *exchange)
{
    exchange_touch(exchange);
}

void exchange_on_client_drained(struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_REPLY || exchange->is_last_blocked) {
        exchange->is_client_blocked = false;
        exchange_complete(exchange);
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    if (!exchange_look_if_due(exchange, &exchange->response_pace, now_us)) {
        return;
    }
    exchange->is_client_blocked = false;
    exchange_touch_at(exchange, now_us);
    upstream_pump(exchange->upstream);
}

/* --- the upstream fails --- */

void exchange_on_upstream_bad(struct exchange *exchange, const char *reason)
{
    log_debug("proxy.upstream", "bad response", "server=%.*s reason=\"%s\"",
              SPAN_ARGS(exchange->server->endpoint->text), reason);
    if (!exchange->is_response_started) {
        exchange->is_answer_unreadable = true;
    }
    /* How long the head is may depend on the request, which says nothing about the server. */
    exchange_note_outcome(exchange, exchange->response.error.status == 431 ? OUTCOME_INCONCLUSIVE
                                                                           : OUTCOME_INVALID);
    exchange_fail(exchange, 502, "the upstream's answer is not valid HTTP");
}
