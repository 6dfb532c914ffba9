/*   READ_HEAD ─► DECIDE ─► (HOLD) ─► (QUEUE) ─► (CONNECT) ─► FORWARD ─► (TUNNEL) ─► DONE
 *       │ bad       │ denied    │ full      │ full      │ no        │ upstream failed before
 *       │ request   │           │           │           │ upstream  │ a response byte went out
 *       └───────────┴─► REPLY ◄─┴───────────┴───────────┴───────────┘       any ─► CLOSED
 *
 * Happy path: the head comes from the client side, the route is found, its limits are judged by the
 * store, a server's connection carries the request and the answer. This file is the table of
 * states, the end, and the answers of our own; exchange_decide.c, exchange_connect.c and
 * exchange_upstream.c are the way, tunnel.c what follows a switch of protocols.
 *
 * Failures, each with its answer: a head or a body that breaks the rules (its own status), a client
 * that is too slow (408), a client that leaves (nothing). */

#include "proxy/exchange.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"
#include "proxy/counting.h"
#include "proxy/edits.h"
#include "proxy/exchange_steps.h"
#include "proxy/reply.h"
#include "proxy/settlement.h"
#include "proxy/worker.h"

#define TO(state) (1u << EXCHANGE_##state)

enum wait {
    WAIT_NONE,
    WAIT_HEAD,    /* timeouts.head, from the first byte: not begun anew */
    WAIT_QUEUE,   /* the upstream's queue.wait */
    WAIT_CONNECT, /* the upstream's timeout.connect */
    WAIT_FORWARD, /* the upstream's timeout.response (events: timeouts.tunnel), or as WAIT_CLIENT */
    WAIT_TUNNEL,  /* timeouts.tunnel, timeouts.idle where it is hampered, or looks at the client */
    WAIT_CLIENT,  /* looks at the client */
};

static const struct {
    const char *name;
    unsigned next; /* bit set of the states that may follow */
    enum wait wait;
} STATES[] = {
    [EXCHANGE_READ_HEAD] = {"read_head",
                            TO(DECIDE) | TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO(REPLY) |
                                TO(CLOSED),
                            WAIT_HEAD},
    [EXCHANGE_DECIDE] = {"decide",
                         TO(HOLD) | TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO(REPLY) | TO(CLOSED),
                         WAIT_NONE},
    [EXCHANGE_HOLD] = {"hold", TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO(REPLY) | TO(CLOSED),
                       WAIT_NONE},
    [EXCHANGE_QUEUE] = {"queue", TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO(REPLY) | TO(CLOSED),
                        WAIT_QUEUE},
    [EXCHANGE_CONNECT] = {"connect", TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO(REPLY) | TO(CLOSED),
                          WAIT_CONNECT},
    [EXCHANGE_FORWARD] = {"forward",
                          TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO(TUNNEL) | TO(REPLY) |
                              TO(DONE) | TO(CLOSED),
                          WAIT_FORWARD},
    [EXCHANGE_TUNNEL] = {"tunnel", TO(DONE) | TO(CLOSED), WAIT_TUNNEL},
    [EXCHANGE_REPLY] = {"reply", TO(DONE) | TO(CLOSED), WAIT_CLIENT},
    [EXCHANGE_DONE] = {"done", 0, WAIT_NONE},
    [EXCHANGE_CLOSED] = {"closed", 0, WAIT_NONE},
};

const char *exchange_state_name(enum exchange_state state)
{
    return STATES[state].name;
}

bool exchange_is_client_blocked(const struct exchange *exchange)
{
    return exchange->is_client_blocked;
}

bool exchange_is_head_request(const struct exchange *exchange)
{
    return span_equals(exchange->request.method, SPAN("HEAD"));
}

/* --- states and timeouts --- */

static bool waits_for_client(const struct exchange *exchange)
{
    return exchange->is_client_blocked || exchange_waits_for_body(exchange);
}

static struct timeout_queue *queue_of_forward(const struct exchange *exchange)
{
    if (waits_for_client(exchange)) {
        return &exchange->regime->look_timeouts;
    }
    if (exchange->is_event_stream && !exchange->has_client_ended) {
        return &exchange->regime->tunnel_timeouts;
    }
    return &exchange->server->group->response_timeouts;
}

static struct timeout_queue *queue_of_tunnel(const struct exchange *exchange)
{
    struct regime *regime = exchange->regime;
    if (exchange->is_client_blocked) {
        return &regime->look_timeouts;
    }
    return tunnel_is_hampered(exchange) ? &regime->idle_timeouts : &regime->tunnel_timeouts;
}

static struct timeout_queue *queue_of(const struct exchange *exchange)
{
    struct regime *regime = exchange->regime;
    switch (STATES[exchange->state].wait) {
    case WAIT_NONE:
        return NULL;
    case WAIT_HEAD:
        return &regime->head_timeouts;
    case WAIT_QUEUE:
        return &regime->upstreams[exchange->route->upstream->index]->queue_timeouts;
    case WAIT_CONNECT:
        return &exchange->server->group->connect_timeouts;
    case WAIT_FORWARD:
        return queue_of_forward(exchange);
    case WAIT_TUNNEL:
        return queue_of_tunnel(exchange);
    case WAIT_CLIENT:
        return &regime->look_timeouts;
    }
    return NULL;
}

