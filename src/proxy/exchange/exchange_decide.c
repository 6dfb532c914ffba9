/* Takes a request from its head to the decision, and on from there if it is admitted.
 *
 * Happy path: the route is found, and the store judges its limits, at once or later.
 *
 * Failures, each with its answer: a refusal by request_evaluate() (its status), a ban or a denial
 * (429), no decision (503), too many held requests (503), departures that are apart (400). */

#include <stdatomic.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "proxy/client_address.h"
#include "proxy/core/via.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_buffer.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/reply.h"
#include "proxy/meters.h"
#include "proxy/request_evaluate.h"
#include "tls/tls_stream.h"

enum { UNBELIEVED_LOG_US = 60 * 1000 * 1000 };

/* The policy refuses the request for its token: a whole answer, as one of a server. */
static void refuse(struct exchange *exchange)
{
    exchange->fault = exchange->evaluation.reason;
    exchange_reply(exchange, reply_problem(exchange, exchange->evaluation.status, exchange->fault));
}

static void go_on(struct exchange *exchange, uint64_t now_us)
{
    exchange->has_departed = true;
    if (exchange->evaluation.status == 0) {
        if (exchange->request.body == BODY_NONE || exchange->awaits_body_first) {
            exchange_choose_server(exchange, now_us);
        } else {
            exchange_await_body(exchange, now_us);
        }
    } else if (exchange->evaluation.reason != NULL && exchange->evaluation.status < 500) {
        refuse(exchange);
    } else if (exchange->evaluation.reason != NULL) {
        exchange_fail(exchange, exchange->evaluation.status, exchange->evaluation.reason);
    } else {
        /* A preflight, or OPTIONS whose Max-Forwards is 0. */
        const struct reply_spec empty = {.status = exchange->evaluation.status};
        const struct reply_spec *respond =
            exchange->evaluation.is_preflight ? NULL : exchange->evaluation.route->respond;
        exchange_reply(exchange, reply_route(exchange, respond != NULL ? respond : &empty));
    }
}

bool exchange_find_client(const struct exchange *exchange, struct address *found)
{
    const struct address *client = &exchange->evaluation.view.client;
    *found = address_of_client(client);
    return client_address_is_own(exchange->config->policy, client);
}

/* Why a request of this client may not be held; NULL: it may, and is counted. A client may hold as
 * many requests as there are free slots when its next one comes. So one client can fill half of the
 * slots, twenty together 20/21, and a slot is left for another client. */
static const char *acquire_slot(struct exchange *exchange)
{
    struct proxy_env *env = exchange->env;
    const size_t n_free = precise_timers_room(&env->holds);
    if (n_free == 0) {
        return "too many requests are held already";
    }
    struct address client;
    if (!exchange_find_client(exchange, &client)) {
        return NULL;
    }
    const enum status status = client_counts_add(&env->held_clients, &client, (uint32_t)n_free);
    if (status == STATUS_FULL) {
        return "too many requests of this client are held already";
    }
    return status == STATUS_OK ? NULL : status_text(status);
}

static void release_slot(struct exchange *exchange)
{
    struct address client;
    if (exchange_find_client(exchange, &client)) {
        client_counts_remove(&exchange->env->held_clients, &client);
    }
}

void exchange_end_hold(struct exchange *exchange, uint64_t now_us)
{
    release_slot(exchange);
    exchange->hold_us = now_us - exchange->hold_us;
    counter_down(&exchange->env->meters->held);
}

static void on_departure(struct precise_timer *timer)
{
    struct exchange *exchange = CONTAINER_OF(timer, struct exchange, hold);
    const uint64_t now_us = clock_monotonic_us();
    exchange_end_hold(exchange, now_us);
    exchange->client->ops->hold(exchange->client, false);
    go_on(exchange, now_us);
}

/* Hold the request for @wait_us from now. The store read its clock before its answer came, so the
 * request is never released early. */
static void hold(struct exchange *exchange, uint64_t wait_us)
{
    const uint64_t now_us = clock_monotonic_us();
    exchange_set_state(exchange, EXCHANGE_HOLD);
    exchange->hold.on_expiry = on_departure;
    const char *refusal = acquire_slot(exchange);
    if (refusal != NULL) {
        exchange_fail(exchange, 503, refusal);
        return;
    }
    if (precise_timer_arm(&exchange->env->holds, &exchange->hold, now_us + wait_us) != STATUS_OK) {
        release_slot(exchange);
        exchange_fail(exchange, 503, "too many requests are held already");
        return;
    }
    exchange->hold_us = now_us;
    counter_up(&exchange->env->meters->held);
    exchange->client->ops->hold(exchange->client, true);
    exchange_lend_slots(exchange);
}

static void on_admitted(struct exchange *exchange, uint64_t now_us)
{
    uint64_t wait_us;
    const bool has_departure = admission_find_wait(&exchange->admission, &wait_us);
    if (admission_has_slots(&exchange->admission)) {
        exchange_hold_slots(exchange, now_us);
    }
    if (UNLIKELY(!has_departure)) { /* its places are taken: its limits count it */
        exchange_fail(exchange, 400, KEY_AMBIGUITY);
    } else if (wait_us > 0) {
        hold(exchange, wait_us);
    } else {
        go_on(exchange, now_us);
    }
}

