/* Forwards the request and the answer on a connection that exchange_connect.c has obtained.
 *
 * Happy path: the request's head goes out with the first piece of its body; pieces pass in both
 * directions, and each side stops while the other is blocked.
 *
 * Failures: a bad answer (502), a slow one (504); once the answer has begun, the client's
 * connection is cut so that the answer never looks complete. */

#include <assert.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/grpc.h"
#include "net/pipe.h"
#include "policy/cost.h"
#include "proxy/client_address.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_buffer.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/hop_by_hop.h"
#include "proxy/exchange/made_head.h"
#include "proxy/exchange/reply.h"
#include "proxy/settlement.h"

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
        /* The server may have answered before it closed: read what it sent, and send no more. */
        exchange->is_request_blocked = true;
        upstream_read_rest(exchange->upstream);
        break;
    }
    exchange_touch_at(exchange, now_us);
}

void exchange_forward(struct exchange *exchange, uint64_t now_us)
{
    struct upstream *upstream = exchange->upstream;
    struct text head;
    if (!sender_begin_head(&upstream->out, &exchange->config->pools->head_blocks, &head)) {
        exchange_fail(exchange, 503, status_text(STATUS_NO_MEMORY));
        return;
    }
    forwarded_write_request(exchange, &head);
    upstream->is_for_upgrade = exchange->is_upgrade_offered;
    if (head.truncated) {
        exchange_fail(exchange, 431, "the request's head is too large to be passed on");
        return;
    }
    upstream_end_head(upstream, &head, exchange->request.body == BODY_CHUNKED);
    exchange->is_request_sent = exchange->request.body == BODY_NONE;
    exchange->is_request_blocked = false;
    exchange->is_server_http2 = upstream->stream_ops != NULL;
    exchange_enter_state(exchange, EXCHANGE_FORWARD);
    counter_up(&upstream_server_meters(exchange->server)->requests);
    if (exchange->is_request_sent) {
        on_sent(exchange, upstream_post_head(upstream), now_us);
        return;
    }
    if (!exchange->is_repeated) {
        exchange->request_min_rate.seen_bytes = exchange->request_bytes; /* these earn no time */
    }
    exchange_touch_at(exchange, now_us);
    if (exchange->buffer != NULL) {
        exchange_begin_buffered(exchange);
    } else {
        exchange->client->ops->pump(exchange->client);
    }
}

/* Count @n more bytes of the request's body. False: the body is too large, the exchange is over. */
static bool count_body(struct exchange *exchange, size_t n)
{
    exchange->request_bytes += n;
    if (exchange->request_bytes > exchange->evaluation.route->body_bytes_max) {
        exchange_fail(exchange, 413, "the request's body is too large");
        return false;
    }
    return true;
}

bool exchange_send_pieces(struct exchange *exchange, const struct span *pieces, int n_pieces,
                          bool last)
{
    exchange->is_request_sent = last; /* first: from now on the exchange waits for the upstream */
    on_sent(exchange, upstream_send(exchange->upstream, pieces, n_pieces, last),
            clock_monotonic_us());
    return !exchange->is_request_blocked && !last;
}

bool exchange_on_body(struct exchange *exchange, struct span piece, bool last)
{
    assert(!exchange->is_request_blocked);
    exchange_note_piece(exchange, last);
    if (exchange->state == EXCHANGE_TUNNEL) {
        return tunnel_on_client_piece(exchange, piece, last);
    }
    if (!count_body(exchange, piece.len)) {
        return false;
    }
    if (exchange->state == EXCHANGE_BUFFER) {
        return exchange_buffer_piece(exchange, piece, last);
    }
    assert(exchange->state == EXCHANGE_FORWARD);
    if (UNLIKELY(exchange->is_server_http2)) {
        exchange_keep_piece(exchange, piece, last);
    }
    return exchange_send_pieces(exchange, &piece, 1, last);
}

void exchange_on_trailers(struct exchange *exchange, const struct field *trailers, size_t n)
{
    const struct route *route = exchange->evaluation.route;
    const struct head *request = &exchange->request;
    struct arena *arena = &exchange->arena;
    if (!trailers_of_request_pass(request, route)) {
        return;
    }
    const struct read_fields *read = &exchange->config->policy->read_fields;
    struct field *kept = arena_alloc(arena, (n + 1) * sizeof(*kept));
    size_t n_kept = 0;
    for (size_t i = 0; kept != NULL && i < n; i++) {
        const struct field *field = &trailers[i];
        const bool is_decodable = !grpc_is_binary(field->name) || grpc_is_base64(field->value);
        if (is_decodable && trailer_of_request_passes(field, request, read, route)) {
            const struct field copy = {.name = arena_copy(arena, field->name),
                                       .value = arena_copy(arena, field->value)};
            if (copy.name.data == NULL || copy.value.data == NULL) {
                return;
            }
            kept[n_kept++] = copy;
        }
    }
    exchange->upstream_user.trailers = kept;
    exchange->upstream_user.n_trailers = n_kept;
}

