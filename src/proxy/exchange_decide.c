/* From the request's head to the decision, and on from there when it is admitted.
 *
 * Happy path: the route is found, its limits are judged by the store, at once or later.
 *
 * Failures, each with its answer: no route (404), too large a body (413), a request that was
 * here before (508), a missing key (403), banned or denied (429), no decision (503), too
 * many that are held (503). */

#include "base/clock.h"
#include "base/limits.h"
#include "policy/matcher.h"
#include "proxy/client_address.h"
#include "proxy/counting.h"
#include "proxy/edits.h"
#include "proxy/exchange.h"
#include "proxy/exchange_steps.h"
#include "proxy/reply.h"
#include "proxy/worker.h"

/* RFC 9110 section 7.6.2: no hop may follow, so we are who is asked. */
static void answer_last_hop(struct exchange *exchange)
{
    if (span_equals(exchange->request.method, SPAN("OPTIONS"))) {
        exchange_reply(exchange, reply_options(exchange));
    } else {
        exchange_fail(exchange, 501, "TRACE ends here, by its Max-Forwards, and is not served");
    }
}

static void go_on(struct exchange *exchange, uint64_t now_us)
{
    const struct head *request = &exchange->request;
    if (exchange->route->respond != NULL) {
        exchange_reply(exchange, reply_route(exchange, exchange->route->respond));
    } else if (request->has_max_forwards && request->max_forwards == 0) {
        answer_last_hop(exchange);
    } else {
        exchange_connect(exchange, now_us);
    }
}

/* A client of its own holds a share of the places. All that comes from a trusted proxy that names
 * nobody, or on a unix socket, may be of many clients. */
static bool has_share(const struct exchange *exchange)
{
    const struct policy *policy = exchange->regime->policy;
    const struct address *client = &exchange->view.client;
    return client->family != ADDRESS_NONE &&
           !address_is_in(client, policy->trusted_proxies, policy->n_trusted_proxies);
}

/* The address by which requests that are held are counted: an IPv6 /48 is one client. */
static struct address share_of(const struct exchange *exchange)
{
    const struct address client = exchange->view.client;
    return client.family == ADDRESS_IPV6 ? address_mask(client, CLIENT_IPV6_BITS) : client;
}

/* Why a request of this client may not be held; NULL: it may, and is counted. A client may have as
 * many as there are free places when the next one comes: one client half of all, twenty together
 * 20/21, so that there is a place for another client. */
static const char *take_place(struct exchange *exchange)
{
    struct worker *worker = exchange->worker;
    const size_t n_free = precise_timers_room(&worker->holds);
    if (n_free == 0) {
        return "too many requests are held already";
    }
    if (!has_share(exchange)) {
        return NULL;
    }
    const struct address client = share_of(exchange);
    const enum status status = client_counts_add(&worker->held_clients, &client, (uint32_t)n_free);
    if (status == STATUS_FULL) {
        return "too many requests of this client are held already";
    }
    return status == STATUS_OK ? NULL : status_text(status);
}

static void give_place(struct exchange *exchange)
{
    if (has_share(exchange)) {
        const struct address client = share_of(exchange);
        client_counts_remove(&exchange->worker->held_clients, &client);
    }
}

void exchange_end_hold(struct exchange *exchange, uint64_t now_us)
{
    give_place(exchange);
    exchange->hold_us = now_us - exchange->hold_us;
    counter_down(&exchange->worker->meters->held);
}

static void on_departure(struct precise_timer *timer)
{
    struct exchange *exchange = CONTAINER_OF(timer, struct exchange, hold);
    const uint64_t now_us = clock_monotonic_us();
    exchange_end_hold(exchange, now_us);
    exchange->client->ops->hold(exchange->client, false);
    go_on(exchange, now_us);
}

/* Hold it for @wait_us, counted from now: the answer came after the store's clock was read, so it
 * is never released early. */
static void hold(struct exchange *exchange, uint64_t wait_us)
{
    const uint64_t now_us = clock_monotonic_us();
    exchange_set_state(exchange, EXCHANGE_HOLD);
    exchange->hold.on_expiry = on_departure;
    const char *refusal = take_place(exchange);
    if (refusal != NULL) {
        exchange_fail(exchange, 503, refusal);
        return;
    }
    if (precise_timer_arm(&exchange->worker->holds, &exchange->hold, now_us + wait_us) !=
        STATUS_OK) {
        give_place(exchange);
        exchange_fail(exchange, 503, "too many requests are held already");
        return;
    }
    exchange->hold_us = now_us;
    counter_up(&exchange->worker->meters->held);
    exchange->client->ops->hold(exchange->client, true);
}