static void on_decided(struct exchange *exchange, uint64_t now_us)
{
    const struct decision *decision = &exchange->admission.decision;
    if (decision->status != STATUS_OK) {
        exchange->fault = status_text(decision->status);
        exchange_reply(exchange, reply_undecided(exchange));
    } else if (!decision->allowed) {
        exchange_reply(exchange, reply_denied(exchange));
    } else {
        on_admitted(exchange, now_us);
    }
}

/* The store has answered, at once or later. */
static void on_answered(struct exchange *exchange, uint64_t now_us)
{
    exchange->decide_us = now_us - exchange->decide_us;
    histogram_add(&exchange->env->decision_us, exchange->decide_us);
    counting_note_decision(exchange);
    on_decided(exchange, now_us);
}

static void on_answer(struct decision *decision)
{
    struct exchange *exchange = decision->context;
    exchange->is_decision_pending = false;
    on_answered(exchange, clock_monotonic_us());
}

/* Set the client that the decision is counted to: none if it is not known, or is a trusted proxy
 * that named no client. */
static void name_client(struct exchange *exchange)
{
    const struct policy *policy = exchange->config->policy;
    const struct request_view *view = &exchange->evaluation.view;
    if (LIKELY(!view->peer_is_trusted) ||
        !address_is_in(&view->client, policy->trusted_proxies, policy->n_trusted_proxies)) {
        exchange->admission.decision.client = view->client;
    }
}

static void decide(struct exchange *exchange, uint64_t now_us)
{
    struct decision *decision = &exchange->admission.decision;
    exchange_set_state(exchange, EXCHANGE_DECIDE);
    decision->context = exchange;
    exchange->decide_us = now_us;
    decision->now_us = now_us;
    name_client(exchange);
    switch (store_decide(exchange->config->store, decision, on_answer)) {
    case STORE_ANSWERED:
        on_answered(exchange, now_us); /* from memory: the clock is not read again */
        return;
    case STORE_PENDING:
        exchange->is_decision_pending = true;
        return;
    }
}

/* A request that a limit may hold is decided when the start of its body has come. Otherwise a
 * client could miss its departures on purpose, and send the bodies of all of them at once. */
COLD static void put_off(struct exchange *exchange, uint64_t now_us)
{
    struct decision *decision = &exchange->admission.decision;
    exchange->awaits_body_first = true;
    exchange->n_put_off = (unsigned)decision->n_charges;
    decision->n_charges = 0; /* nothing is decided if it ends before */
    exchange_await_body(exchange, now_us);
}

void exchange_on_body_awaited(struct exchange *exchange, uint64_t now_us)
{
    if (exchange->n_put_off > 0) {
        exchange->admission.decision.n_charges = exchange->n_put_off;
        exchange->n_put_off = 0;
        decide(exchange, now_us);
    } else {
        exchange_choose_server(exchange, now_us);
    }
}

/* --- the head --- */

/* Only trusted proxies may bring an id: a client could copy the id of another request and mislead
 * the reader of a log. */
static void read_request_id(struct exchange *exchange)
{
    if (exchange->evaluation.view.peer_is_trusted &&
        head_has(&exchange->request, FIELD_X_REQUEST_ID)) {
        exchange->client_request_id = policy_head_request_id(&exchange->request);
    }
}

/* Evaluate, and count the signatures of tokens and the tokens that are refused. */
static enum evaluation_result evaluate_counting(struct exchange *exchange,
                                                const struct evaluation_context *context)
{
    struct worker_meters *meters = exchange->env->meters;
    const struct evaluation *evaluation = &exchange->evaluation;
    const uint64_t before = jwt_verifier_n_signatures(context->verifier);
    const enum evaluation_result result =
        request_evaluate(context, &exchange->request, &exchange->peer, &exchange->evaluation);
    counter_add(&meters->token_signatures, jwt_verifier_n_signatures(context->verifier) - before);
    if (evaluation->refused_token.status != 0 && evaluation->refused_token.kind != TOKEN_UNREAD) {
        counter_up(&meters->tokens_refused[evaluation->refused_token.kind]);
    }
    return result;
}

static enum evaluation_result evaluate(struct exchange *exchange, uint64_t now_us)
{
    const struct policy *policy = exchange->config->policy;
    const struct evaluation_context context = {
        .admission =
            {
                .policy = policy,
                .wall_us = policy->n_calendars + policy->n_providers > 0 ? clock_wall_us() : 0,
                .bans = bans_view_if_any(&exchange->env->bans),
                .tenants = tenants_view_if_any(&exchange->env->tenants),
                .now_us = now_us,
                .first_slot = proxy_env_new_slots(exchange->env),
            },
        .own_name = via_name(exchange->env->via),
        .verifier = policy->n_providers > 0 ? exchange->env->verifier : NULL,
        .store = exchange->config->store,
        .geo_cache = &exchange->config->geo_cache,
        .identity = exchange->client->identity,
        .tls = exchange->client->tls != NULL ? tls_client_of(exchange->client->tls) : NULL,
    };
    exchange->evaluation.admission = &exchange->admission;
    exchange->evaluation.arena = &exchange->arena;
    if (UNLIKELY(context.verifier != NULL)) {
        return evaluate_counting(exchange, &context);
    }
    return request_evaluate(&context, &exchange->request, &exchange->peer, &exchange->evaluation);
}