bool exchange_takes_pipe(const struct exchange *exchange, bool has_taken_one)
{
    return exchange->state == EXCHANGE_FORWARD && !upstream_owes_head(exchange->upstream) &&
           upstream_takes_pipe(exchange->upstream, !has_taken_one);
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
    if (exchange->state == EXCHANGE_BUFFER) {
        return exchange_buffer_blocked(exchange);
    }
    if (upstream_owes_head(exchange->upstream)) {
        /* The client may wait for the server's reaction to the head: Expect: 100-continue. */
        on_sent(exchange, upstream_send(exchange->upstream, NULL, 0, false), clock_monotonic_us());
    }
    return !exchange->is_request_blocked;
}

static void on_progress(struct upstream_user *user)
{
    exchange_touch(exchange_of(user));
}

static void on_drained(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    if (!exchange->is_request_blocked) {
        return; /* a posted head: nothing waits for it */
    }
    const uint64_t now_us = clock_monotonic_us();
    exchange->is_request_blocked = false;
    exchange_touch_at(exchange, now_us);
    if (exchange_waits_for_body(exchange) &&
        !exchange_check_client_if_due(exchange, &exchange->request_min_rate, now_us)) {
        return;
    }
    if (exchange->buffer != NULL) {
        exchange_send_buffered(exchange);
    } else if (!exchange->is_request_sent) {
        exchange->client->ops->pump(exchange->client);
    }
}

/* --- the answer comes --- */

static void on_byte(struct upstream_user *user)
{
    /* The timeout is not restarted: sending the head byte by byte gains the server no time. */
    exchange_of(user)->has_upstream_answered = true;
}

static void on_begun(struct upstream_user *user)
{
    exchange_forget_body(exchange_of(user));
}

static void on_client_blocked(struct exchange *exchange)
{
    exchange->is_client_blocked = true;
    exchange->may_hold_server = exchange->state == EXCHANGE_FORWARD &&
                                exchange->evaluation.route->min_download_bytes_per_s > 0;
    exchange_touch(exchange);
}

bool exchange_has_sent(struct exchange *exchange, enum stream_result result)
{
    if (result == STREAM_DONE) {
        return true;
    }
    if (result == STREAM_BLOCKED) {
        on_client_blocked(exchange);
    } else {
        exchange_on_client_gone(exchange);
    }
    return false;
}

static size_t await_room(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    const size_t room = exchange->client->ops->await_room(exchange->client);
    if (room == 0) {
        on_client_blocked(exchange);
    }
    return room;
}

/* Hide the field that reports the cost from the client, if the policy says so. */
static void strip_cost(struct exchange *exchange)
{
    const struct cost_spec *cost = &exchange->evaluation.route->cost;
    for (size_t i = 0; cost->strip && i < exchange->response.n_fields; i++) {
        struct field *field = &exchange->response.fields[i];
        if (span_equals_ignore_case(field->name, cost->field)) {
            field->hop_by_hop = true;
        }
    }
}

static bool on_interim(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    const struct head *interim = &exchange->response;
    if (++exchange->n_interims > INTERIMS_MAX) {
        exchange->upstream->is_refused = true;
        exchange_fail(exchange, 502, "the upstream sent too many interim responses");
        return false;
    }
    exchange->may_go_ahead = exchange->may_go_ahead || interim->status == 100;
    exchange_touch(exchange);
    if (exchange->evaluation.route->edits != NULL) {
        edits_redact(exchange);
    }
    strip_cost(exchange);
    const struct response response = {
        .status = interim->status,
        .fields = interim->fields,
        .n_fields = interim->n_fields,
        .body = BODY_NONE,
    };
    return exchange_has_sent(exchange,
                             exchange->client->ops->send_interim(exchange->client, &response));
}

/* Handle the result of sending a piece of the answer; @last ends it. False: blocked or over. */
static bool on_piece_sent(struct exchange *exchange, enum stream_result result, bool last,
                          uint64_t now_us)
{
    exchange->is_last_blocked = last;
    if (!exchange_has_sent(exchange, result)) {
        return false;
    }
    if (last) {
        exchange_complete(exchange, now_us);
    } else {
        exchange_touch_at(exchange, now_us);
    }
    return !last;
}

