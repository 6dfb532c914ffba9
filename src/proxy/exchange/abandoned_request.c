/* An abandoned request: its exchange is over while a server works on it, and it holds slots of
 * concurrency limits, or its response is to report what it costs. The client has left; or it has
 * the answer to a HEAD, behind which a handler may go on; or the proxy has refused the answer.
 * Without it, a client could have any number of requests in progress, or any cost for the estimate,
 * by sending one, leaving, and sending the next; or by having the server repeat what no answer may
 * contain.
 *
 * The exchange is over: it is counted, logged, and settled except for the slots and those costs.
 * The abandoned request owns the server's connection and discards the answer. Costs are settled
 * with the answer's head. It releases the slots and closes the connection when the answer or the
 * connection has ended, when more than ABANDONED_BYTES_MAX of a body have come, or when
 * timeout.response has passed since the client left; without slots, behind the head. The server is
 * not informed that the client has left: many servers close the connection then and work on, and
 * by HTTP/2 nothing would tell when they have ended a request that was reset. Of streams that
 * nobody reads it is informed, and their slots are released, unless hold_slots of the upstream says
 * that its handlers work on: then no end frees slots but that of a whole answer, other than a 500,
 * one to HEAD, or one that may be to a HEAD made of a POST, whether or not the client is there; nor
 * does a connection that is lost before it.
 *
 * Happy path: the client resets its connection; the abandoned request waits for the answer, reads
 * it, closes the server's connection and releases the slots.
 *
 * Failures: a server that does not answer within timeout.response or closes the connection leads
 * to the same end, and a cost that it has not reported is the most that it may be. A server that
 * sends malformed HTTP may work on, and nothing but the end of its connection tells when it is
 * done. A stream of HTTP/2 that ended while its client was slow costs the same, and is not waited
 * for. Where a client has ended its connection to the server by what it sent, or has cut its
 * request, the server may work on as well (Node closes the connection at once), and so it may
 * where either side has reset a stream of HTTP/2 (Go does for a trailer or at its WriteTimeout,
 * while the handler works), behind an answer that breaks off before the request was sent whole, and
 * behind a whole answer that does not tell the end of a handler (tells_end()). Then the slots are
 * kept until timeout.response, without a connection.
 *
 * A client may have as many as there are free places when its next one comes, of
 * ABANDONED_REQUESTS_MAX in a worker: so no client takes the last one. Without a place, or for a
 * request that is cut where too many connections were closed in order, the connection is closed at
 * once, that cost is charged, and the slots expire with their leases, so that clients gain nothing
 * by making abandoned requests; behind a whole answer the slots are released with it, since its
 * client has done nothing wrong. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/grpc.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/hop_by_hop.h"
#include "proxy/exchange/made_head.h"
#include "proxy/meters.h"
#include "proxy/settlement.h"

struct abandoned_request {
    struct upstream_user user;      /* of the connection */
    struct upstream *upstream;      /* NULL: the connection is lost, and the server may work on */
    struct exchange_config *config; /* acquired */
    struct list node;               /* in env->abandoned_requests */
    struct timeout timeout;
    struct loop_task start;
    bool is_cut;     /* the server was not sent all of the request */
    bool is_counted; /* in env->abandoning_clients, as @client */
    struct address client;
    bool is_conditional;          /* the request has a condition or a Range */
    bool offers_upgrade;          /* a 101 is an answer to the request */
    bool reads_to_close;          /* what comes is no answer */
    bool holds_slots;             /* hold_slots of the upstream */
    bool may_make_head;           /* the server, of the request */
    enum made_head made_head;     /* of the answer, once its head has come */
    enum answer_end end;          /* of the exchange */
    uint64_t body_bytes;          /* received since the client left; with made_head of all */
    const struct cost_spec *cost; /* that the response is to report; NULL: none, or it has */
    struct head response;
    struct admission admission; /* its slots; their keys follow the fields */
    struct slot_holder slots;
    struct field fields[]; /* for the answer's head */
};

/* --- the places --- */

