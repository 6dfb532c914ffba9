/* Keeps the start of a request's body until a server is chosen, so that a slow client holds no
 * server's connection.
 *
 * Happy path: the body has come with the head, or comes soon. It is copied into blocks, and a
 * server is chosen at its end, at buffer.size or after buffer.wait, whichever is first. The blocks
 * go out behind the head and are returned one by one; what follows passes as it comes. Of a call of
 * gRPC the first message is awaited, not its end.
 *
 * A server of HTTP/2 may end its connection without having begun with the request, which then goes
 * to another one. So the body is kept until the server has begun. Its last piece is not copied: the
 * client side keeps the memory of that until the exchange is over.
 *
 * Failures: no block becomes free within buffer.wait (503; a body that has one goes out, since
 * bodies that each have a part of max.buffered would wait for one another); the body is too large
 * (413). A body that finds no room while it is sent is not kept. */

#include "proxy/exchange/exchange_buffer.h"

#include <assert.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/grpc.h"
#include "net/loop.h"
#include "proxy/core/body_buffer.h"
#include "proxy/core/sender.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_steps.h"

struct exchange_buffer {
    struct body_buffer body;
    struct exchange *exchange;
    struct timer timer; /* buffer.wait, in BUFFER */
    struct span rest;   /* follows those in body: there is no room, or it is the last piece */
    bool is_whole;      /* body and rest are the whole body */
    bool owes_go_ahead; /* the client waits for our 100 */
    bool is_passed;     /* all of it is taken, and what follows passes as it comes */
    bool is_rest_taken; /* by the server */
    int n_offered;      /* pieces that the server has not taken yet, the earliest that are not */
};

static struct exchange_buffer *buffer_of(struct body_buffer *body)
{
    return CONTAINER_OF(body, struct exchange_buffer, body);
}

/* --- the end of the wait --- */

static void end_wait(struct exchange *exchange, uint64_t now_us)
{
    timer_close(&exchange->buffer->timer);
    exchange->buffered_us = now_us - exchange->buffered_us;
    counter_down(&exchange->env->meters->buffering);
    exchange->client->ops->await_body(exchange->client, false);
}

void exchange_drop_buffer(struct exchange *exchange)
{
    struct exchange_buffer *buffer = exchange->buffer;
    if (buffer->timer.loop != NULL) {
        end_wait(exchange, clock_monotonic_us());
    }
    body_buffer_close(&buffer->body);
    exchange->buffer = NULL;
}

/* Go on with what has come. */
static void go_on(struct exchange *exchange)
{
    const uint64_t now_us = clock_monotonic_us();
    body_buffer_stop_waiting(&exchange->buffer->body);
    body_buffer_trim(&exchange->buffer->body);
    end_wait(exchange, now_us);
    exchange_on_body_awaited(exchange, now_us);
}

static void on_wait_over(void *context)
{
    static const char *const REASONS[BODY_BUFFER_LACKS] = {
        [BODY_BUFFER_FULL] = "too many request bodies are buffered already",
        [BODY_BUFFER_SHARE] = "too many request bodies of this client are buffered already",
    };
    struct exchange *exchange = context;
    const struct body_buffer *body = &exchange->buffer->body;
    if (body_buffer_is_waiting(body) && body_buffer_is_empty(body)) {
        counter_up(&exchange->env->meters->buffer_refused[body->lack]);
        exchange_fail(exchange, 503, REASONS[body->lack]);
    } else if (exchange->request_bytes == 0 && !exchange->is_call &&
               exchange->evaluation.route->buffer.min_bytes_per_s > 0) {
        exchange_fail(exchange, 408, "the request's body did not begin in time");
    } else {
        go_on(exchange);
    }
}

/* --- the body comes --- */

/* Move the rest into the buffer. False: it waits for room, or the exchange goes on. */
static bool keep_rest(struct exchange *exchange)
{
    struct exchange_buffer *buffer = exchange->buffer;
    while (buffer->rest.len > 0 && buffer->body.room_bytes > 0) {
        const size_t room = body_buffer_room(&buffer->body);
        const size_t n = buffer->rest.len < room ? buffer->rest.len : room;
        if (room == 0) {
            return false;
        }
        body_buffer_add(&buffer->body, span_of(buffer->rest.data, n));
        buffer->rest = span_of(buffer->rest.data + n, buffer->rest.len - n);
    }
    if (buffer->is_whole || buffer->body.room_bytes == 0 ||
        (exchange->is_call && exchange->messages.has_whole)) {
        go_on(exchange);
        return false;
    }
    return true;
}

bool exchange_buffer_piece(struct exchange *exchange, struct span piece, bool last)
{
    exchange->buffer->rest = piece;
    exchange->buffer->is_whole = last;
    return keep_rest(exchange);
}

bool exchange_buffer_blocked(struct exchange *exchange)
{
    body_buffer_trim(&exchange->buffer->body);
    return true;
}