/* Send the client the head, if it is pending, and a piece. False: blocked or over. */
static bool send_piece(struct exchange *exchange, struct span piece, bool last)
{
    struct client *client = exchange->client;
    const struct response *head = exchange->is_head_pending ? &exchange->out : NULL;
    /* A pending head came in the same callback, in which the clock was read. */
    const uint64_t now_us =
        head != NULL ? exchange->connect_started_us + exchange->upstream_us : clock_monotonic_us();
    exchange->is_head_pending = false;
    exchange->is_response_started = true;
    exchange->response_bytes += piece.len;
    return on_piece_sent(exchange, client->ops->send(client, head, piece, last), last, now_us);
}

/* Read the cost that the answer reports, now: its head is no longer there when the exchange is
 * settled. What is more than the estimate counts from now on, since a client could keep its answers
 * open. */
static void take_cost(struct exchange *exchange)
{
    const struct cost_spec *cost = &exchange->evaluation.route->cost;
    if (cost->kind != COST_RESPONSE_HEADER) {
        return;
    }
    const bool is_cut = exchange_is_request_cut(exchange);
    const bool is_conditional = answer_meets_condition(
        exchange->response.status, &exchange->request, exchange->evaluation.route);
    exchange->is_cost_reported = cost_of_response(cost, &exchange->response, is_cut, is_conditional,
                                                  &exchange->reported_cost);
    if (exchange->is_cost_reported) {
        const unsigned grpc_status = exchange->is_grpc_head_error ? exchange->grpc_status : 0;
        const struct outcome whole = {
            .status = grpc_answer_status(exchange->response.status, grpc_status),
            .http_status = exchange_http_status_in_doubt(exchange),
            .end = ANSWER_WHOLE,
            .is_doubtful =
                answer_is_doubtful(exchange->response.status, grpc_status, is_cut, is_conditional),
            .is_cost_reported = true,
            .reported_cost = exchange->reported_cost,
        };
        settlement_raise(&exchange->admission, &whole, exchange->config->store);
    }
    strip_cost(exchange);
}

void exchange_begin_answer(struct exchange *exchange)
{
    const struct head *response = &exchange->response;
    exchange->has_server_head = true;
    exchange->upstream_us = clock_monotonic_us() - exchange->connect_started_us;
    take_cost(exchange); /* after that time, from which on a refund looks for it */
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
        reply_add_date(exchange);
    }
    reply_add_ratelimit_fields(exchange);
    if (exchange->evaluation.route->cors != NULL) {
        cors_add_exposed(exchange);
    }
    if (exchange->evaluation.route->edits != NULL) {
        edits_redact(exchange);
        edits_add(exchange);
    }
}

bool exchange_is_event_stream(const struct head *response)
{
    if (response->body != BODY_CHUNKED && response->body != BODY_UNTIL_CLOSE) {
        return false;
    }
    const struct field *type = head_find_name(response, SPAN("content-type"));
    const size_t end = type == NULL ? 0 : span_find(type->value, ';');
    return type != NULL && span_equals_ignore_case(span_trim(span_of(type->value.data, end)),
                                                   SPAN("text/event-stream"));
}

bool exchange_may_make_head(const struct exchange *exchange)
{
    return exchange->evaluation.route->upstream->hold_slots &&
           span_equals(exchange->request.method, SPAN("POST"));
}

/* An answer may be one of gRPC, by any version of HTTP: its status counts as that of HTTP does, and
 * is in its head or its trailers. */
static void begin_grpc_answer(struct exchange *exchange)
{
    exchange->grpc_status = (uint8_t)grpc_begun_status(&exchange->response);
    exchange->is_grpc_head_error = exchange->grpc_status != 0 && exchange->grpc_status != GRPC_NONE;
}

/* Keep the trailers of the answer if the client takes them, or they tell how a call of gRPC ended.
 * Without memory they are dropped. */
static void keep_trailers(struct exchange *exchange)
{
    if (exchange->response.body != BODY_CHUNKED ||
        !(exchange->grpc_status == GRPC_NONE || trailers_are_wanted(&exchange->request)) ||
        !trailers_keep_connection(&exchange->response, &exchange->arena)) {
        return;
    }
    exchange->trailers = arena_alloc(&exchange->arena, TRAILER_BYTES_MAX);
    upstream_keep_trailers(exchange->upstream, exchange->trailers);
}