/* Count @abandoned, of the client of @exchange. False: there is no place for it. */
static bool take_place(struct abandoned_request *abandoned, const struct exchange *exchange)
{
    struct proxy_env *env = exchange->env;
    const uint64_t n = counter_read(&env->meters->abandoned);
    if (n >= ABANDONED_REQUESTS_MAX) {
        return false;
    }
    abandoned->is_counted = exchange_find_client(exchange, &abandoned->client);
    if (abandoned->is_counted &&
        client_counts_add(&env->abandoning_clients, &abandoned->client,
                          (uint32_t)(ABANDONED_REQUESTS_MAX - n)) != STATUS_OK) {
        return false;
    }
    counter_up(&env->meters->abandoned);
    return true;
}

static void leave_place(struct abandoned_request *abandoned, struct proxy_env *env)
{
    if (abandoned->is_counted) {
        client_counts_remove(&env->abandoning_clients, &abandoned->client);
    }
    counter_down(&env->meters->abandoned);
}

/* --- the end --- */

/* Settle the costs that @response reports; NULL: there is none. */
static void settle_cost(struct abandoned_request *abandoned, const struct head *response)
{
    const bool is_evicted = abandoned->end == ANSWER_EVICTED;
    struct outcome outcome = {.end = is_evicted ? ANSWER_EVICTED : ANSWER_CLIENT_LEFT};
    if (abandoned->cost == NULL) {
        return;
    }
    outcome.reported_cost = abandoned->cost->max;
    outcome.is_cost_reported =
        response == NULL || cost_of_response(abandoned->cost, response, abandoned->is_cut,
                                             abandoned->is_conditional, &outcome.reported_cost);
    settlement_make_costs(&abandoned->admission, &outcome, abandoned->config->store);
    abandoned->cost = NULL;
}

static void end(struct abandoned_request *abandoned)
{
    struct exchange_config *config = abandoned->config;
    settle_cost(abandoned, NULL);
    const struct outcome outcome = {.end = ANSWER_CLIENT_LEFT}; /* slots do not depend on it */
    if (abandoned->upstream != NULL) {
        upstream_close(abandoned->upstream);
    }
    settlement_make(&abandoned->admission, &outcome, config->store);
    list_remove(&abandoned->slots.node);
    list_remove(&abandoned->node);
    leave_place(abandoned, config->env);
    timeout_disarm(&abandoned->timeout);
    loop_task_cancel(&abandoned->start);
    free(abandoned);
    exchange_config_release(config);
}

static void on_timeout(struct timeout *timeout)
{
    end(CONTAINER_OF(timeout, struct abandoned_request, timeout));
}

/* --- the answer --- */

static struct abandoned_request *abandoned_request_of(struct upstream_user *user)
{
    return CONTAINER_OF(user, struct abandoned_request, user);
}

/* Nothing more that comes on the connection tells when the server has ended its work: the slots
 * stay until the timeout, without the connection. */
static void keep_slots(struct abandoned_request *abandoned)
{
    struct upstream *upstream = abandoned->upstream;
    if (!admission_has_slots(&abandoned->admission)) {
        end(abandoned);
        return;
    }
    settle_cost(abandoned, NULL);
    loop_task_cancel(&abandoned->start);
    abandoned->upstream = NULL;
    upstream_close(upstream);
}

/* Whether a server whose connection is lost may work on: that tells nothing of it where its client
 * has ended the connection or cut its request, or the proxy has refused what a stream of HTTP/2
 * brought, or the server has reset it, or hold_slots is said. */
static bool may_work_on(const struct abandoned_request *abandoned)
{
    const struct upstream *upstream = abandoned->upstream;
    const bool is_refused = upstream->is_lost && upstream->is_refused;
    if (abandoned->holds_slots) {
        return !upstream_is_unprocessed(upstream);
    }
    return (upstream->is_own_end || upstream->is_reset || is_refused || abandoned->is_cut) &&
           upstream_is_at_work(upstream);
}

/* The connection is lost. */
static void lose(struct abandoned_request *abandoned)
{
    if (may_work_on(abandoned)) {
        keep_slots(abandoned);
    } else {
        end(abandoned);
    }
}

