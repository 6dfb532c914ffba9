/* Chooses a server and gets a connection for the request; does so again if that connection dies.
 *
 * Happy path: an idle connection is ready at once. If the connections of a server are limited, the
 * request may have to wait for one of them.
 *
 * Failures: if a server cannot be reached, any request goes to the next address or server, since
 * nothing was sent (502 when none is left, 504 on timeout); so it does without a port of the proxy,
 * which is no failure of a server (503), and if TLS with a server fails, but never to the same one
 * without TLS. If a connection dies before the first byte of the answer, the request goes to the
 * next server, provided that it has no body and is idempotent or was not written yet; or that a
 * server of HTTP/2 says that it did nothing for it, and what was sent of its body is kept. A reused
 * connection that dies says nothing about its server, which closed it while the request was on its
 * way: the next connection is then a new one, and the same server may be asked again when no other
 * is left. */

#include "base/clock.h"
#include "policy/key.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_buffer.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/hop_by_hop.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"
#include "tls/tls_stream.h"

enum {
    OFFER_BYTES = 512,
    CONNECT_TIMEOUTS_MAX = 3,   /* per request: a client does not wait for 256 dead servers */
    DECLINES_MAX = 4,           /* per request, beyond its retries: a server may decline all */
    ON_ITS_WAY_US = 250 * 1000, /* a connection that ends later had the request at its server */
};

static const char UNREACHABLE[] = "the upstream cannot be reached";
static const char TOO_SLOW[] = "the upstream did not accept a connection in time";
static const char INSECURE_IN_TIME[] =
    "the TLS handshake with the upstream was not complete in time";
static const char WITHOUT_DESCRIPTOR[] =
    "no file descriptor is left for a connection to the upstream";
static const char WITHOUT_PORT[] = "no local port is left for a connection to the upstream";
static const char LOST[] = "the upstream closed the connection before its answer was complete";
static const char REFUSED[] = "the upstream ended the request for what it says";
static const char GIVEN_UP[] = "the upstream closed the connection while the client was slow";
static const char UNANSWERED[] =
    "the upstream closed the connection without an answer, after a slow upload";

static struct upstream_group *group_of(const struct exchange *exchange)
{
    return exchange->config->upstreams[exchange->evaluation.route->upstream->index];
}

/* --- waiting for a connection slot --- */

static void on_grant(struct upstream_waiter *waiter);

static void wait_for_slot(struct exchange *exchange)
{
    struct upstream_waiter *waiter = &exchange->waiter;
    *waiter = (struct upstream_waiter){
        .on_grant = on_grant, .group = group_of(exchange), .choice = &exchange->choice};
    exchange_set_state(exchange, EXCHANGE_QUEUE);
    if (upstream_queue_enter(waiter, exchange->connect_started_us) != STATUS_OK) {
        counter_up(&counting_upstream(exchange)->queue_refused[METER_QUEUE_FULL]);
        exchange_fail(exchange, 503, "as many requests wait for the upstream as may");
        return;
    }
    exchange->is_queued = true;
    counter_up(&counting_upstream(exchange)->waiting);
    exchange->queued_at_us = exchange->connect_started_us;
    exchange->client->ops->hold(exchange->client, true);
}

/* The wait is over, by a grant or by the end of the exchange. */
static void end_wait(struct exchange *exchange)
{
    exchange->is_queued = false;
    counter_down(&counting_upstream(exchange)->waiting);
    exchange->queued_us += clock_monotonic_us() - exchange->queued_at_us;
}

void exchange_leave_queue(struct exchange *exchange)
{
    struct upstream_waiter *waiter = &exchange->waiter;
    end_wait(exchange);
    if (!upstream_queue_leave(waiter)) {
        exchange->server = waiter->server; /* it may have been a probe */
        upstream_queue_return_grant(waiter, clock_monotonic_us());
    }
}

void exchange_on_queue_timeout(struct exchange *exchange)
{
    if (!upstream_queue_leave(&exchange->waiter)) {
        return; /* it has a grant, and on_grant() is about to be called */
    }
    end_wait(exchange);
    counter_up(&counting_upstream(exchange)->queue_refused[METER_QUEUE_TIMEOUT]);
    exchange->client->ops->hold(exchange->client, false);
    exchange_fail(exchange, 503, "no connection to the upstream became free in time");
}