/* The head or the trailers of an answer to a call have come: with a grpc-status its server is one
 * of gRPC. A type alone may be the client's own, that a server gives back. */
static void note_grpc(struct exchange *exchange, const struct field *fields, size_t n)
{
    atomic_bool *speaks_grpc = &exchange->server->group->process->speaks_grpc;
    if (exchange->is_call_answered && !atomic_load_explicit(speaks_grpc, memory_order_relaxed) &&
        grpc_find_status(fields, n) != GRPC_NONE) {
        atomic_store_explicit(speaks_grpc, true, memory_order_relaxed);
    }
}

/* Whether what is charged may depend on the status of the answer. */
static bool status_counts(const struct exchange *exchange)
{
    return exchange->config->policy->has_bans ||
           settlement_is_needed(&exchange->admission, false) ||
           exchange->evaluation.route->cost.kind == COST_RESPONSE_HEADER;
}

static bool on_head(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    if (exchange->is_server_http2 || exchange->is_call || status_counts(exchange)) {
        begin_grpc_answer(exchange); /* first: whether its cost counts may depend on its status */
    }
    exchange_begin_answer(exchange);
    keep_trailers(exchange);
    exchange->is_event_stream = exchange_is_event_stream(&exchange->response);
    exchange->made_head =
        (uint8_t)(exchange_may_make_head(exchange) ? made_head_of(&exchange->response)
                                                   : MADE_HEAD_NONE);
    if (UNLIKELY(exchange->is_call)) {
        exchange->is_call_answered =
            exchange_is_call(exchange) && grpc_is_call(&exchange->response);
        note_grpc(exchange, exchange->response.fields, exchange->response.n_fields);
    }
    exchange->is_head_pending = true;
    if (exchange->response.body == BODY_NONE) {
        return send_piece(exchange, span_of(NULL, 0), true);
    }
    return true;
}

static void on_head_alone(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    if (exchange->is_head_pending) {
        (void)send_piece(exchange, span_of(NULL, 0), false);
    }
}

static void pass_trailers(struct exchange *exchange)
{
    const size_t n_bytes = upstream_trailer_bytes(exchange->upstream);
    if (exchange->grpc_status == GRPC_NONE) {
        size_t n = 0;
        const struct field *fields =
            trailers_read(span_of(exchange->trailers, n_bytes), &exchange->arena, &n);
        exchange->grpc_status = (uint8_t)grpc_find_status(fields, n);
        note_grpc(exchange, fields, n);
        if (!trailers_are_wanted(&exchange->request)) {
            return;
        }
    }
    exchange->out.trailers =
        trailers_keep(exchange->trailers, n_bytes, &exchange->response, exchange->evaluation.route);
}

static bool on_body(struct upstream_user *user, struct span piece, bool last)
{
    struct exchange *exchange = exchange_of(user);
    exchange_note_piece(exchange, last);
    if (exchange->state == EXCHANGE_TUNNEL) {
        return tunnel_on_upstream_piece(exchange, piece, last);
    }
    if (last && exchange->trailers != NULL) {
        pass_trailers(exchange);
    }
    return send_piece(exchange, piece, last);
}

static bool on_pipe(struct upstream_user *user, struct pipe *pipe)
{
    struct exchange *exchange = exchange_of(user);
    struct client *client = exchange->client;
    assert(exchange->is_response_started && !exchange->is_head_pending);
    exchange_note_piece(exchange, false);
    exchange->response_bytes += pipe->n_bytes;
    return on_piece_sent(exchange, client->ops->send_pipe(client, pipe), false,
                         clock_monotonic_us());
}

void exchange_on_client_progress(struct exchange *exchange)
{
    exchange_touch(exchange);
}

void exchange_on_client_drained(struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_REPLY || exchange->is_last_blocked) {
        exchange->is_client_blocked = false;
        exchange_complete(exchange, clock_monotonic_us());
        return;
    }
    if (exchange->state != EXCHANGE_FORWARD && exchange->state != EXCHANGE_TUNNEL) {
        exchange->is_client_blocked = false; /* it has taken our 100 */
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    if (!exchange_check_client_if_due(exchange, &exchange->response_min_rate, now_us)) {
        return;
    }
    exchange->is_client_blocked = false;
    exchange_touch_at(exchange, now_us);
    upstream_pump(exchange->upstream);
}

/* --- the upstream fails --- */

static const char TOO_LONG_HEAD[] = "the upstream's response head is longer than its max_head";
static const char TOO_MANY_FIELDS[] =
    "the upstream's response head has more fields than its max_headers";

static const char BAD_VALUE[] =
    "the upstream's response head has a control byte in the value of a field";