/* What has come is no answer, and says nothing of the server's work: the slots stay until it closes
 * the connection. False: there are none. */
static bool read_to_close(struct abandoned_request *abandoned)
{
    if (!admission_has_slots(&abandoned->admission)) {
        end(abandoned);
        return false;
    }
    settle_cost(abandoned, NULL);
    abandoned->reads_to_close = true;
    upstream_read_to_close(abandoned->upstream);
    return true;
}

/* Whether the end of @response tells that the handler has ended. It does not where others than the
 * handler may have answered while it works on: a gateway that has lost its answer; or a server or
 * gateway to which the body is too large (a proxy may have sent it all by then), or which was not
 * sent all of it, as Node, hypercorn, nginx and Go's proxy say 400, 408, 413, 502; or a cache,
 * which says 412 or 416 by the handler's head. A handler may answer alike. */
static bool tells_end(uint16_t http_status, unsigned grpc_status, bool is_cut, bool is_conditional)
{
    return !answer_is_doubtful(http_status, grpc_status, is_cut, is_conditional) &&
           !(is_cut && grpc_answer_status(http_status, grpc_status) >= 400);
}

/* Whether @user was answered a HEAD behind which its handler may make a body, or by Apache, which
 * says 500 where it has lost the answer of a program by FastCGI, or by Rack::Deflater, which says
 * 406 for an encoding that it does not have when it has called the handler, or by a cache. */
static bool may_outlive(const struct upstream_user *user, bool is_conditional)
{
    const struct head *response = user->response;
    const bool may_have_body =
        user->is_head_request && response->status != 204 && response->status != 304;
    return may_have_body || response->status == 500 || response->status == 406 ||
           (is_conditional && answer_is_of_condition(response->status));
}

/* Ignored: progress in sending the request, the first byte, a head whose body has not begun. */
static void on_nothing(struct upstream_user *user)
{
    (void)user;
}

static bool on_interim(struct upstream_user *user)
{
    (void)user;
    return true;
}

static bool on_switch(struct upstream_user *user)
{
    struct abandoned_request *abandoned = abandoned_request_of(user);
    if (abandoned->offers_upgrade) {
        end(abandoned);
        return false;
    }
    return read_to_close(abandoned);
}

/* What comes is a stream, or too much to read: the server learns that nobody reads it. */
static void leave_stream(struct abandoned_request *abandoned)
{
    if (abandoned->holds_slots) {
        keep_slots(abandoned);
    } else {
        end(abandoned);
    }
}

static bool on_head(struct upstream_user *user)
{
    struct abandoned_request *abandoned = abandoned_request_of(user);
    const struct head *response = user->response;
    if (!tells_end(response->status, grpc_head_status(response), abandoned->is_cut,
                   abandoned->is_conditional)) {
        if (response->body != BODY_UNTIL_CLOSE) { /* Node's own; a handler's may say a cost */
            settle_cost(abandoned, response);
        }
        keep_slots(abandoned);
        return false;
    }
    settle_cost(abandoned, response);
    abandoned->made_head = abandoned->may_make_head ? made_head_of(response) : MADE_HEAD_NONE;
    const bool is_emptied =
        response->body == BODY_NONE && made_head_is_empty(abandoned->made_head, 0);
    if (abandoned->holds_slots && (may_outlive(user, abandoned->is_conditional) || is_emptied)) {
        keep_slots(abandoned);
        return false;
    }
    if (upstream_may_go_on(abandoned->upstream)) {
        return read_to_close(abandoned);
    }
    if (response->body != BODY_NONE && exchange_is_event_stream(response)) {
        leave_stream(abandoned);
        return false;
    }
    if (response->body == BODY_NONE || !admission_has_slots(&abandoned->admission)) {
        end(abandoned);
        return false;
    }
    return true;
}

/* Small blocks are enough, and pipes are not supported. */
static size_t await_room(struct upstream_user *user)
{
    (void)user;
    return SMALL_BLOCK_BYTES;
}

