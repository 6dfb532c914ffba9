/* READ_HEAD ─► DECIDE ─► (HOLD) ─► (BUFFER) ─► (QUEUE) ─► (CONNECT) ─► FORWARD ─► (TUNNEL) ─► DONE
 *     │ bad      │ denied   │ full     │ full      │ full      │ no     │ upstream failed before
 *     │ request  │          │          │           │           │ server │ a response byte went out
 *     └──────────┴► REPLY ◄─┴──────────┴───────────┴───────────┴────────┘        any ─► CLOSED
 *
 * A request that a limit may hold has BUFFER before DECIDE; behind HOLD alone if it leaves.
 *
 * Happy path: the head comes from the client side, the route is found, the store judges its limits,
 * a server's connection carries the request and the answer. This file has the table of states, the
 * end, and the answers that the proxy makes. The steps in between are in exchange_decide.c,
 * exchange_buffer.c, exchange_slots.c, exchange_connect.c and exchange_upstream.c; tunnel.c has the
 * part after a switch of protocols.
 *
 * Failures, each with its answer: a malformed head or body (its own status), a client that is too
 * slow (408), a client that leaves (nothing). */

#include "proxy/exchange/exchange.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"
#include "proxy/exchange/exchange_buffer.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/hop_by_hop.h"
#include "proxy/exchange/made_head.h"
#include "proxy/exchange/reply.h"
#include "proxy/settlement.h"

/* --- the timeout of each state: the queue that it waits in, and what happens when it passes --- */

static struct timeout_queue *timeouts_of_head(const struct exchange *exchange)
{
    return &exchange->config->head_timeouts; /* from the first byte: not restarted */
}

static struct timeout_queue *timeouts_of_queue(const struct exchange *exchange)
{
    return &exchange->config->upstreams[exchange->evaluation.route->upstream->index]
                ->queue_timeouts;
}

static struct timeout_queue *timeouts_of_connect(const struct exchange *exchange)
{
    return &exchange->server->group->connect_timeouts;
}

/* A call whose client may send more, or whose server has begun to answer: messages come when they
 * come. */
static bool is_quiet_call(const struct exchange *exchange)
{
    return exchange_is_call(exchange) && !exchange->is_request_blocked &&
           (!exchange->is_request_sent || exchange->is_response_started);
}

static struct timeout_queue *timeouts_of_forward(const struct exchange *exchange)
{
    if (exchange->is_client_blocked || exchange_waits_for_body(exchange)) {
        return exchange_client_checks(exchange);
    }
    if (UNLIKELY(is_quiet_call(exchange)) ||
        (exchange->is_event_stream && !exchange->has_client_ended)) {
        return &exchange->config->tunnel_timeouts;
    }
    return &exchange->server->group->response_timeouts;
}

static struct timeout_queue *timeouts_of_tunnel(const struct exchange *exchange)
{
    struct exchange_config *config = exchange->config;
    if (exchange->is_client_blocked) {
        return exchange_client_checks(exchange);
    }
    return tunnel_is_hampered(exchange) ? &config->idle_timeouts : &config->tunnel_timeouts;
}

static void on_head_timeout(struct exchange *exchange)
{
    exchange_fail(exchange, 408, "the request's head took too long");
}

/* Who ends what falls silent. It is the client of a call whose next message the server may await;
 * and a client that has ended its side chose the shorter time, and has had what came. They get no
 * charge back for that. */
static enum answer_end end_of_silence(const struct exchange *exchange)
{
    const bool is_awaited = is_quiet_call(exchange) && !exchange->is_request_sent;
    return is_awaited || exchange->has_client_ended ? ANSWER_CLIENT_LEFT : ANSWER_SERVER_FAILED;
}

/* Whether the time has passed for a reason that is not the server's: others hold the body up, or a
 * client has asked its handler of upgrades for a path that it does not know. */
static bool is_no_failure(const struct exchange *exchange)
{
    return upstream_is_starved(exchange->upstream) ||
           (exchange->is_upgrade_offered && !exchange->has_upstream_answered);
}