/* A field that names a client came from a peer that is not trusted. If the peer is a proxy of the
 * operator, all its clients count as one, so it is logged: once a minute in the whole process, and
 * apart for near peers, so that strangers cannot keep them out of the log. */
COLD static void note_forwarded_ignored(const struct exchange *exchange, uint64_t now_us)
{
    static atomic_uint_fast64_t next_logs_us[2];
    const bool near = address_is_near(&exchange->peer);
    atomic_uint_fast64_t *next_log_us = &next_logs_us[near];
    uint_fast64_t due_us = atomic_load_explicit(next_log_us, memory_order_relaxed);
    counter_up(&exchange->env->meters->forwarded_ignored);
    if (now_us < due_us ||
        !atomic_compare_exchange_strong(next_log_us, &due_us, now_us + UNBELIEVED_LOG_US)) {
        return;
    }
    char buffer[ADDRESS_TEXT_MAX];
    struct text peer = text_of(buffer, sizeof(buffer));
    address_write(&exchange->peer, &peer);
    log_warn("proxy.client", "forwarded field ignored", "peer=%.*s field=%s hint=\"%s\"",
             SPAN_ARGS(text_span(&peer)),
             head_has(&exchange->request, FIELD_X_FORWARDED_FOR) ? "X-Forwarded-For" : "Forwarded",
             near
                 ? "if it is a proxy of yours, name it in trusted_proxies: its clients count as one"
                 : "a client sent it itself, or a proxy that is not in trusted_proxies");
}

/* A plan has a name that its limit does not know: the limit's own rates count. Logged once a minute
 * in the whole process. */
COLD static void note_unknown_plan(const struct exchange *exchange, uint64_t now_us)
{
    static atomic_uint_fast64_t next_log_us;
    const struct admission *admission = &exchange->admission;
    uint_fast64_t due_us = atomic_load_explicit(&next_log_us, memory_order_relaxed);
    counter_up(&exchange->env->meters->unknown_plans);
    if (now_us < due_us ||
        !atomic_compare_exchange_strong(&next_log_us, &due_us, now_us + UNBELIEVED_LOG_US)) {
        return;
    }
    char buffer[4 * NAME_BYTES_MAX + 3];
    struct text name = text_of(buffer, sizeof(buffer));
    text_add_logfmt(&name, span_of(admission->unknown_name, admission->unknown_len));
    log_warn("proxy.plan", "unknown plan: the limit's own rate counts", "limit=%.*s plan=%.*s",
             SPAN_ARGS(admission->unknown_plan->name), SPAN_ARGS(text_span(&name)));
}

static bool is_forwarded_ignored(const struct exchange *exchange)
{
    static const uint64_t FIELDS = UINT64_C(1) << FIELD_X_FORWARDED_FOR | UINT64_C(1)
                                                                              << FIELD_FORWARDED;
    const struct request_view *view = &exchange->evaluation.view;
    return (exchange->request.known & FIELDS) != 0 && view->head != NULL && !view->peer_is_trusted;
}

static bool has_unknown_plan(const struct exchange *exchange, enum evaluation_result result)
{
    return (result == EVALUATION_TO_DECIDE || result == EVALUATION_FREE) &&
           exchange->evaluation.route != NULL && exchange->admission.unknown_plan != NULL;
}

void exchange_on_head(struct exchange *exchange, uint64_t now_us)
{
    const enum evaluation_result result = evaluate(exchange, now_us);
    if (is_forwarded_ignored(exchange)) {
        note_forwarded_ignored(exchange, now_us);
    }
    if (UNLIKELY(exchange->config->policy->has_plans) && has_unknown_plan(exchange, result)) {
        note_unknown_plan(exchange, now_us);
    }
    read_request_id(exchange);
    switch (result) {
    case EVALUATION_TO_DECIDE:
        if (UNLIKELY(exchange->request.body != BODY_NONE && exchange->evaluation.status == 0 &&
                     admission_is_shaped(&exchange->admission))) {
            put_off(exchange, now_us);
        } else {
            decide(exchange, now_us);
        }
        return;
    case EVALUATION_FREE:
        go_on(exchange, now_us);
        return;
    case EVALUATION_BANNED:
        counting_note_decision(exchange);
        exchange_reply(exchange, reply_denied(exchange));
        return;
    case EVALUATION_REFUSED:
    case EVALUATION_FAILED:
        exchange_fail(exchange, exchange->evaluation.status, exchange->evaluation.reason);
        return;
    }
}