size_t exchange_body_room(struct exchange *exchange)
{
    return exchange->state == EXCHANGE_BUFFER ? body_buffer_room(&exchange->buffer->body)
                                              : SIZE_MAX;
}

bool exchange_go_ahead(struct exchange *exchange)
{
    const struct response response = {.status = 100, .body = BODY_NONE};
    struct client *client = exchange->client;
    exchange->may_go_ahead = true;
    const enum stream_result result = client->ops->send_interim(client, &response);
    return exchange_has_sent(exchange, result) || result == STREAM_BLOCKED;
}

bool exchange_buffer_is_whole(const struct exchange *exchange)
{
    return exchange->buffer->is_whole;
}

/* Send the client our 100, if it waits for that. False: it has left. */
static bool go_ahead(struct exchange *exchange)
{
    const bool is_owed = exchange->buffer->owes_go_ahead;
    exchange->buffer->owes_go_ahead = false;
    return !is_owed || exchange_go_ahead(exchange);
}

static void on_room(struct body_buffer *body)
{
    struct exchange *exchange = buffer_of(body)->exchange;
    if (go_ahead(exchange) && keep_rest(exchange)) {
        exchange->client->ops->pump(exchange->client);
    }
}

/* The server is not to send a 100 as well. */
static void drop_expectation(struct exchange *exchange)
{
    for (size_t i = 0; i < exchange->request.n_fields; i++) {
        struct field *field = &exchange->fields[i];
        field->hop_by_hop = field->hop_by_hop || field->id == FIELD_EXPECT;
    }
}

/* NULL: no memory. */
static struct exchange_buffer *open_buffer(struct exchange *exchange,
                                           const struct buffer_spec *spec)
{
    struct exchange_buffer *buffer = arena_calloc(&exchange->arena, 1, sizeof(*buffer));
    if (buffer == NULL) {
        return NULL;
    }
    buffer->exchange = exchange;
    buffer->body = (struct body_buffer){
        .buffers = &exchange->env->body_buffers,
        .room_bytes = spec->bytes,
        .on_room = on_room,
    };
    if (!exchange_find_client(exchange, &buffer->body.client)) {
        buffer->body.client.family = ADDRESS_NONE;
    }
    body_buffer_open(&buffer->body);
    return buffer;
}

static void await_body(struct exchange *exchange, const struct buffer_spec *spec, uint64_t now_us)
{
    exchange_set_state(exchange, EXCHANGE_BUFFER);
    exchange->buffer = open_buffer(exchange, spec);
    if (exchange->buffer == NULL) {
        exchange_fail(exchange, 503, status_text(STATUS_NO_MEMORY));
        return;
    }
    exchange->buffered_us = now_us;
    counter_up(&exchange->env->meters->buffering);
    timer_init(&exchange->buffer->timer, exchange->env->loop, on_wait_over, exchange);
    timer_arm(&exchange->buffer->timer, spec->wait_us);
    exchange->client->ops->await_body(exchange->client, true);
    exchange_lend_slots(exchange);
    if (exchange->request.expect_continue) {
        drop_expectation(exchange);
        exchange->buffer->owes_go_ahead = true;
        /* A client that is asked for its body has room for it. */
        if (body_buffer_room(&exchange->buffer->body) == 0 || !go_ahead(exchange)) {
            return;
        }
    }
    exchange->client->ops->pump(exchange->client);
}

void exchange_await_body(struct exchange *exchange, uint64_t now_us)
{
    const struct buffer_spec *spec = &exchange->evaluation.route->buffer;
    const struct head *request = &exchange->request;
    if (UNLIKELY(exchange->evaluation.route->upstream->may_speak_http2)) {
        exchange->is_call = exchange->client->is_http2 && grpc_is_call(request);
        exchange->messages = (struct grpc_messages){0};
    }
    const uint64_t most_bytes = request->body == BODY_LENGTH
                                    ? request->content_length
                                    : exchange->evaluation.route->body_bytes_max;
    const bool fits = most_bytes <= spec->bytes;
    const bool is_asked_here = fits || exchange->is_call || exchange->awaits_body_first;
    /* What waits for a 100 of the server, or is here already, needs no buffer. */
    if (spec->bytes == 0 || (request->expect_continue && !is_asked_here) ||
        exchange->client->ops->has_whole_body(exchange->client)) {
        exchange_on_body_awaited(exchange, now_us);
    } else {
        await_body(exchange, spec, now_us);
    }
}

void exchange_on_evicted(struct exchange *exchange)
{
    assert(exchange->state == EXCHANGE_BUFFER);
    exchange_fail(exchange, 408, "too many connections: the request's body was not whole yet");
}

/* --- the body goes out --- */

/* Fill @pieces, of which there are @n_max, with the earliest bytes that the server has not taken,
 * those of the rest last. Returns how many there are. */
static int front_pieces(const struct exchange_buffer *buffer, struct span *pieces, int n_max)
{
    int n = body_buffer_front(&buffer->body, pieces, n_max);
    if (n < n_max && buffer->rest.len > 0 && !buffer->is_rest_taken) {
        pieces[n++] = buffer->rest;
    }
    return n;
}