static void on_forward_timeout(struct exchange *exchange)
{
    if (is_quiet_call(exchange)) {
        exchange_cut(exchange, end_of_silence(exchange), "no message came in time");
    } else if (exchange->is_event_stream && !exchange->is_request_blocked) {
        exchange_cut(exchange, end_of_silence(exchange), "no event came in time");
    } else {
        exchange_note_outcome(exchange,
                              is_no_failure(exchange) ? OUTCOME_INCONCLUSIVE : OUTCOME_UNANSWERED);
        exchange_fail(exchange, 504, "the upstream did not answer in time");
    }
}

/* --- states --- */

#define TO(state) (1u << EXCHANGE_##state)
#define TO_END (TO(REPLY) | TO(CLOSED))
#define TO_SERVER (TO(QUEUE) | TO(CONNECT) | TO(FORWARD) | TO_END)

static const struct {
    unsigned next; /* bit set of the states that may follow */
    struct timeout_queue *(*queue)(const struct exchange *exchange); /* NULL: no timeout */
    void (*on_timeout)(struct exchange *exchange); /* not of a slow-client check */
} STATES[] = {
    [EXCHANGE_READ_HEAD] = {TO(DECIDE) | TO(BUFFER) | TO_SERVER, timeouts_of_head, on_head_timeout},
    [EXCHANGE_DECIDE] = {TO(HOLD) | TO(BUFFER) | TO_SERVER, NULL, NULL},
    [EXCHANGE_HOLD] = {TO(DECIDE) | TO(BUFFER) | TO_SERVER, NULL, NULL},
    [EXCHANGE_BUFFER] = {TO(DECIDE) | TO_SERVER, NULL, NULL},
    [EXCHANGE_QUEUE] = {TO_SERVER, timeouts_of_queue, exchange_on_queue_timeout},
    [EXCHANGE_CONNECT] = {TO_SERVER, timeouts_of_connect, exchange_on_connect_timeout},
    [EXCHANGE_FORWARD] = {TO_SERVER | TO(TUNNEL) | TO(DONE), timeouts_of_forward,
                          on_forward_timeout},
    [EXCHANGE_TUNNEL] = {TO(DONE) | TO(CLOSED), timeouts_of_tunnel, tunnel_on_timeout},
    [EXCHANGE_REPLY] = {TO(DONE) | TO(CLOSED), exchange_client_checks, NULL},
    [EXCHANGE_DONE] = {0, NULL, NULL},
    [EXCHANGE_CLOSED] = {0, NULL, NULL},
};

bool exchange_is_head_request(const struct exchange *exchange)
{
    return span_equals(exchange->request.method, SPAN("HEAD"));
}

void exchange_touch_at(struct exchange *exchange, uint64_t now_us)
{
    if (STATES[exchange->state].queue == NULL) {
        timeout_disarm(&exchange->timeout);
        exchange->client_check = NULL;
        return;
    }
    struct timeout_queue *queue = STATES[exchange->state].queue(exchange);
    exchange_note_waits(exchange, now_us);
    /* Slow-client checks are periodic: progress of the client does not postpone the next one. */
    if (exchange->client_check == queue) {
        return;
    }
    struct exchange_config *config = exchange->config;
    const bool is_check = queue == &config->client_check_timeouts ||
                          queue == &config->upload_check_timeouts ||
                          queue == &config->download_check_timeouts;
    exchange->client_check = is_check ? queue : NULL;
    timeout_arm(&exchange->timeout, queue, now_us);
}

void exchange_touch(struct exchange *exchange)
{
    exchange_touch_at(exchange, STATES[exchange->state].queue == NULL ? 0 : clock_monotonic_us());
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
    if (exchange->client_check != NULL) {
        exchange_check_client(exchange);
    } else {
        STATES[exchange->state].on_timeout(exchange);
    }
}

size_t exchange_bytes(const struct policy *policy)
{
    return sizeof(struct exchange) +
           (policy->max.headers + policy->response_fields_max) * sizeof(struct field);
}

struct exchange *exchange_init(void *memory, struct exchange_config *config, struct client *client,
                               const struct address *peer, uint64_t now_us)
{
    struct exchange *exchange = memory;
    memset(exchange, 0, offsetof(struct exchange, fields));
    exchange->admission.decision.n_charges = 0; /* not prepared yet: see admission.h */
    exchange->admission.lacked = NULL;
    exchange->evaluation.view.head = NULL;
    exchange->evaluation.route = NULL;
    exchange->state = EXCHANGE_READ_HEAD;
    exchange->env = config->env;
    exchange->config = config;
    exchange->client = client;
    exchange->peer = *peer;
    exchange->fields = (struct field *)(void *)(exchange + 1);
    exchange->started_us = now_us;
    random_stream_take(&config->env->request_ids, exchange->request_id,
                       sizeof(exchange->request_id));
    list_init(&exchange->slots.node);
    arena_init(&exchange->arena, exchange->arena_first, sizeof(exchange->arena_first));
    timeout_init(&exchange->timeout, on_timeout);
    timeout_arm(&exchange->timeout, &config->head_timeouts, now_us);
    return exchange;
}