/* --- one server after another --- */

/* A connection is ready, or being made. */
static void go_down(struct exchange *exchange, bool is_ready, uint64_t now_us)
{
    if (is_ready) {
        exchange_forward(exchange, now_us);
    } else {
        exchange_set_state(exchange, EXCHANGE_CONNECT);
    }
}

static enum upstream_use use_of(const struct exchange *exchange)
{
    if (exchange->choice.fresh) {
        return UPSTREAM_FRESH;
    }
    return exchange->request.is_idempotent && exchange->request.body == BODY_NONE ? UPSTREAM_ANY
                                                                                  : UPSTREAM_SURE;
}

static bool offers_upgrade(const struct exchange *exchange)
{
    char buffer[OFFER_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct head *request = &exchange->request;
    return request->has_upgrade &&
           (upgrade_write_offer(request, exchange->evaluation.route, &text) || text.truncated);
}

/* The exchange as the user of an upstream connection. */
static struct upstream_user *user_of(struct exchange *exchange)
{
    const struct upstream_spec *spec = exchange->evaluation.route->upstream;
    exchange->upstream_user = (struct upstream_user){
        .events = &EXCHANGE_UPSTREAM_EVENTS,
        .pools = exchange->config->pools,
        .response = &exchange->response,
        .fields = exchange->fields + exchange->request.n_fields,
        .n_fields_max = spec->n_fields_max,
        .head_bytes_max = spec->head_bytes_max,
        .trailers = exchange->upstream_user.trailers,
        .n_trailers = exchange->upstream_user.n_trailers,
        .is_head_request = exchange_is_head_request(exchange),
        .needs_http1 = spec->may_speak_http2 && offers_upgrade(exchange),
        .takes_pipes = exchange->client->tls == NULL && !exchange->client->is_http2,
    };
    return &exchange->upstream_user;
}

/* Get a connection to exchange->server, and go on with it. Errors as of upstream_acquire(). */
static enum status try_server(struct exchange *exchange)
{
    bool is_ready;
    const enum status status = upstream_acquire(exchange->server, user_of(exchange),
                                                use_of(exchange), &exchange->upstream, &is_ready);
    if (status == STATUS_OK) {
        go_down(exchange, is_ready, exchange->connect_started_us);
    }
    return status;
}

/* exchange->server could not be reached at one of its addresses; or, with OUTCOME_INCONCLUSIVE, the
 * proxy lacks a port for it, or is late with TLS itself. */
static void note_unreachable(struct exchange *exchange, enum upstream_outcome outcome)
{
    upstream_name_on_failure(exchange->server);
    if (++exchange->choice.n_addresses >= exchange->server->n_addresses) {
        exchange->choice.n_addresses = 0;
        exchange_note_outcome(exchange, outcome);
    }
}

/* No server is left: those whose names have no address could not be reached either. */
static void note_nameless(struct exchange *exchange)
{
    struct upstream_group *group = group_of(exchange);
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        if (group->servers[i].n_addresses == 0) {
            upstream_outcome_note(&group->servers[i], &exchange->choice,
                                  &exchange->evaluation.view.client, exchange->connect_started_us,
                                  OUTCOME_UNREACHABLE);
        }
    }
}

/* Choose another server, into exchange->server. CHOICE_FULL also while other requests wait. */
static enum choice_result choose(struct exchange *exchange)
{
    struct upstream_group *group = group_of(exchange);
    struct upstream_server *server = NULL;
    if (group->is_limited && upstream_queue_is_used(&group->process->queue)) {
        return upstream_choice_is_left(group, &exchange->choice) ? CHOICE_FULL : CHOICE_NONE;
    }
    const enum choice_result result =
        upstream_choice_make(group, &exchange->choice, exchange->connect_started_us, &server);
    if (result == CHOICE_MADE) {
        exchange->server = server;
    }
    return result;
}