static void on_admitted(struct exchange *exchange, uint64_t now_us)
{
    const uint64_t wait_us = admission_wait_us(&exchange->admission);
    if (admission_has_slots(&exchange->admission)) {
        list_push_back(&exchange->regime->slot_holders, &exchange->slot_node);
    }
    if (wait_us > 0) {
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
    histogram_add(&exchange->worker->decision_us, exchange->decide_us);
    counting_note_decision(exchange);
    on_decided(exchange, now_us);
}

static void on_answer(struct decision *decision)
{
    struct exchange *exchange = decision->context;
    exchange->is_decision_pending = false;
    on_answered(exchange, clock_monotonic_us());
}

static void decide(struct exchange *exchange, uint64_t now_us)
{
    struct decision *decision = &exchange->admission.decision;
    exchange_set_state(exchange, EXCHANGE_DECIDE);
    decision->context = exchange;
    exchange->decide_us = now_us;
    decision->now_us = now_us;
    switch (store_decide(exchange->regime->store, decision, on_answer)) {
    case STORE_ANSWERED:
        on_answered(exchange, now_us); /* from memory: not worth a look at the clock */
        return;
    case STORE_PENDING:
        exchange->is_decision_pending = true;
        return;
    }
}

static void admit(struct exchange *exchange, uint64_t now_us)
{
    const struct policy *policy = exchange->regime->policy;
    const struct ban_table *bans = bans_view_look(&exchange->worker->bans);
    const struct admission_context context = {
        .policy = policy,
        .wall_us = policy->n_calendars > 0 ? clock_wall_us() : 0,
        .bans = bans,
        .now_us = now_us,
        .first_slot = worker_new_slots(exchange->worker),
    };
    switch (admission_prepare(&exchange->admission, &context, exchange->route, &exchange->view,
                              &exchange->arena)) {
    case ADMISSION_FREE:
        go_on(exchange, now_us);
        return;
    case ADMISSION_TO_DECIDE:
        decide(exchange, now_us);
        return;
    case ADMISSION_BANNED:
        counting_note_decision(exchange);
        exchange_reply(exchange, reply_banned(exchange));
        return;
    case ADMISSION_REFUSED:
        exchange_fail(exchange, 403, "what the request is to be counted by is missing");
        return;
    case ADMISSION_AMBIGUOUS:
        exchange_fail(exchange, 400, KEY_AMBIGUITY);
        return;
    case ADMISSION_FAILED:
        exchange_fail(exchange, 503, status_text(STATUS_NO_MEMORY));
        return;
    }
}

/* --- the head --- */

/* False: without memory. */
static bool fill_view(struct exchange *exchange)
{
    const struct policy *policy = exchange->regime->policy;
    const struct head *request = &exchange->request;
    struct request_view *view = &exchange->view;
    view->head = request;
    view->host = target_normalise_host(request->host, exchange->host);
    view->client = client_address_find(policy, &exchange->peer, request);
    view->peer_is_trusted =
        address_is_in(&exchange->peer, policy->trusted_proxies, policy->n_trusted_proxies);
    view->path = &exchange->path;
    view->path_buffer = arena_alloc(&exchange->arena, request->target.path.len + 1);
    return view->path_buffer != NULL;
}

/* True if @id has 1 to REQUEST_ID_BYTES_MAX letters, digits and `-._~+/=:@`, as UUIDs, base64 and
 * the trace ids of load balancers do: nothing that a log, a shell or a page could misread. */
static bool is_plain_id(struct span id)
{
    static const char ALPHABET[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=:@";
    if (id.len > REQUEST_ID_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        if (memchr(ALPHABET, id.data[i], sizeof(ALPHABET) - 1) == NULL) {
            return false;
        }
    }
    return id.len > 0;
}

/* A client could choose the id of another request, and so make logs show the wrong one: only
 * trusted proxies may bring an id. Several fields count as none: a proxy may have added its own to
 * that of a client. */
static void read_request_id(struct exchange *exchange)
{
    const struct head *request = &exchange->request;
    struct span id = span_of("", 0);
    unsigned n_ids = 0;
    if (!exchange->view.peer_is_trusted || !head_has(request, FIELD_X_REQUEST_ID)) {
        return;
    }
    for (size_t i = 0; i < request->n_fields; i++) {
        if (request->fields[i].id == FIELD_X_REQUEST_ID) {
            id = request->fields[i].value;
            n_ids++;
        }
    }
    if (n_ids == 1 && is_plain_id(id)) {
        exchange->client_request_id = id;
    }
}

static bool is_looping(const struct exchange *exchange)
{
    return head_has(&exchange->request, FIELD_VIA) && exchange->route->upstream != NULL &&
           via_has_passed(&exchange->worker->shared->via, &exchange->request);
}

static bool is_too_large(const struct exchange *exchange)
{
    const struct head *request = &exchange->request;
    return request->body == BODY_LENGTH &&
           request->content_length > exchange->route->body_bytes_max;
}

/* What the route makes of it before its limits do. */
static void take_route(struct exchange *exchange, uint64_t now_us)
{
    if (exchange->route->edits != NULL && !edits_prepare(exchange)) {
        return;
    }
    if (is_looping(exchange)) {
        exchange_fail(exchange, 508, "the request has passed here before: the upstream leads back");
    } else if (is_too_large(exchange)) {
        exchange_fail(exchange, 413, "the request's body is too large");
    } else {
        admit(exchange, now_us);
    }
}

void exchange_on_head(struct exchange *exchange, uint64_t now_us)
{
    if (!fill_view(exchange)) {
        exchange_fail(exchange, 503, status_text(STATUS_NO_MEMORY));
        return;
    }
    read_request_id(exchange);
    const char *refusal =
        matcher_find_route(exchange->regime->policy, &exchange->view, &exchange->route);
    if (refusal != NULL) {
        exchange_fail(exchange, 400, refusal);
    } else if (exchange->route == NULL) {
        exchange_fail(exchange, 404, "no route matches");
    } else {
        take_route(exchange, now_us);
    }
}