static bool on_body(struct upstream_user *user, struct span piece, bool last)
{
    struct abandoned_request *abandoned = abandoned_request_of(user);
    abandoned->body_bytes += piece.len;
    if (last && abandoned->reads_to_close) {
        lose(abandoned);
        return false;
    }
    if (last && made_head_is_empty(abandoned->made_head, abandoned->body_bytes)) {
        keep_slots(abandoned);
        return false;
    }
    if (last) {
        end(abandoned);
        return false;
    }
    if (abandoned->body_bytes > ABANDONED_BYTES_MAX) {
        leave_stream(abandoned);
        return false;
    }
    return true;
}

static bool is_blocked(struct upstream_user *user)
{
    (void)user;
    return false;
}

static void on_lost(struct upstream_user *user)
{
    lose(abandoned_request_of(user));
}

static void on_bad(struct upstream_user *user, const char *reason)
{
    struct abandoned_request *abandoned = abandoned_request_of(user);
    (void)reason;
    if (abandoned->upstream->is_lost) {
        lose(abandoned);
    } else {
        (void)read_to_close(abandoned);
    }
}

static bool find_client(struct upstream_user *user, struct address *client)
{
    const struct abandoned_request *abandoned = abandoned_request_of(user);
    *client = abandoned->client;
    return abandoned->is_counted;
}

/* Without on_connected and on_pipe: the connection is established, and pipes are not supported. */
static const struct upstream_events EVENTS = {
    .on_progress = on_nothing,
    .on_drained = on_nothing,
    .on_byte = on_nothing,
    .on_interim = on_interim,
    .on_switch = on_switch,
    .on_head = on_head,
    .on_head_alone = on_nothing,
    .await_room = await_room,
    .on_body = on_body,
    .is_blocked = is_blocked,
    .on_lost = on_lost,
    .on_bad = on_bad,
    .find_client = find_client,
};

/* The exchange no longer uses the bytes that it was handling: continue after them. */
static void on_start(struct loop_task *task)
{
    upstream_pump(CONTAINER_OF(task, struct abandoned_request, start)->upstream);
}

/* --- the beginning --- */

/* Whether the response is still to report a cost. One that is refused is not, but where its client
 * has had the connection ended: the server may work on. */
static bool awaits_cost(const struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream;
    const bool is_refused = upstream != NULL && upstream->is_refused && !upstream->is_own_end;
    return exchange->evaluation.route->cost.kind == COST_RESPONSE_HEADER && !is_refused &&
           !exchange->is_response_started && !exchange->is_head_pending &&
           settlement_awaits_cost(&exchange->admission);
}

static bool holds_slots(const struct exchange *exchange)
{
    return exchange->evaluation.route->upstream->hold_slots;
}

/* Whether an answer has failed or broken off, and no end of the connection is waited for. */
static bool has_broken_off(const struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream;
    return (exchange->end == ANSWER_SERVER_FAILED || exchange->end == ANSWER_REFUSED) &&
           (upstream->is_lost || !upstream->is_refused);
}

/* Whether what is answered piece by piece has been left, by whichever side: the server knows at
 * once, but its handler may go on. */
static bool is_stream_left(const struct exchange *exchange)
{
    return (exchange->is_event_stream || exchange->is_call_answered) &&
           exchange->end != ANSWER_WHOLE;
}

/* Whether what has come of the answer may be all of one to a HEAD that the server has made. */
static bool is_of_made_head(const struct exchange *exchange)
{
    return made_head_is_empty(exchange->made_head, exchange->response_bytes);
}

/* Whether what the server did does not tell the end of its handler: an answer that it has begun, or
 * with hold_slots the end of its connection, or its silence, without one. One that breaks off in
 * the middle of the body does not: nginx closes so for a body that is too large. */