/* Whether another attempt may follow the one at exchange->server with the result @tried. */
static bool may_go_on(struct exchange *exchange, enum status tried)
{
    if (tried == STATUS_OK) {
        return false;
    }
    if (tried == STATUS_UNREACHABLE || tried == STATUS_NO_PORT) {
        note_unreachable(exchange,
                         tried == STATUS_NO_PORT ? OUTCOME_INCONCLUSIVE : OUTCOME_UNREACHABLE);
        return true;
    }
    if (tried == STATUS_IN_USE) { /* its last slot was taken meanwhile */
        exchange->choice.n_addresses = 0;
        upstream_choice_withdraw(&exchange->choice, exchange->server, exchange->connect_started_us);
        return true;
    }
    /* The proxy lacks resources. */
    exchange_fail(exchange, 503, tried == STATUS_FULL ? WITHOUT_DESCRIPTOR : status_text(tried));
    return false;
}

/* Try the next address or server; fail with @status and @fault when none is left. */
static void try_next(struct exchange *exchange, uint64_t now_us, uint16_t status, const char *fault)
{
    exchange->connect_started_us = now_us;
    for (;;) {
        const enum choice_result choice =
            exchange->choice.n_addresses > 0 ? CHOICE_MADE : choose(exchange);
        if (choice == CHOICE_FULL) {
            wait_for_slot(exchange);
            return;
        }
        if (choice == CHOICE_NONE) {
            note_nameless(exchange);
            exchange_fail(exchange, status, fault);
            return;
        }
        const enum status tried = try_server(exchange);
        if (!may_go_on(exchange, tried)) {
            return;
        }
        if (tried == STATUS_UNREACHABLE) {
            status = 502;
            fault = UNREACHABLE;
        } else if (tried == STATUS_NO_PORT) {
            status = 503;
            fault = WITHOUT_PORT;
        }
    }
}

/* The attempt at exchange->server failed with @tried. */
static void go_on(struct exchange *exchange, enum status tried, uint64_t now_us)
{
    const bool lacks_port = tried == STATUS_NO_PORT;
    if (may_go_on(exchange, tried)) {
        try_next(exchange, now_us, lacks_port ? 503 : 502, lacks_port ? WITHOUT_PORT : UNREACHABLE);
    }
}

/* Of several cookies the first counts: the choice of a server limits no client. False: the key is
 * ambiguous, and the request is to be refused. */
static bool read_balance_key(struct exchange *exchange, const struct upstream_group *group)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const enum key_result result =
        key_read(&group->spec->balance_key, KEY_MISSING_SKIP, &exchange->evaluation.view,
                 exchange->config->policy->store.secret, &text);
    exchange->choice.has_key = result == KEY_READ;
    if (exchange->choice.has_key) {
        exchange->choice.key = hash_table(&group->hash_key, text_span(&text));
    }
    return result != KEY_IS_AMBIGUOUS;
}

/* Until exchange_on_client_gone(), which is called in this iteration or the next. */
COLD static void await_reset(struct exchange *exchange)
{
    exchange_set_state(exchange, EXCHANGE_BUFFER);
}

void exchange_connect(struct exchange *exchange, uint64_t now_us)
{
    const struct upstream_group *group = group_of(exchange);
    if (UNLIKELY(exchange->client->is_leaving)) {
        await_reset(exchange);
        return;
    }
    if (group->spec->balance == BALANCE_HASH && !read_balance_key(exchange, group)) {
        exchange_fail(exchange, 400, KEY_AMBIGUITY);
        return;
    }
    try_next(exchange, now_us, 502, "no address of the upstream is known");
}

static void on_grant(struct upstream_waiter *waiter)
{
    struct exchange *exchange = CONTAINER_OF(waiter, struct exchange, waiter);
    bool is_ready;
    end_wait(exchange);
    exchange->client->ops->hold(exchange->client, false);
    exchange->connect_started_us = clock_monotonic_us();
    exchange->server = waiter->server;
    const enum status status = upstream_acquire_granted(user_of(exchange), waiter, use_of(exchange),
                                                        &exchange->upstream, &is_ready);
    if (status == STATUS_OK) {
        go_down(exchange, is_ready, exchange->connect_started_us);
    } else {
        go_on(exchange, status, exchange->connect_started_us);
    }
}