/* The server has these pieces, and they are not sent again. */
static void drop_taken(struct exchange_buffer *buffer)
{
    body_buffer_drop_passed(&buffer->body);
    if (buffer->is_rest_taken) {
        buffer->rest.len = 0;
        buffer->is_rest_taken = false;
    }
}

/* The server has taken what was offered to it. The client side gets the memory of the rest back,
 * unless that is the end of the body. */
static void take_offered(struct exchange *exchange)
{
    struct exchange_buffer *buffer = exchange->buffer;
    struct upstream_user *user = &exchange->upstream_user;
    if (buffer->n_offered > 0 && user->keeps_body) {
        user->keeps_body = body_buffer_may_stay(&buffer->body);
    }
    for (; buffer->n_offered > 0; buffer->n_offered--) {
        if (body_buffer_is_passed(&buffer->body)) {
            buffer->is_rest_taken = true;
            user->keeps_body = user->keeps_body && buffer->is_whole;
        } else {
            body_buffer_pass(&buffer->body);
        }
    }
    if (!user->keeps_body) {
        drop_taken(buffer);
    }
}

void exchange_send_buffered(struct exchange *exchange)
{
    struct exchange_buffer *buffer = exchange->buffer;
    take_offered(exchange);
    while (!exchange->is_request_sent) {
        struct span pieces[SENDER_PIECES_MAX + 1];
        const int n_left = front_pieces(buffer, pieces, SENDER_PIECES_MAX + 1);
        const int n = n_left <= SENDER_PIECES_MAX ? n_left : SENDER_PIECES_MAX;
        const bool last = buffer->is_whole && n == n_left;
        if (n == 0 && !last) {
            break;
        }
        buffer->n_offered = n;
        if (!exchange_send_pieces(exchange, pieces, n, last) && exchange->is_request_blocked) {
            return;
        }
        take_offered(exchange);
    }
    if (exchange->upstream_user.keeps_body) {
        buffer->is_passed = true;
    } else {
        exchange_drop_buffer(exchange);
    }
    if (!exchange->is_request_sent) {
        exchange->client->ops->pump(exchange->client);
    }
}

void exchange_begin_buffered(struct exchange *exchange)
{
    struct exchange_buffer *buffer = exchange->buffer;
    body_buffer_rewind(&buffer->body);
    buffer->is_passed = false;
    buffer->is_rest_taken = false;
    buffer->n_offered = 0;
    exchange->upstream_user.keeps_body = exchange->is_server_http2;
    exchange_send_buffered(exchange);
}

/* --- the body may have to be sent again --- */

/* Copy what there is room for of @piece, which is being sent. The rest of it is kept until the
 * server has taken that. */
static void copy_piece(struct exchange_buffer *buffer, struct span piece)
{
    size_t room;
    while (piece.len > 0 && (room = body_buffer_spare_room(&buffer->body)) > 0) {
        const size_t n = piece.len < room ? piece.len : room;
        body_buffer_add(&buffer->body, span_of(piece.data, n));
        piece = span_of(piece.data + n, piece.len - n);
    }
    body_buffer_pass_all(&buffer->body);
    buffer->rest = piece;
    buffer->n_offered = piece.len > 0 ? 1 : 0;
    buffer->is_passed = piece.len == 0;
}

void exchange_keep_piece(struct exchange *exchange, struct span piece, bool last)
{
    const struct buffer_spec *spec = &exchange->evaluation.route->buffer;
    struct upstream_user *user = &exchange->upstream_user;
    if (exchange->buffer == NULL) {
        user->keeps_body = exchange->request_bytes == piece.len && !exchange->upstream->has_begun;
        if (last || !user->keeps_body) {
            exchange->whole_body = piece;
            return;
        }
        exchange->buffer = spec->bytes > 0 ? open_buffer(exchange, spec) : NULL;
        user->keeps_body = exchange->buffer != NULL;
        if (!user->keeps_body) {
            return;
        }
    }
    if (last) {
        exchange->buffer->rest = piece;
        exchange->buffer->is_whole = true;
    } else {
        copy_piece(exchange->buffer, piece);
    }
}

void exchange_forget_body(struct exchange *exchange)
{
    exchange->upstream_user.keeps_body = false;
    if (exchange->buffer == NULL) {
        return;
    }
    if (exchange->buffer->is_passed) {
        exchange_drop_buffer(exchange);
    } else {
        drop_taken(exchange->buffer);
    }
}

bool exchange_recover_body(struct exchange *exchange)
{
    if (exchange->buffer == NULL) {
        exchange->buffer = open_buffer(exchange, &exchange->evaluation.route->buffer);
        if (exchange->buffer == NULL) {
            return false;
        }
        exchange->buffer->rest = exchange->whole_body;
        exchange->buffer->is_whole = true;
    }
    return true;
}