/* --- the end --- */

/* The status of the answer that the client was sent. Of an answer of gRPC it is the one that its
 * grpc-status stands for. Where none has come it is 502, and none of an evicted call. */
static uint16_t answer_status(const struct exchange *exchange)
{
    if (exchange->grpc_status == GRPC_NONE) {
        return exchange->end == ANSWER_EVICTED       ? 0
               : exchange->end == ANSWER_CLIENT_LEFT ? exchange->out.status
                                                     : 502;
    }
    return grpc_answer_status(exchange->out.status, exchange->grpc_status);
}

uint16_t exchange_http_status_in_doubt(const struct exchange *exchange)
{
    const struct head *request = &exchange->request;
    if (LIKELY(exchange->grpc_status == 0)) {
        return 0;
    }
    const bool is_call = span_equals(request->method, SPAN("POST")) && grpc_is_call(request);
    return is_call ? 0 : exchange->response.status;
}

/* Whether the server's answer is an error that it, or a gateway, may give while others work; or
 * breaks off before the request was sent whole. */
static bool is_doubtful(const struct exchange *exchange)
{
    if (!exchange->has_upstream_answered || !exchange->is_response_started) {
        return false;
    }
    const bool is_cut = exchange_is_request_cut(exchange);
    const uint16_t status =
        exchange->grpc_status == 0 ? exchange->response.status : answer_status(exchange);
    const bool is_conditional =
        answer_meets_condition(status, &exchange->request, exchange->evaluation.route);
    const bool is_broken = exchange->end == ANSWER_SERVER_FAILED || exchange->end == ANSWER_EVICTED;
    return (is_broken && is_cut) ||
           answer_is_doubtful(status, exchange->is_grpc_head_error ? exchange->grpc_status : 0,
                              is_cut, is_conditional);
}

/* Whether the answer would have said the cost, and was lost: it cannot be read, or none came of a
 * server that has the request. A client can bring that about, so it costs as much as it may. */
static bool is_cost_lost(const struct exchange *exchange)
{
    const bool has_failed =
        exchange->end == ANSWER_SERVER_FAILED || exchange->end == ANSWER_REFUSED;
    const bool is_unanswered =
        has_failed && !exchange->is_unsent && !exchange->is_declined && !exchange->has_server_head;
    return (exchange->is_answer_unreadable || is_unanswered) &&
           exchange->evaluation.route->cost.kind == COST_RESPONSE_HEADER;
}

static struct outcome outcome_of(const struct exchange *exchange)
{
    struct outcome outcome = {
        .status = exchange->is_response_started ? answer_status(exchange) : 0,
        .http_status = exchange->is_response_started ? exchange_http_status_in_doubt(exchange) : 0,
        .end = exchange->end,
        .is_unsent = exchange->is_unsent,
        .is_before_departure = exchange->is_before_departure,
        .is_unanswered = !exchange->is_unsent && !exchange->has_server_head,
        .is_unreadable = exchange->is_answer_unreadable,
        .is_doubtful = is_doubtful(exchange),
        .is_cost_reported = exchange->is_cost_reported,
        .reported_cost = exchange->reported_cost,
    };
    if (UNLIKELY(exchange->is_cost_reported)) {
        const uint64_t decided_us = exchange->admission.decision.now_us + exchange->decide_us;
        const uint64_t head_us = exchange->connect_started_us + exchange->upstream_us;
        outcome.reported_after_us = head_us > decided_us ? head_us - decided_us : 0;
    }
    if (UNLIKELY(exchange->end != ANSWER_WHOLE) && is_cost_lost(exchange)) {
        outcome.is_cost_reported = true;
        outcome.reported_cost = exchange->evaluation.route->cost.max;
    }
    return outcome;
}