/* --- results of an attempt --- */

static void drop(struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_FORWARD) {
        exchange->is_repeated = true;
        exchange->was_at_server =
            exchange->was_at_server || !upstream_is_unprocessed(exchange->upstream);
    }
    upstream_close(exchange->upstream);
    exchange->upstream = NULL;
}

void exchange_on_connected(struct upstream_user *user, enum status status)
{
    struct exchange *exchange = exchange_of(user);
    if (status == STATUS_OK) {
        exchange->choice.n_addresses = 0;
        exchange_forward(exchange, clock_monotonic_us());
        return;
    }
    drop(exchange);
    go_on(exchange, status, clock_monotonic_us());
}

void exchange_on_moved(struct upstream_user *user, struct upstream *upstream)
{
    exchange_of(user)->upstream = upstream;
}

/* The server takes no connection for an upgrade: ask it without one. */
static void go_on_without_upgrade(struct exchange *exchange)
{
    exchange_note_outcome(exchange, OUTCOME_INCONCLUSIVE);
    drop(exchange);
    exchange->choice.n_addresses = 0;
    exchange->choice.stale = exchange->server;
    counter_up(&counting_upstream(exchange)->retries);
    try_next(exchange, clock_monotonic_us(), 502, LOST);
}

/* @words and @reason, which may come from the server, for log and problem document. */
static const char *keep_reason(struct exchange *exchange, const char *words, const char *reason)
{
    char buffer[TLS_REASON_BYTES + 64];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, span_of_text(words));
    text_add(&text, span_of_text(reason));
    const struct span kept = arena_copy(&exchange->arena, text_span(&text));
    return kept.data != NULL ? kept.data : words;
}

void exchange_on_insecure(struct upstream_user *user, const char *reason)
{
    struct exchange *exchange = exchange_of(user);
    const char *fault = keep_reason(exchange, "no TLS with the upstream: ", reason);
    if (upstream_refuses_upgrade(exchange->upstream)) {
        go_on_without_upgrade(exchange);
        return;
    }
    drop(exchange);
    note_unreachable(exchange, OUTCOME_INSECURE);
    try_next(exchange, clock_monotonic_us(), 502, fault);
}

void exchange_on_connect_timeout(struct exchange *exchange)
{
    const bool is_connected = upstream_is_securing(exchange->upstream);
    const bool is_late_here = is_connected && upstream_waits_here(exchange->upstream);
    const enum upstream_outcome outcome = is_late_here   ? OUTCOME_INCONCLUSIVE
                                          : is_connected ? OUTCOME_INSECURE
                                                         : OUTCOME_UNACCEPTED;
    const char *fault = is_connected ? INSECURE_IN_TIME : TOO_SLOW;
    if (is_connected && !is_late_here) {
        upstream_name_report_insecure(exchange->server, "it was not complete in timeout.connect");
    }
    drop(exchange);
    note_unreachable(exchange, outcome);
    if (++exchange->choice.n_timeouts >= CONNECT_TIMEOUTS_MAX) {
        if (exchange->choice.n_addresses > 0) { /* some addresses are left untried */
            exchange_note_outcome(exchange, outcome);
        }
        exchange_fail(exchange, 504, fault);
        return;
    }
    try_next(exchange, clock_monotonic_us(), 504, fault);
}

/* Whether the policy says, with hold_slots, that the server which has the request works on. */
static bool is_said_to_work_on(const struct exchange *exchange)
{
    return exchange->evaluation.route->upstream->hold_slots &&
           !upstream_is_unprocessed(exchange->upstream);
}

/* Whether a server may be at work on the request, or have done it, so that one more handler would
 * be one that no limit has counted, or two at a slot. A connection of HTTP/2 that ends with an
 * error does so for one of its requests, which is seldom this one, unless all are its client's: it
 * goes on, but for a slot. */