/* What a response says about its server whose head is not passed on, or whose body is cut. */
static enum upstream_outcome outcome_of_bad(struct exchange *exchange)
{
    const struct http_error *error = &exchange->response.error;
    if (error->status == 431) {
        return OUTCOME_LARGE_HEAD;
    }
    if (error->status != 0 && error->is_in_value) {
        return OUTCOME_BAD_VALUE;
    }
    return upstream_loss_of(exchange->upstream, true) != LOSS_PLAIN ? OUTCOME_INCONCLUSIVE
                                                                    : OUTCOME_INVALID;
}

static const char *text_of_bad(const struct exchange *exchange, enum upstream_outcome outcome)
{
    if (outcome == OUTCOME_LARGE_HEAD) {
        return exchange->response.error.is_of_count ? TOO_MANY_FIELDS : TOO_LONG_HEAD;
    }
    return outcome == OUTCOME_BAD_VALUE ? BAD_VALUE : "the upstream's answer is not valid HTTP";
}

static void on_bad(struct upstream_user *user, const char *reason)
{
    struct exchange *exchange = exchange_of(user);
    log_debug("proxy.upstream", "bad response", "server=%.*s reason=\"%s\"",
              SPAN_ARGS(exchange->server->endpoint->text), reason);
    if (!exchange->is_response_started) {
        exchange->is_answer_unreadable = true;
    }
    const enum upstream_outcome outcome = outcome_of_bad(exchange);
    exchange_note_outcome(exchange, outcome);
    exchange->upstream->is_refused = true;
    exchange_fail(exchange, 502, text_of_bad(exchange, outcome));
}

static bool is_blocked(struct upstream_user *user)
{
    return exchange_of(user)->is_client_blocked;
}

static bool find_client(struct upstream_user *user, struct address *client)
{
    return exchange_find_client(exchange_of(user), client);
}

/* The length of the request's body, for struct upstream_request. What is announced is not known to
 * come, nor in how many pieces. */
static uint64_t body_bytes_of(const struct exchange *exchange)
{
    const struct client_ops *ops = exchange->client->ops;
    if (exchange->request.body == BODY_NONE) {
        return 0;
    }
    if (exchange->buffer != NULL && exchange_buffer_is_whole(exchange)) {
        return exchange->request_bytes;
    }
    if (!ops->has_whole_body(exchange->client)) {
        return UINT64_MAX;
    }
    if (exchange->request.body == BODY_LENGTH) {
        return exchange->request.content_length;
    }
    return ops->rest_bytes != NULL ? exchange->request_bytes + ops->rest_bytes(exchange->client)
                                   : UINT64_MAX;
}

static void describe(struct upstream_user *user, struct upstream_request *request)
{
    const struct exchange *exchange = exchange_of(user);
    const struct head *head = &exchange->request;
    const size_t fields_max = exchange->config->policy->max.headers;
    *request = (struct upstream_request){
        .client = address_of_client(&exchange->evaluation.view.client),
        .head_bytes = head->method.len + head->target.whole.len,
        .more_fields_max = head->n_fields < fields_max ? fields_max - head->n_fields : 0,
        .has_body = head->body != BODY_NONE,
        .body_bytes = body_bytes_of(exchange),
        .is_call = UNLIKELY(exchange->is_call) && exchange_is_for_grpc(exchange),
        .is_one_client =
            client_address_is_own(exchange->config->policy, &exchange->evaluation.view.client),
        .is_alone = exchange->choice.is_alone,
        .is_single = trailers_of_request_are_single(head, exchange->evaluation.route->upstream),
    };
    for (size_t i = 0; i < head->n_fields; i++) {
        request->head_bytes += head->fields[i].name.len + head->fields[i].value.len;
    }
}

const struct upstream_events EXCHANGE_UPSTREAM_EVENTS = {
    .on_connected = exchange_on_connected,
    .on_insecure = exchange_on_insecure,
    .on_moved = exchange_on_moved,
    .on_progress = on_progress,
    .on_drained = on_drained,
    .on_byte = on_byte,
    .on_begun = on_begun,
    .on_interim = on_interim,
    .on_switch = tunnel_on_switch,
    .on_head = on_head,
    .on_head_alone = on_head_alone,
    .await_room = await_room,
    .on_body = on_body,
    .on_pipe = on_pipe,
    .is_blocked = is_blocked,
    .on_lost = exchange_on_lost,
    .on_bad = on_bad,
    .find_client = find_client,
    .describe = describe,
    .on_refused = exchange_on_refused,
};