void exchange_touch_at(struct exchange *exchange, uint64_t now_us)
{
    struct timeout_queue *queue = queue_of(exchange);
    if (queue == NULL) {
        timeout_disarm(&exchange->timeout);
        exchange->is_looked_at = false;
        return;
    }
    const bool is_look = queue == &exchange->regime->look_timeouts;
    exchange_note_waits(exchange, now_us);
    /* A client is looked at again and again, however often it moves. */
    if (!is_look || !exchange->is_looked_at) {
        timeout_arm(&exchange->timeout, queue, now_us);
    }
    exchange->is_looked_at = is_look;
}

void exchange_touch(struct exchange *exchange)
{
    exchange_touch_at(exchange,
                      STATES[exchange->state].wait == WAIT_NONE ? 0 : clock_monotonic_us());
}

void exchange_enter_state(struct exchange *exchange, enum exchange_state next)
{
    assert(STATES[exchange->state].next & (1u << next));
    exchange->state = next;
}

void exchange_set_state(struct exchange *exchange, enum exchange_state next)
{
    exchange_enter_state(exchange, next);
    exchange_touch(exchange);
}

static void on_timeout(struct timeout *timeout)
{
    struct exchange *exchange = CONTAINER_OF(timeout, struct exchange, timeout);
    if (exchange->is_looked_at) {
        exchange_look_at_client(exchange);
        return;
    }
    switch (exchange->state) {
    case EXCHANGE_READ_HEAD:
        exchange_fail(exchange, 408, "the request's head took too long");
        return;
    case EXCHANGE_QUEUE:
        exchange_on_queue_timeout(exchange);
        return;
    case EXCHANGE_CONNECT:
        exchange_on_connect_timeout(exchange);
        return;
    case EXCHANGE_FORWARD:
        if (exchange->is_event_stream && !exchange->is_request_blocked) {
            exchange_cut(exchange, ANSWER_SERVER_FAILED, "no event came in time");
        } else {
            exchange_note_outcome(exchange, OUTCOME_UNANSWERED);
            exchange_fail(exchange, 504, "the upstream did not answer in time");
        }
        return;
    case EXCHANGE_TUNNEL:
        tunnel_on_timeout(exchange);
        return;
    case EXCHANGE_DECIDE:
    case EXCHANGE_HOLD:
    case EXCHANGE_REPLY:
    case EXCHANGE_DONE:
    case EXCHANGE_CLOSED:
        return; /* these wait for nothing, or are looked at */
    }
}

size_t exchange_bytes(size_t n_fields_max)
{
    return sizeof(struct exchange) + 2 * n_fields_max * sizeof(struct field);
}

struct exchange *exchange_init(void *memory, struct regime *regime, struct client *client,
                               const struct address *peer, uint64_t now_us)
{
    struct exchange *exchange = memory;
    const size_t n_fields_max = regime->policy->max.headers;
    memset(exchange, 0, offsetof(struct exchange, fields));
    exchange->admission.decision.n_charges = 0; /* not prepared yet: see admission.h */
    exchange->admission.lacked = NULL;
    exchange->view.head = NULL;
    exchange->state = EXCHANGE_READ_HEAD;
    exchange->worker = regime->worker;
    exchange->regime = regime;
    exchange->client = client;
    exchange->peer = *peer;
    exchange->fields = (struct field *)(void *)(exchange + 1);
    exchange->n_fields_max = n_fields_max;
    exchange->started_us = now_us;
    random_stream_take(&regime->worker->request_ids, exchange->request_id,
                       sizeof(exchange->request_id));
    list_init(&exchange->slot_node);
    arena_init(&exchange->arena, exchange->arena_first, sizeof(exchange->arena_first));
    timeout_init(&exchange->timeout, on_timeout);
    timeout_arm(&exchange->timeout, &regime->head_timeouts, now_us);
    return exchange;
}

/* --- the end --- */

/* What its limits are owed, on whatever way it ended. */
static void settle(struct exchange *exchange)
{
    const struct outcome outcome = {
        .status = exchange->is_response_started ? exchange->out.status : 0,
        .end = exchange->end,
        .is_unreadable = exchange->is_answer_unreadable,
        .is_cost_told = exchange->is_cost_told,
        .told_cost = exchange->told_cost,
    };
    settlement_make(&exchange->admission, &outcome, exchange->regime->store);
    list_remove(&exchange->slot_node);
}

void exchange_settle_costs(struct exchange *exchange)
{
    const struct outcome outcome = {
        .status = exchange->out.status,
        .end = ANSWER_WHOLE,
        .is_cost_told = exchange->is_cost_told,
        .told_cost = exchange->told_cost,
    };
    settlement_make_costs(&exchange->admission, &outcome, exchange->regime->store);
}