static bool is_counted_work(const struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream;
    const bool is_own_loss = upstream->stream_ops == NULL || upstream->is_reset ||
                             upstream->is_own_end || upstream->is_blameless_end;
    const bool is_counted =
        is_own_loss ? admission_is_counted(&exchange->admission)
                    : is_said_to_work_on(exchange) && admission_has_slots(&exchange->admission);
    return is_counted && !upstream_is_unprocessed(upstream) &&
           clock_monotonic_us() - exchange->touched_us > ON_ITS_WAY_US;
}

/* Whether the request may be sent once more: no byte of an answer has come, the request is
 * idempotent or has not been processed at all, and it has no body, or it is unprocessed and the
 * body is here. A refusal may be untrue, as where the server behind a gateway died of the request:
 * it allows one that is not idempotent a single time. One that a server has had for a while it may
 * have done, or be at work on still, where its client has ended the connection. */
static bool may_repeat(const struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream;
    const bool is_unsent = upstream_is_unprocessed(upstream);
    const bool has_whole_body =
        exchange->request.body == BODY_NONE ||
        (is_unsent && (exchange->upstream_user.keeps_body ||
                       (exchange->request_bytes == 0 && exchange->buffer == NULL)));
    const bool is_safe = exchange->request.is_idempotent ||
                         (is_unsent && !(upstream->is_unproven && exchange->choice.is_unproven));
    return !exchange->has_upstream_answered && is_safe && has_whole_body &&
           !(upstream->is_own_end && upstream->is_old) && !is_counted_work(exchange);
}

/* Whether its client kept the server waiting, which may have given up for that. A request that is
 * whole, or a stream, goes to another server instead if it may. */
static bool was_given_up(const struct exchange *exchange)
{
    return exchange_has_delayed_server(exchange) && exchange->upstream->end_reason == NULL &&
           !((exchange->is_server_http2 || exchange->is_request_sent) && may_repeat(exchange));
}

static const char *describe_end(const struct exchange *exchange)
{
    const char *own = exchange->upstream->end_reason;
    return own != NULL ? own : LOST;
}

/* Why the connection was lost, and what that says of its server. */
static const char *read_loss(struct exchange *exchange, enum upstream_outcome *outcome)
{
    bool is_of_handshake = false;
    const char *alert = upstream_alert(exchange->upstream, &is_of_handshake);
    if (alert == NULL) {
        return describe_end(exchange);
    }
    if (is_of_handshake) {
        *outcome = OUTCOME_INSECURE;
        upstream_name_report_insecure(exchange->server, alert);
    }
    return keep_reason(exchange, "the upstream refused TLS: ", alert);
}

/* A request that may have ended the connection of others, or that the server has, is charged
 * whatever becomes of it; so are all that the client of a connection has ended with it. */
static void fail_lost(struct exchange *exchange, enum upstream_loss loss, const char *fault)
{
    if (loss == LOSS_SUSPECT || loss == LOSS_REFUSED || loss == LOSS_CROWDED ||
        exchange->upstream->is_own_end) {
        exchange_fail_refused(exchange, fault);
    } else {
        exchange_fail(exchange, 502, fault);
    }
}

/* How a stream was lost, and what that says of its server. */
static enum upstream_loss read_stream_loss(struct exchange *exchange,
                                           enum upstream_outcome *outcome)
{
    const enum upstream_loss loss =
        upstream_loss_of(exchange->upstream, *outcome != OUTCOME_INCONCLUSIVE);
    *outcome = loss == LOSS_PLAIN ? *outcome : OUTCOME_INCONCLUSIVE;
    return loss;
}

/* Servers of WebSockets close a connection for a path that they do not know: that is no failure, or
 * a client could eject them. */
static bool was_closed_for_upgrade(const struct exchange *exchange)
{
    return !exchange->has_upstream_answered && exchange->upstream->stream_ops == NULL &&
           offers_upgrade(exchange);
}

/* A server that refuses a request need not read its body. What closes behind the answer then comes
 * as a reset, which may cut it. */
