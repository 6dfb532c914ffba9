/* The tunnel: the part of an exchange from a requested 101 to the end of both sides. Bytes pass
 * unchanged.
 *
 * Happy path: the 101 goes to the client, and the bytes that the client sent after its request go
 * to the server. Then the bytes of each side go to the other; each side stops while the other is
 * blocked. The end of one side is passed on as such; the exchange is over when both have ended.
 *
 * Failures: a 101 that was not requested, is for another protocol, or comes before the request's
 * end (502, and no tunnel byte of the client has passed); a side that breaks off (the other is
 * reset); a side that takes no bytes (likewise, after timeouts.idle); no movement at all (both are
 * reset, after timeouts.tunnel, or timeouts.idle once one side has ended; where that is the server,
 * both are ended in order); more ends of clients than ports can wait for (both are reset). */

#include <assert.h>

#include "base/clock.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/hop_by_hop.h"
#include "proxy/exchange/reply.h"

static bool is_blocked(const struct exchange *exchange)
{
    return exchange->is_client_blocked || exchange->is_request_blocked;
}

bool tunnel_is_hampered(const struct exchange *exchange)
{
    return is_blocked(exchange) || exchange->is_request_sent || exchange->has_upstream_ended;
}

/* A piece has passed. It does not extend the timeout while one direction is blocked. */
static void on_moved(struct exchange *exchange)
{
    if (!is_blocked(exchange)) {
        exchange_touch(exchange);
    }
}

/* --- the end --- */

static void end(struct exchange *exchange)
{
    upstream_close(exchange->upstream);
    exchange->upstream = NULL;
    exchange_complete(exchange, clock_monotonic_us());
}

/* One side has ended. */
static void on_side_ended(struct exchange *exchange)
{
    if (exchange->is_request_sent && exchange->has_upstream_ended) {
        end(exchange);
    } else {
        exchange_touch(exchange);
    }
}

void tunnel_on_timeout(struct exchange *exchange)
{
    if (exchange->is_request_blocked) {
        exchange_cut(exchange, ANSWER_SERVER_FAILED, "the upstream does not read");
        return;
    }
    static const char REASON[] = "nothing moved in the tunnel";
    if (exchange->has_upstream_ended) {
        exchange->fault = REASON;
        end(exchange);
        return;
    }
    /* A server that goes on behind the end of its client's side would learn nothing of a close in
     * order, and one that keeps its own half would stay. What the answer decides is settled. */
    exchange_cut(exchange, ANSWER_WHOLE, REASON);
}

/* --- pieces --- */

bool tunnel_on_client_piece(struct exchange *exchange, struct span piece, bool last)
{
    exchange->request_bytes += piece.len;
    if (last) {
        exchange->is_request_sent = true;
        if (upstream_end_request(exchange->upstream)) {
            on_side_ended(exchange);
        } else {
            exchange_cut(exchange, ANSWER_WHOLE, "too many tunnels are ended by their clients");
        }
        return false;
    }
    switch (upstream_send(exchange->upstream, &piece, 1, false)) {
    case STREAM_DONE:
        on_moved(exchange);
        return true;
    case STREAM_BLOCKED:
        exchange->is_request_blocked = true;
        exchange_touch(exchange);
        return false;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    /* The bytes that the server sent before it left can still be read, and then its end. */
    exchange->is_request_sent = true;
    on_side_ended(exchange);
    return false;
}

bool tunnel_on_upstream_piece(struct exchange *exchange, struct span piece, bool last)
{
    struct client *client = exchange->client;
    exchange->response_bytes += piece.len;
    if (!exchange_has_sent(exchange, client->ops->send(client, NULL, piece, last))) {
        return false;
    }
    if (!last) {
        on_moved(exchange);
        return true;
    }
    exchange->has_upstream_ended = true;
    stream_want_read(&exchange->upstream->stream, false);
    on_side_ended(exchange);
    return false;
}

/* --- the beginning --- */

/* Answer the client with the 101. False: it is over. */
static bool send_switch(struct exchange *exchange, struct span protocol)
{
    struct client *client = exchange->client;
    exchange_begin_answer(exchange);
    exchange->out.body = BODY_NONE;
    exchange->out.is_switch = true;
    reply_add_field(exchange, FIELD_UPGRADE, field_name(FIELD_UPGRADE), protocol);
    exchange->is_response_started = true;
    exchange_settle_costs(exchange);
    exchange->is_request_sent = false;
    exchange_set_state(exchange, EXCHANGE_TUNNEL);
    const enum stream_result result =
        client->ops->send(client, &exchange->out, span_of(NULL, 0), false);
    return exchange_has_sent(exchange, result) || result == STREAM_BLOCKED;
}

/* The server has begun to work for a client that has not sent its whole request, so the client is
 * charged as one that left: it could end all its requests like this. */
static void fail_early_switch(struct exchange *exchange)
{
    upstream_close(exchange->upstream);
    exchange->upstream = NULL;
    exchange->end = ANSWER_CLIENT_LEFT;
    exchange_fail(exchange, 502, "the upstream switched protocols before the request's end");
}

bool tunnel_on_switch(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    struct upstream *upstream =
        exchange->upstream; /* valid to the end of the iteration, even if closed */
    struct span protocol;
    assert(exchange->state == EXCHANGE_FORWARD);
    if (!exchange->is_upgrade_offered ||
        !upgrade_is_taken(&exchange->request, exchange->evaluation.route, &exchange->response,
                          &protocol)) {
        upstream->is_refused = true;
        exchange_fail(exchange, 502, "the upstream switched protocols unasked");
        return false;
    }
    if (!exchange->is_request_sent || exchange->is_request_blocked ||
        stream_is_blocked(&upstream->stream)) {
        fail_early_switch(exchange);
        return false;
    }
    if (!send_switch(exchange, protocol)) {
        return false;
    }
    exchange_note_outcome(exchange, OUTCOME_SERVED);
    const bool is_client_blocked = exchange->is_client_blocked;
    exchange->client->ops->pump(exchange->client); /* this may end the exchange */
    return !is_client_blocked && upstream->phase != UPSTREAM_CLOSED;
}