static void end(struct exchange *exchange, uint64_t now_us)
{
    struct client *client = exchange->client;
    if (exchange->hold.place != 0) {
        precise_timer_disarm(&exchange->worker->holds, &exchange->hold);
        exchange_end_hold(exchange, now_us);
    }
    if (exchange->is_queued) {
        exchange_leave_queue(exchange);
    }
    if (exchange->choice.is_trial) {
        exchange_note_outcome(exchange, OUTCOME_INCONCLUSIVE);
    }
    if (exchange->is_decision_pending) {
        store_cancel(&exchange->admission.decision);
    } else if (exchange->admission.decision.n_charges > 0) {
        settle(exchange);
    }
    counting_note_end(exchange, now_us);
    access_log_add(&exchange->worker->log, exchange, now_us);
    arena_reset(&exchange->arena);
    client->ops->on_done(client, now_us);
}

static void drop_upstream(struct exchange *exchange)
{
    if (exchange->upstream != NULL) {
        upstream_close(exchange->upstream);
        exchange->upstream = NULL;
    }
}

static enum upstream_outcome outcome_of_status(uint16_t status)
{
    return status >= 502 && status <= 504 ? OUTCOME_BAD_GATEWAY : OUTCOME_SERVED;
}

void exchange_complete(struct exchange *exchange)
{
    const uint64_t now_us = clock_monotonic_us();
    exchange_set_state(exchange, EXCHANGE_DONE);
    if (exchange->upstream != NULL) {
        exchange_note_outcome(exchange, outcome_of_status(exchange->out.status));
        if (exchange->is_request_sent) {
            upstream_release(exchange->upstream, now_us);
        } else {
            upstream_close(exchange->upstream);
        }
        exchange->upstream = NULL;
    }
    end(exchange, now_us);
}

/* The first cause holds: what follows from it, on either side, is no other. */
static void note_end(struct exchange *exchange, enum answer_end end, const char *fault)
{
    if (exchange->end == ANSWER_WHOLE) {
        exchange->end = end;
    }
    if (exchange->fault == NULL) {
        exchange->fault = fault;
    }
}

void exchange_cut(struct exchange *exchange, enum answer_end end_by, const char *fault)
{
    note_end(exchange, end_by, fault);
    if (exchange->state == EXCHANGE_TUNNEL) {
        /* What is cut must not look to either side as if the other had said all. */
        stream_reset_on_close(&exchange->upstream->stream);
    }
    exchange_set_state(exchange, EXCHANGE_CLOSED);
    drop_upstream(exchange);
    end(exchange, clock_monotonic_us());
}

void exchange_on_client_gone(struct exchange *exchange)
{
    exchange_cut(exchange, ANSWER_CLIENT_LEFT, "the client left");
}

void exchange_on_client_ended(struct exchange *exchange)
{
    /* Who listens to events and ends his side has left: no more than that may be seen of
     * it until the next event. */
    const bool has_left = exchange->state == EXCHANGE_HOLD || exchange->state == EXCHANGE_QUEUE ||
                          (exchange->state == EXCHANGE_FORWARD && exchange->is_event_stream);
    exchange->has_client_ended = true;
    if (has_left) {
        exchange_on_client_gone(exchange);
    }
}

/* --- answers of our own --- */

void exchange_reply(struct exchange *exchange, struct span body)
{
    drop_upstream(exchange);
    exchange_enter_state(exchange, EXCHANGE_REPLY);
    exchange->is_response_started = true;
    if (exchange_is_head_request(exchange)) {
        body.len = 0;
    }
    exchange->response_bytes = body.len;
    if (exchange->route != NULL && exchange->route->edits != NULL) {
        edits_add(exchange);
    }
    switch (exchange->client->ops->send(exchange->client, &exchange->out, body, true)) {
    case STREAM_DONE:
        exchange_complete(exchange);
        return;
    case STREAM_BLOCKED:
        exchange->is_client_blocked = true;
        exchange_touch(exchange);
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        exchange_on_client_gone(exchange);
        return;
    }
}

void exchange_fail(struct exchange *exchange, uint16_t status, const char *fault)
{
    const enum answer_end end_by = status < 500 ? ANSWER_CLIENT_LEFT : ANSWER_SERVER_FAILED;
    if (exchange->is_response_started || exchange->is_client_blocked) {
        exchange_cut(exchange, end_by, fault);
        return;
    }
    note_end(exchange, end_by, fault);
    exchange_reply(exchange, reply_problem(exchange, status, fault));
}

void exchange_on_bad_head(struct exchange *exchange)
{
    const struct http_error *error = &exchange->request.error;
    exchange->request.keep_alive = false; /* nobody knows where the next one starts */
    exchange_fail(exchange, error->status, error->reason);
}

void exchange_on_bad_body(struct exchange *exchange, const struct http_error *error)
{
    note_end(exchange, ANSWER_CLIENT_LEFT, error->reason); /* also where the status is 501 */
    exchange_fail(exchange, error->status, error->reason);
}