static bool was_refused_unread(const struct exchange *exchange)
{
    return (exchange->is_response_started || exchange->is_head_pending) &&
           exchange->response.status / 100 == 4 && exchange->request.body != BODY_NONE;
}

/* Whether the attempt that ended with @loss says nothing of its server, so that it costs none of
 * the request's retries. A refusal that may be untrue is free once. One that is suspect, or was one
 * of too many, is sent once more, on a connection of its client's own. */
static bool is_free(struct upstream_choice *choice, enum upstream_loss loss, bool is_unproven)
{
    switch (loss) {
    case LOSS_SUSPECT:
        return !choice->fresh;
    case LOSS_CROWDED:
        return true;
    case LOSS_DECLINED:
        return !(is_unproven && choice->is_unproven) && choice->n_declined++ < DECLINES_MAX;
    case LOSS_PLAIN:
    case LOSS_SHARED:
    case LOSS_REFUSED:
        break;
    }
    return false;
}

/* Whether the server of a lost stream may work on; with hold_slots, any that has the request. */
static bool was_left_at_work(const struct exchange *exchange)
{
    const struct upstream *upstream = exchange->upstream;
    return (upstream->is_lost && upstream_is_at_work(upstream)) || is_said_to_work_on(exchange);
}

void exchange_on_lost(struct upstream_user *user)
{
    struct exchange *exchange = exchange_of(user);
    struct upstream_choice *choice = &exchange->choice;
    if (was_given_up(exchange)) {
        exchange_note_outcome(exchange, OUTCOME_INCONCLUSIVE);
        if (exchange->is_request_sent && !exchange->is_response_started) {
            /* It may have done all of it. */
            exchange_fail_refused(exchange, UNANSWERED);
        } else {
            exchange_fail(exchange, 408, GIVEN_UP);
        }
        return;
    }
    if (!exchange->has_upstream_answered && may_repeat(exchange) &&
        upstream_refuses_upgrade(exchange->upstream)) {
        go_on_without_upgrade(exchange);
        return;
    }
    bool was_kept = exchange->upstream->is_reused && !exchange->has_upstream_answered;
    const bool says_nothing =
        was_kept || was_closed_for_upgrade(exchange) || was_refused_unread(exchange);
    enum upstream_outcome outcome = says_nothing ? OUTCOME_INCONCLUSIVE : OUTCOME_LOST;
    const char *fault = was_kept ? describe_end(exchange) : read_loss(exchange, &outcome);
    const enum upstream_loss loss = read_stream_loss(exchange, &outcome);
    fault = loss == LOSS_CROWDED ? REFUSED : fault;
    exchange_note_outcome(exchange, outcome);
    if (loss == LOSS_REFUSED || (loss == LOSS_CROWDED && choice->is_alone)) {
        exchange_fail_refused(exchange, REFUSED);
        return;
    }
    was_kept = was_kept || is_free(choice, loss, exchange->upstream->is_unproven);
    choice->is_alone = choice->is_alone || loss == LOSS_CROWDED;
    if (!may_repeat(exchange) ||
        (!was_kept && choice->n_deaths >= exchange->evaluation.route->upstream->retries) ||
        (exchange->upstream_user.keeps_body && !exchange_recover_body(exchange))) {
        fail_lost(exchange, loss, fault);
        return;
    }
    /* A server that has declined it may take it on another connection. */
    choice->n_deaths += !was_kept;
    choice->is_unproven = choice->is_unproven || exchange->upstream->is_unproven;
    if (was_kept || loss == LOSS_DECLINED || exchange->upstream->is_declined) {
        choice->stale = exchange->server;
        choice->fresh = true;
    }
    exchange->was_left_at_work = exchange->was_left_at_work || was_left_at_work(exchange);
    drop(exchange);
    counter_up(&counting_upstream(exchange)->retries);
    try_next(exchange, clock_monotonic_us(), 502, fault);
}

void exchange_on_refused(struct upstream_user *user, uint16_t status, const char *reason)
{
    struct exchange *exchange = exchange_of(user);
    exchange_note_outcome(exchange, OUTCOME_INCONCLUSIVE);
    drop(exchange);
    exchange_fail(exchange, status, reason);
}