/* Settle all charges, however the exchange ended. */
static void settle(struct exchange *exchange, uint64_t now_us)
{
    const bool has_bans = exchange->config->policy->has_bans;
    const bool is_cost_known = exchange->is_cost_reported ||
                               (UNLIKELY(exchange->end != ANSWER_WHOLE) && is_cost_lost(exchange));
    list_remove(&exchange->slots.node);
    if (LIKELY(!has_bans && !settlement_is_needed(&exchange->admission, is_cost_known))) {
        return;
    }
    const struct outcome outcome = outcome_of(exchange);
    if (has_bans) {
        exchange_note_offences(exchange, &outcome, now_us);
    }
    settlement_make(&exchange->admission, &outcome, exchange->config->store);
}

static void cancel_decision(struct exchange *exchange)
{
    const struct outcome outcome = outcome_of(exchange);
    struct decision *decision = &exchange->admission.decision;
    decision->returned = settlement_returned(&exchange->admission, &outcome);
    store_cancel(decision);
}

void exchange_settle_costs(struct exchange *exchange)
{
    const struct outcome outcome = outcome_of(exchange);
    settlement_make_costs(&exchange->admission, &outcome, exchange->config->store);
}

static void end(struct exchange *exchange, uint64_t now_us)
{
    struct client *client = exchange->client;
    if (exchange->hold.slot != 0) {
        precise_timer_disarm(&exchange->env->holds, &exchange->hold);
        exchange_end_hold(exchange, now_us);
    }
    if (exchange->is_queued) {
        exchange_leave_queue(exchange);
    }
    if (UNLIKELY(exchange->buffer != NULL)) {
        exchange_drop_buffer(exchange);
    }
    if (exchange->choice.is_probe) {
        exchange_note_outcome(exchange, OUTCOME_INCONCLUSIVE);
    }
    if (UNLIKELY(exchange->loan != NULL)) {
        exchange_drop_loan(exchange);
    }
    if (exchange->is_decision_pending) {
        cancel_decision(exchange);
    } else if (exchange->admission.decision.n_charges > 0) {
        settle(exchange, now_us);
    }
    counting_note_end(exchange, now_us);
    exchange_log(exchange, now_us);
    arena_reset(&exchange->arena);
    client->ops->on_done(client, now_us);
}

static void drop_upstream(struct exchange *exchange)
{
    if (exchange->upstream == NULL && !exchange->was_left_at_work) {
        return;
    }
    if (exchange->upstream != NULL) {
        exchange->upstream->is_given_up = exchange->end == ANSWER_SERVER_FAILED;
    }
    if (!abandoned_request_take(exchange) && exchange->upstream != NULL) {
        upstream_close(exchange->upstream);
    }
    exchange->upstream = NULL;
}

static enum upstream_outcome outcome_of_status(uint16_t status)
{
    return answer_is_gateway_error(status) ? OUTCOME_BAD_GATEWAY : OUTCOME_SERVED;
}

/* Whether the server, which has answered, has read all of the request: of a body it may read the
 * rest behind its answer, but for that of a HEAD, which means nothing. */
static bool is_read(const struct exchange *exchange)
{
    return exchange->is_request_sent &&
           (exchange->request.body == BODY_NONE || exchange_is_head_request(exchange));
}

/* The handler of a request that holds slots may go on behind an answer to HEAD or to a condition,
 * or an error; and behind one that is empty, see exchange_may_make_head(). */
static void leave_handler(struct exchange *exchange)
{
    if (exchange->upstream == NULL) {
        return;
    }
    exchange->upstream->is_over = is_read(exchange);
    if (abandoned_request_take(exchange)) {
        exchange_note_outcome(exchange, outcome_of_status(exchange->out.status));
        exchange->upstream = NULL;
    } else {
        exchange->upstream->is_over = false; /* it may carry another request */
    }
}

void exchange_complete(struct exchange *exchange, uint64_t now_us)
{
    if (UNLIKELY(exchange->upstream_user.is_head_request || exchange->is_grpc_head_error ||
                 exchange->out.status >= 206 ||
                 made_head_is_empty(exchange->made_head, exchange->response_bytes))) {
        leave_handler(exchange);
    }
    exchange_enter_state(exchange, EXCHANGE_DONE);
    exchange_touch_at(exchange, now_us);
    if (exchange->upstream != NULL) {
        exchange_note_outcome(exchange, outcome_of_status(exchange->out.status));
        /* A server that was offered a switch may read no more requests there: Node does not. */
        if (!exchange->is_request_sent || exchange->is_upgrade_offered ||
            !upstream_release(exchange->upstream, now_us)) {
            exchange->upstream->is_over = is_read(exchange);
            upstream_close(exchange->upstream);
        }
        exchange->upstream = NULL;
    }
    end(exchange, now_us);
}

