/* From a 101 that was asked for to the end of both sides: the part of an exchange in
 * which bytes pass as they are.
 *
 * Happy path: the 101 goes to the client, what the client sent behind its request goes to the
 * server, and then each side's bytes to the other, each stopping while the other is blocked. An end
 * of one side is passed on as such; with the second the exchange is over.
 *
 * Failures: a 101 that nobody asked for, or for another protocol, or before the request's end (502,
 * and nothing of the client has passed); a side that breaks off (the other is reset); one that does
 * not take what it is sent (likewise, after timeouts.idle); nothing that moves (both are ended,
 * after timeouts.tunnel). */

#include <assert.h>

#include "proxy/exchange.h"
#include "proxy/exchange_steps.h"
#include "proxy/reply.h"
#include "proxy/upgrade.h"
#include "proxy/worker.h"

static bool is_blocked(const struct exchange *exchange)
{
    return exchange->is_client_blocked || exchange->is_request_blocked;
}

bool tunnel_is_hampered(const struct exchange *exchange)
{
    return is_blocked(exchange) || exchange->is_request_sent || exchange->has_upstream_ended;
}

/* A piece has passed. One that passes the other way does not give a blocked side more time. */
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
    exchange_complete(exchange);
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
    exchange->fault = "nothing moved in the tunnel";
    end(exchange);
}

/* --- pieces --- */

bool tunnel_on_client_piece(struct exchange *exchange, struct span piece, bool last)
{
    exchange->request_bytes += piece.len;
    if (last) {
        exchange->is_request_sent = true;
        upstream_end_tunnel(exchange->upstream);
        on_side_ended(exchange);
        return false;
    }
    switch (upstream_send(exchange->upstream, piece, false)) {
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
    /* What the server said before it left can still be read, and then its end. */
    exchange->is_request_sent = true;
    on_side_ended(exchange);
    return false;
}

bool tunnel_on_upstream_piece(struct exchange *exchange, struct span piece, bool last)
{
    struct client *client = exchange->client;
    exchange->response_bytes += piece.len;
    switch (client->ops->send(client, NULL, piece, last)) {
    case STREAM_DONE:
        break;
    case STREAM_BLOCKED:
        exchange->is_client_blocked = true;
        exchange_touch(exchange);
        return false;
    case STREAM_EOF:
    case STREAM_BROKEN:
        exchange_on_client_gone(exchange);
        return false;
    }
    if (!last) {
        on_moved(exchange);
        return true;
    }
    exchange->has_upstream_ended = true;
    upstream_has_ended(exchange->upstream);
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
    exchange_settle_costs(exchange);
    exchange->is_response_started = true;
    exchange->is_request_sent = false;
    exchange_set_state(exchange, EXCHANGE_TUNNEL);
    switch (client->ops->send(client, &exchange->out, span_of(NULL, 0), false)) {
    case STREAM_DONE:
        return true;
    case STREAM_BLOCKED:
        exchange->is_client_blocked = true;
        exchange_touch(exchange);
        return true;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    exchange_on_client_gone(exchange);
    return false;
}

bool exchange_on_upstream_switch(struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream; /* lives to the turn's end in any case */
    struct span protocol;
    assert(exchange->state == EXCHANGE_FORWARD);
    if (!exchange->is_upgrade_offered ||
        !upgrade_is_taken(&exchange->request, exchange->route, &exchange->response, &protocol)) {
        exchange_fail(exchange, 502, "the upstream switched protocols unasked");
        return false;
    }
    if (!exchange->is_request_sent || exchange->is_request_blocked) {
        exchange_fail(exchange, 502, "the upstream switched protocols before the request's end");
        return false;
    }
    if (!send_switch(exchange, protocol)) {
        return false;
    }
    exchange_note_outcome(exchange, OUTCOME_SERVED);
    const bool is_client_blocked = exchange->is_client_blocked;
    exchange->client->ops->pump(exchange->client); /* it may leave, and end the exchange */
    return !is_client_blocked && upstream->phase != UPSTREAM_CLOSED;
}