static bool hides_end(const struct exchange *exchange)
{
    if (!exchange->is_response_started && !exchange->is_head_pending) {
        return holds_slots(exchange) && !upstream_is_unprocessed(exchange->upstream) &&
               (has_broken_off(exchange) || exchange->upstream->is_lost);
    }
    const unsigned grpc_status = exchange->is_grpc_head_error ? exchange->grpc_status : 0;
    const bool is_cut = exchange_is_request_cut(exchange);
    const bool is_conditional = answer_meets_condition(
        exchange->response.status, &exchange->request, exchange->evaluation.route);
    return !tells_end(exchange->response.status, grpc_status, is_cut, is_conditional) ||
           (has_broken_off(exchange) && is_cut) ||
           (holds_slots(exchange) &&
            (is_stream_left(exchange) || has_broken_off(exchange) ||
             may_outlive(&exchange->upstream_user, is_conditional) ||
             (exchange->end == ANSWER_WHOLE && is_of_made_head(exchange))));
}

/* Whether the client of @exchange has left, or was evicted from, what a server may still work on,
 * or has ended its connection, or the server has reset its stream, or the proxy has refused its
 * answer, or a handler may go on behind an answer to HEAD. Event streams, calls of gRPC that are
 * being answered, and tunnels are excluded: their connections are closed, or their streams reset,
 * so their servers learn at once that the client has left. */
static bool is_left(const struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream;
    return (exchange->end == ANSWER_CLIENT_LEFT || exchange->end == ANSWER_EVICTED ||
            upstream->is_own_end || upstream->is_reset || upstream->is_refused ||
            upstream_may_go_on(upstream)) &&
           exchange->state == EXCHANGE_FORWARD && !exchange->is_event_stream &&
           !exchange->is_call_answered;
}

/* Whether the request has failed, and no server has it but one that it was sent to before. */
static bool is_left_before(const struct exchange *exchange)
{
    return exchange->was_left_at_work && exchange->end != ANSWER_WHOLE &&
           (exchange->upstream == NULL || exchange->state != EXCHANGE_FORWARD ||
            !upstream_is_at_work(exchange->upstream));
}

/* Bytes of all keys: more than those of its slots need. */
static size_t key_bytes(const struct admission *admission)
{
    size_t bytes = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        bytes += admission->charges[i].key.len;
    }
    return bytes;
}

/* The slots of @exchange are those of @abandoned from here on, in the same place among the holders
 * of slots, and so are costs that are awaited. @keys: memory of key_bytes(). */
static void take_charges(struct abandoned_request *abandoned, struct exchange *exchange, char *keys)
{
    struct admission *admission = &abandoned->admission;
    settlement_move(&exchange->admission, admission, abandoned->cost != NULL);
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        struct span *key = &admission->charges[i].key;
        memcpy(keys, key->data, key->len);
        *key = span_of(keys, key->len);
        keys += key->len;
    }
    abandoned->slots.admission = admission;
    abandoned->slots.renewed_us = exchange->slots.renewed_us;
    abandoned->slots.left = exchange->slots.left;
    abandoned->slots.phase = exchange->slots.phase;
    list_push_back(&exchange->slots.node, &abandoned->slots.node);
    list_remove(&exchange->slots.node);
}

/* The response is not waited for: it costs as much as it may. NULL: no cost is awaited. */
static void charge_most(struct exchange *exchange, const struct cost_spec *cost)
{
    if (cost != NULL) {
        exchange->is_cost_reported = true;
        exchange->reported_cost = cost->max;
    }
}

/* Take the connection of @exchange. False: it cannot be handed over. */
static bool take_upstream(struct abandoned_request *abandoned, const struct exchange *exchange)
{
    struct upstream *upstream = exchange->upstream;
    abandoned->user = exchange->upstream_user;
    abandoned->upstream = upstream;
    abandoned->user.events = &EVENTS;
    abandoned->user.response = &abandoned->response;
    abandoned->user.fields = abandoned->fields;
    abandoned->user.n_trailers = 0;
    abandoned->user.keeps_body = false;
    abandoned->offers_upgrade = exchange->is_upgrade_offered;
    abandoned->reads_to_close = upstream->is_refused || upstream_may_go_on(upstream);
    const bool is_head_cut = upstream->stream_ops == NULL && stream_is_blocked(&upstream->stream);
    abandoned->is_cut = exchange_is_request_cut(exchange) || is_head_cut;
    abandoned->is_conditional =
        request_has_condition(&exchange->request, exchange->evaluation.route);
    if (abandoned->is_cut && upstream->stream_ops == NULL && !upstream_end_request(upstream)) {
        return false;
    }
    if (!upstream_hand_over(upstream, &abandoned->user)) {
        return false;
    }
    if (abandoned->reads_to_close) {
        upstream_read_to_close(upstream);
    }
    return true;
}