/* Keep the first cause only: later faults on either side follow from it. */
static void note_end(struct exchange *exchange, enum answer_end end, const char *fault)
{
    if (exchange->end == ANSWER_WHOLE) {
        exchange->end = end;
        exchange->is_unsent = exchange->state < EXCHANGE_FORWARD && !exchange->was_at_server;
        exchange->is_before_departure = !exchange->has_departed;
        exchange->is_declined = exchange->state >= EXCHANGE_FORWARD && !exchange->was_at_server &&
                                exchange->upstream != NULL &&
                                upstream_is_unprocessed(exchange->upstream);
    }
    if (exchange->fault == NULL) {
        exchange->fault = fault;
    }
}

void exchange_cut(struct exchange *exchange, enum answer_end end_by, const char *fault)
{
    note_end(exchange, end_by, fault);
    if (exchange->state == EXCHANGE_TUNNEL) {
        /* A cut tunnel must not look, to either side, like a regular end of the other side. */
        stream_reset_on_close(&exchange->upstream->stream);
    }
    drop_upstream(exchange);
    exchange_set_state(exchange, EXCHANGE_CLOSED);
    end(exchange, clock_monotonic_us());
}

void exchange_on_client_gone(struct exchange *exchange)
{
    exchange_cut(exchange, ANSWER_CLIENT_LEFT, "the client left");
}

void exchange_on_client_ended(struct exchange *exchange)
{
    /* A client of an event stream that ends its side has left: until the next event, there may be
     * no other sign of it. */
    const bool has_left = exchange->state == EXCHANGE_HOLD || exchange->state == EXCHANGE_QUEUE ||
                          (exchange->state == EXCHANGE_FORWARD && exchange->is_event_stream);
    exchange->has_client_ended = true;
    if (has_left) {
        exchange_on_client_gone(exchange);
    }
}

/* --- answers that the proxy makes --- */

void exchange_reply(struct exchange *exchange, struct span body)
{
    drop_upstream(exchange);
    if (UNLIKELY(exchange->buffer != NULL)) {
        exchange_drop_buffer(exchange);
    }
    exchange_enter_state(exchange, EXCHANGE_REPLY);
    exchange->is_response_started = true;
    exchange->grpc_status = 0;
    exchange->is_grpc_head_error = false;
    if (exchange_is_head_request(exchange)) {
        body.len = 0;
    }
    exchange->response_bytes = body.len;
    const struct route *route = exchange->evaluation.route;
    if (route != NULL) {
        if (UNLIKELY(route->cors != NULL)) {
            cors_add_own(exchange);
        }
        if (UNLIKELY(route->edits != NULL)) {
            edits_add(exchange);
        }
        if (UNLIKELY(route->cors != NULL)) {
            cors_add_vary(exchange);
        }
    }
    if (exchange_has_sent(
            exchange, exchange->client->ops->send(exchange->client, &exchange->out, body, true))) {
        exchange_complete(exchange, clock_monotonic_us());
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
    exchange_reply(exchange, admission_missing_reply(&exchange->admission) != NULL
                                 ? reply_lacking(exchange)
                                 : reply_problem(exchange, status, fault));
}

void exchange_fail_refused(struct exchange *exchange, const char *fault)
{
    note_end(exchange, ANSWER_REFUSED, fault);
    exchange_fail(exchange, 502, fault);
}

void exchange_on_bad_head(struct exchange *exchange)
{
    const struct http_error *error = &exchange->request.error;
    exchange->request.keep_alive = false; /* the start of the next one is unknown */
    exchange_fail(exchange, error->status, error->reason);
}

void exchange_on_bad_body(struct exchange *exchange, const struct http_error *error)
{
    note_end(exchange, ANSWER_CLIENT_LEFT, error->reason); /* also where the status is 501 */
    exchange_fail(exchange, error->status, error->reason);
}
