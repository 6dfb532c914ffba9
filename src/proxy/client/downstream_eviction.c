#include "proxy/client/downstream_inner.h"

#include "proxy/client/connection_limits.h"
#include "proxy/client/http2_connection.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/exchange_steps.h"

void downstream_await_header(struct downstream *downstream, uint64_t now_us)
{
    struct client_env *clients = downstream->connection.clients;
    static const struct address NOBODY = {.family = ADDRESS_NONE};
    downstream->connection.awaits_header = true;
    timeout_arm(&downstream->timeout, &clients->first_timeouts, now_us);
    eviction_add(&clients->connection_limits->eviction, &downstream->connection.candidate, &NOBODY,
                 now_us + EVICTION_REQUEST_GRACE_US);
}

void downstream_end_header(struct downstream *downstream)
{
    struct client_connection *connection = &downstream->connection;
    struct eviction *eviction = &connection->clients->connection_limits->eviction;
    connection->awaits_header = false;
    eviction_remove(eviction, &connection->candidate);
    eviction_take_slot_again(eviction, &connection->candidate); /* it may have been chosen */
    eviction_publish(&connection->candidate, EVICTION_NEVER);
}

bool downstream_await_first(struct downstream *downstream, uint64_t now_us)
{
    struct client_env *clients = downstream->connection.clients;
    const struct timeouts_section *timeouts = &clients->env->config->policy->timeouts;
    if (connection_limits_is_protected(clients, &downstream->connection.peer)) {
        return false;
    }
    downstream->rest_since_us = now_us;
    /* If timeouts.idle is less, it closes silent connections, and timeouts.head runs from a head's
     * first byte. */
    downstream->is_first = timeouts->head_us <= timeouts->idle_us;
    if (list_is_empty(&downstream->timeout.node)) {
        timeout_arm(&downstream->timeout, &clients->first_timeouts, now_us);
    }
    eviction_add(&clients->connection_limits->eviction, &downstream->connection.candidate,
                 &downstream->connection.peer, now_us + EVICTION_GRACE_US);
    return true;
}

void downstream_end_first(struct downstream *downstream)
{
    if (downstream->is_first) {
        downstream->is_first = false;
        timeout_disarm(&downstream->timeout);
    }
}

void downstream_refuse_head(struct downstream *downstream, const char *reason)
{
    downstream->is_first = false;
    downstream->exchange->request.error = (struct http_error){.status = 408, .reason = reason};
    exchange_on_bad_head(downstream->exchange);
}

void downstream_note_tunnel(struct downstream *downstream)
{
    struct client_connection *connection = &downstream->connection;
    downstream->busy_from_us = EVICTION_NEVER;
    if (connection->candidate.is_deferred) {
        struct eviction *eviction = &connection->clients->connection_limits->eviction;
        downstream->is_evicted = false;
        eviction_remove(eviction, &connection->candidate);
        eviction_add(eviction, &connection->candidate, &connection->peer, EVICTION_NEVER);
    } else {
        eviction_publish(&connection->candidate, EVICTION_NEVER);
    }
}

/* A request has come. A due connection closes before the next request begins: now if none has
 * begun, otherwise after the answer. A tunnel stays: its end may be far. */
static enum eviction_kind evict_in_use(struct downstream *downstream)
{
    struct eviction *eviction = &downstream->connection.clients->connection_limits->eviction;
    const bool has_next =
        downstream->phase == DOWNSTREAM_IDLE && !list_is_empty(&downstream->next.node);
    if (has_next && downstream->connection.candidate.is_due) {
        downstream_close(downstream);
        return EVICTED_IDLE;
    }
    if (downstream->is_tunnel || !eviction_defer(eviction, &downstream->connection.candidate)) {
        return EVICTED_NONE;
    }
    downstream->is_evicted = true;
    downstream->keep_alive = false;
    return EVICTED_IDLE;
}

/* No server waits for the rest of the body. */
static enum eviction_kind evict_awaited_body(struct downstream *downstream)
{
    downstream->is_evicted = true;
    connection_limits_forget(&downstream->connection);
    exchange_on_evicted(downstream->exchange);
    return EVICTED_BODY;
}

/* Whether the client is waited for to take an answer whose server, if any, is no longer held. */
static bool has_unread_answer(const struct downstream *downstream)
{
    const struct exchange *exchange = downstream->exchange;
    return downstream->phase == DOWNSTREAM_BUSY
               ? exchange->state == EXCHANGE_REPLY && exchange->is_client_blocked
               : downstream->phase == DOWNSTREAM_ANSWERED && downstream->is_stalled;
}

/* Close it: the rest of the answer is lost, and the client sees a reset. */
static enum eviction_kind evict_unread_answer(struct downstream *downstream)
{
    if (downstream->exchange != NULL) {
        exchange_cut(downstream->exchange, ANSWER_CLIENT_LEFT,
                     "too many connections: the answer was not read");
    } else {
        downstream_close(downstream);
    }
    return EVICTED_IDLE;
}

static enum eviction_kind evict(struct downstream *downstream)
{
    const bool has_spoken = downstream->connection.candidate.has_spoken;
    const bool is_idle =
        downstream->phase == DOWNSTREAM_IDLE && list_is_empty(&downstream->next.node);
    const bool is_reading_head =
        downstream->phase == DOWNSTREAM_BUSY && downstream->exchange->state == EXCHANGE_READ_HEAD;
    if (downstream->phase == DOWNSTREAM_NEW || downstream->phase == DOWNSTREAM_SECURING) {
        downstream_close(downstream);
        return EVICTED_SILENT;
    }
    if (downstream->phase == DOWNSTREAM_HTTP2) {
        return http2_evict(downstream->http2);
    }
    if (downstream->phase == DOWNSTREAM_LINGER) {
        downstream_close(downstream);
        return EVICTED_IDLE;
    }
    if (downstream->phase == DOWNSTREAM_BUSY && downstream->exchange->state == EXCHANGE_BUFFER) {
        return evict_awaited_body(downstream);
    }
    if (has_unread_answer(downstream)) {
        return evict_unread_answer(downstream);
    }
    if ((!is_idle && !is_reading_head) ||
        stream_peek(&downstream->stream) == STREAM_DONE) { /* there are unread bytes */
        return evict_in_use(downstream);
    }
    if (is_idle) {
        downstream_close(downstream);
        return has_spoken ? EVICTED_IDLE : EVICTED_SILENT;
    }
    downstream->is_evicted = true;
    connection_limits_forget(&downstream->connection);
    downstream_refuse_head(downstream, DOWNSTREAM_HEAD_EVICTED);
    return EVICTED_HEAD;
}

enum eviction_kind downstream_evict(struct client_connection *connection)
{
    struct downstream *downstream = CONTAINER_OF(connection, struct downstream, connection);
    const enum eviction_kind kind = evict(downstream);
    if (kind == EVICTED_NONE) {
        eviction_add(&connection->clients->connection_limits->eviction, &connection->candidate,
                     &connection->peer,
                     downstream->phase == DOWNSTREAM_IDLE ? EVICTION_AFTER_ANSWER
                                                          : downstream->busy_from_us);
        if (downstream->http2 != NULL) {
            http2_publish(downstream->http2);
        }
    }
    return kind;
}