static bool begin(struct abandoned_request *abandoned, const struct exchange *exchange,
                  bool with_connection)
{
    *abandoned = (struct abandoned_request){.upstream = NULL};
    if (!take_place(abandoned, exchange)) {
        return false;
    }
    if (with_connection && !take_upstream(abandoned, exchange)) {
        leave_place(abandoned, exchange->env);
        return false;
    }
    return true;
}

bool abandoned_request_take(struct exchange *exchange)
{
    struct proxy_env *env = exchange->env;
    struct upstream *upstream = exchange->upstream;
    const bool was_left = is_left_before(exchange);
    const bool is_end_hidden =
        was_left ||
        (upstream != NULL && exchange->state == EXCHANGE_FORWARD && hides_end(exchange));
    if (!is_end_hidden && (upstream == NULL || !is_left(exchange))) {
        return false;
    }
    const struct cost_spec *cost = awaits_cost(exchange) ? &exchange->evaluation.route->cost : NULL;
    const bool is_lost = upstream == NULL || upstream->is_lost;
    const bool is_at_work = upstream != NULL && upstream_is_at_work(upstream);
    if (is_lost || is_end_hidden || !is_at_work) {
        const bool was_at_work =
            was_left || ((is_lost || is_end_hidden) && !upstream_is_unprocessed(upstream));
        charge_most(exchange, was_at_work ? cost : NULL);
        cost = NULL;
    }
    const bool is_needed = (is_at_work || is_end_hidden) &&
                           (cost != NULL || admission_has_slots(&exchange->admission));
    if (!is_needed) {
        return false;
    }
    bool with_connection = !is_lost && !is_end_hidden;
    const size_t fields_bytes =
        with_connection ? exchange->upstream_user.n_fields_max * sizeof(struct field) : 0;
    struct abandoned_request *abandoned =
        malloc(sizeof(*abandoned) + fields_bytes + key_bytes(&exchange->admission));
    bool has_begun = abandoned != NULL && begin(abandoned, exchange, with_connection);
    if (!has_begun) {
        charge_most(exchange, cost);
        cost = NULL;
        /* Where the connection cannot be handed over, the slots stay without it. */
        with_connection = false;
        has_begun = abandoned != NULL && admission_has_slots(&exchange->admission) &&
                    begin(abandoned, exchange, with_connection);
    }
    if (!has_begun) {
        free(abandoned);
        settlement_forget_slots(&exchange->admission); /* they stay to the end of their lease */
        return false;
    }
    abandoned->config = exchange_config_acquire(exchange->config);
    abandoned->cost = cost;
    abandoned->holds_slots = holds_slots(exchange);
    abandoned->may_make_head = exchange_may_make_head(exchange);
    if (is_of_made_head(exchange)) {
        abandoned->made_head = exchange->made_head;
        abandoned->body_bytes = exchange->response_bytes;
    }
    abandoned->end = exchange->end;
    take_charges(abandoned, exchange, (char *)abandoned->fields + fields_bytes);
    list_push_back(&env->abandoned_requests, &abandoned->node);
    timeout_init(&abandoned->timeout, on_timeout);
    timeout_arm(&abandoned->timeout, &exchange->server->group->response_timeouts,
                clock_monotonic_us());
    loop_task_init(&abandoned->start, on_start);
    if (with_connection) {
        loop_at_iteration_end(env->loop, &abandoned->start);
    } else if (upstream != NULL) {
        upstream_close(upstream);
    }
    return true;
}

void abandoned_requests_end(struct proxy_env *env)
{
    struct list *node = env->abandoned_requests.next;
    while (node != &env->abandoned_requests) {
        struct list *next = node->next;
        end(CONTAINER_OF(node, struct abandoned_request, node));
        node = next;
    }
}
