/* Happy path: decide ─► a ticket with a deadline ─► EVALSHA on the link, one write per loop
 * iteration for all ─► the reply's integers become verdicts ─► the answer.
 *
 * Failures; each decision is answered exactly once:
 *   the first attempt to connect, or a trial,   the ticket waits for it until its deadline
 *   is under way
 *   the link is down, or its breaker open       answered at once
 *   no reply by the deadline                    STATUS_TIMEOUT; the ticket stays as an abandoned
 *                                               request until its reply comes or the link is lost
 *   NOSCRIPT (the server was restarted, its     EVAL of the same call, once, if the decision still
 *   scripts were flushed, or SCRIPT LOAD of     waits
 *   added limits failed)
 *   CL.THROTTLE is gone (see redis_handshake.h)      EVALSHA instead
 *   another error, a malformed reply            see the table of store/redis_fault.h
 *   the link is lost                            answered with the fault of the link
 * Charges of a lost or late call stay: a call is sent again only after NOSCRIPT or a lost
 * CL.THROTTLE. A slot that a late or cancelled call took is released when its reply comes, and so
 * are those charges of a cancelled one that its caller names.
 * A cancelled call is counted to its client until the reply, the loss of the link or the deadline:
 * a client that leaves has no more calls in flight than one that waits. */

#include "store/redis_store.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/memory.h"
#include "limit/limit.h"
#include "net/loop.h"
#include "store/client_calls.h"
#include "store/redis/redis_connection.h"
#include "store/redis/redis_reply.h"
#include "store/redis/redis_store_inner.h"
#include "store/redis_process.h"

enum { TICKETS_KEPT = 1024 };

/* --- answers --- */

static void give_back(struct redis_ticket *ticket)
{
    assert(ticket->decision == NULL);
    pool_give(&ticket->store->tickets, ticket);
}

/* Take the decision off @ticket, which stays with the caller. */
static struct decision *detach(struct redis_ticket *ticket)
{
    struct decision *decision = ticket->decision;
    ticket->decision = NULL;
    timeout_disarm(&ticket->deadline);
    list_remove(&ticket->node);
    return decision;
}

/* @fault: the cause of a failure, if it is a fault of Redis. */
static void fill(struct redis_store *store, struct decision *decision, enum status status,
                 enum redis_fault fault)
{
    decision->status = status;
    decision->source = DECISION_REDIS;
    decision->fault = fault;
    store->fault = fault;
    if (status != STATUS_OK) {
        store->counters.n_failures++;
        counter_up(&store->meters->failures[fault]);
    }
}

static void fill_fault(struct redis_store *store, struct decision *decision, enum redis_fault fault)
{
    fill(store, decision, redis_fault_row(fault)->status, fault);
}

/* Answer the decision and free @ticket. REDIS_FAULT_NONE: success. */
static void answer(struct redis_ticket *ticket, enum redis_fault fault)
{
    struct decision *decision = detach(ticket);
    fill_fault(ticket->store, decision, fault);
    give_back(ticket);
    store_answer(decision);
}

/* --- abandoned requests --- */

/* The decision of @ticket ends before its reply: record in @ticket which slots its call takes. */
static void abandon(struct redis_ticket *ticket)
{
    ticket->client = NULL;
    ticket->returned = NULL;
    const struct decision *decision = ticket->decision;
    struct redis_store *store = ticket->store;
    struct settlement releases[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        if (decision->aim == DECISION_ADMIT && charge->limit->algorithm->has_slots &&
            charge->cost > 0) {
            releases[n++] = (struct settlement){
                .limit = charge->limit,
                .key = charge->key,
                .client = &decision->client,
                .kind = SETTLE_RELEASE,
                .slot = charge->slot,
            };
        }
    }
    if (n > 0) {
        ticket->release = redis_settlement_write(store, releases, n);
        store->n_releases_owed += ticket->release != NULL;
    }
}

/* Count the call of @ticket, whose decision is cancelled, to its client. */
static void begin_client_call(struct redis_ticket *ticket)
{
    struct redis_store *store = ticket->store;
    const struct address *client = &ticket->decision->client;
    if (store->options.calls != NULL && client->family != ADDRESS_NONE) {
        ticket->client = client_calls_begin(store->options.calls, client);
    }
    if (ticket->client == NULL) {
        timeout_disarm(&ticket->deadline);
    } else if (store->is_node) {
        timeout_arm(&ticket->deadline, &store->deadlines, clock_monotonic_us());
    }
}

static void end_client_call(struct redis_ticket *ticket)
{
    if (ticket->client != NULL) {
        client_calls_end(ticket->store->options.calls, ticket->client);
        ticket->client = NULL;
    }
}

/* The late reply to an abandoned request, or NULL: its result is unknown. Slots that it took are
 * released if it was admitted. */
static void end_abandoned(struct redis_ticket *ticket, const struct redis_reply *reply)
{
    struct redis_store *store = ticket->store;
    const bool admitted = reply != NULL && reply->kind == REDIS_REPLY_IS_INTS &&
                          reply->n_ints > 0 && reply->ints[0] > 0;
    store->counters.n_late_replies += reply != NULL;
    counter_add(&store->meters->late_replies, reply != NULL);
    store->n_releases_owed -= ticket->release != NULL;
    timeout_disarm(&ticket->deadline);
    end_client_call(ticket);
    if (ticket->returned != NULL) {
        redis_return_end(ticket->returned, reply);
    }
    if (admitted && ticket->release != NULL) {
        redis_settlement_send(store, ticket->release);
    } else {
        free(ticket->release);
    }
}

static void expire(struct redis_ticket *ticket)
{
    struct redis_store *store = ticket->store;
    if (!list_is_empty(&ticket->node)) {
        answer(ticket, REDIS_FAULT_DEADLINE); /* never sent */
        return;
    }
    abandon(ticket);
    struct decision *decision = detach(ticket);
    redis_breaker_note_failure(&store->link.breaker, REDIS_FAULT_DEADLINE, SPAN("no reply in time"),
                               &decision->client, ticket->is_trial);
    fill_fault(store, decision, REDIS_FAULT_DEADLINE);
    store_answer(decision);
}

static void on_deadline(struct timeout *timeout)
{
    struct redis_ticket *ticket = CONTAINER_OF(timeout, struct redis_ticket, deadline);
    if (timeout_restart_if_held(timeout, &ticket->store->deadlines, &ticket->was_restarted)) {
        return; /* the call may not have left before now */
    }
    if (ticket->decision == NULL) {
        end_client_call(ticket);
    } else {
        expire(ticket);
    }
}

void redis_store_expire(struct decision *decision)
{
    expire(decision->frames[decision->n_frames - 1].state);
}

/* --- replies --- */

static bool read_answer(const struct redis_ticket *ticket, const struct redis_reply *reply)
{
    return ticket->was_cell ? redis_answer_read_cell(reply, ticket->decision)
                            : redis_answer_read(reply, ticket->decision);
}

static enum status send_call(struct redis_ticket *ticket, uint64_t now_us);

static bool send_again(struct redis_ticket *ticket)
{
    return redis_link_may_send(&ticket->store->link) &&
           send_call(ticket, clock_monotonic_us()) == STATUS_OK;
}

static bool send_script(struct redis_ticket *ticket)
{
    if (ticket->was_eval) {
        return false;
    }
    ticket->was_eval = true;
    return send_again(ticket);
}

/* A node that does not own a slot, or only part of it, works: the cluster store must ask again. */
static bool is_reported_elsewhere(enum redis_fault fault)
{
    return redis_fault_row(fault)->reaction == REDIS_REDIRECT || fault == REDIS_FAULT_TRYAGAIN;
}

static void on_fault(struct redis_ticket *ticket, const struct redis_reply *reply)
{
    struct redis_store *store = ticket->store;
    const struct span text = redis_reply_text(reply);
    const enum redis_fault fault = redis_fault_of(text);
    const enum redis_reaction reaction = redis_fault_row(fault)->reaction;
    if ((reaction == REDIS_SEND_SCRIPT && send_script(ticket)) ||
        (ticket->was_cell && redis_cell_is_lost(&store->link.handshake.cell, text) &&
         send_again(ticket))) {
        return;
    }
    if (reaction == REDIS_DROP) {
        redis_link_drop(&store->link, fault, text);
    } else if (store->is_node && is_reported_elsewhere(fault)) {
        redis_link_note_success(&store->link);
    } else {
        redis_breaker_note_failure(&store->link.breaker, fault, text, &ticket->decision->client,
                                   ticket->is_trial);
    }
    store->fault_text = text;
    answer(ticket, fault);
    store->fault_text = SPAN("");
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_ticket *ticket = CONTAINER_OF(call, struct redis_ticket, call);
    struct redis_store *store = ticket->store;
    if (ticket->decision == NULL) {
        end_abandoned(ticket, reply);
        give_back(ticket);
    } else if (reply == NULL) {
        answer(ticket, redis_link_fault(&store->link));
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(ticket, reply);
    } else if (read_answer(ticket, reply)) {
        redis_link_note_success(&store->link);
        answer(ticket, REDIS_FAULT_NONE);
    } else {
        redis_link_drop(&store->link, REDIS_FAULT_MALFORMED, SPAN("a reply that makes no sense"));
        answer(ticket, REDIS_FAULT_MALFORMED);
    }
}

/* --- calls --- */

static struct span write_call(const struct redis_ticket *ticket)
{
    struct redis_command *command = &ticket->store->command;
    const struct decision *decision = ticket->decision;
    if (ticket->was_cell) {
        return redis_command_throttle(command, &decision->charges[0]);
    }
    return ticket->was_eval ? redis_command_eval(command, decision)
                            : redis_command_evalsha(command, decision);
}

static enum status send_call(struct redis_ticket *ticket, uint64_t now_us)
{
    struct redis_store *store = ticket->store;
    ticket->was_cell = redis_cell_takes(&store->link.handshake.cell, ticket->decision);
    const struct span command = write_call(ticket);
    if (command.len == 0) {
        return STATUS_TOO_LARGE;
    }
    enum status status = STATUS_OK;
    if (ticket->asking) {
        status = redis_link_send_asking(&store->link, now_us);
    }
    if (status == STATUS_OK) {
        status = redis_link_send(&store->link, command, &ticket->call, now_us);
    }
    if (status == STATUS_OK) {
        store->counters.n_calls++;
        counter_up(&store->meters->calls);
    }
    return status;
}

/* Send the first call of @ticket. */
static enum status send_first(struct redis_ticket *ticket, uint64_t now_us)
{
    redis_settlements_send_before(ticket->store, ticket->decision);
    const enum status status = send_call(ticket, now_us);
    if (status == STATUS_OK) {
        ticket->is_trial = redis_breaker_note_asked(&ticket->store->link.breaker);
    }
    return status;
}

/* The link or its breaker has changed: waiting decisions are sent or fail. */
static void on_change(void *owner)
{
    struct redis_store *store = owner;
    redis_operations_on_change(store);
    redis_heartbeat_on_change(store);
    while (!list_is_empty(&store->waiting)) {
        struct redis_ticket *ticket = CONTAINER_OF(store->waiting.next, struct redis_ticket, node);
        const enum redis_link_readiness readiness = redis_link_readiness(&store->link);
        if (readiness == REDIS_LINK_WAIT) {
            return;
        }
        if (readiness == REDIS_LINK_FAILS) {
            answer(ticket, redis_link_fault(&store->link));
        } else if (send_first(ticket, clock_monotonic_us()) == STATUS_OK) {
            list_remove(&ticket->node);
        } else {
            answer(ticket, REDIS_FAULT_RESET);
        }
    }
}

static struct redis_ticket *take_ticket(struct redis_store *store, struct decision *decision)
{
    struct redis_ticket *ticket = pool_take(&store->tickets);
    if (ticket != NULL) {
        ticket->call = (struct redis_call){.on_reply = on_reply};
        ticket->store = store;
        ticket->decision = decision;
        ticket->was_eval = false;
        ticket->was_cell = false;
        ticket->asking = store->asking;
        ticket->is_trial = false;
        ticket->was_restarted = false;
        ticket->release = NULL;
        timeout_init(&ticket->deadline, on_deadline);
        list_init(&ticket->node);
    }
    return ticket;
}

/* Send the call of @decision, or queue it when @is_to_wait. STATUS_OK: the decision is pending. */
static enum status ask(struct redis_store *store, struct decision *decision, bool is_to_wait)
{
    if (store->tickets.n_taken >= REDIS_PENDING_MAX) {
        return STATUS_FULL;
    }
    struct redis_ticket *ticket = take_ticket(store, decision);
    if (ticket == NULL) {
        return STATUS_NO_MEMORY;
    }
    const uint64_t now_us = decision->now_us != 0 ? decision->now_us : clock_monotonic_us();
    if (is_to_wait) {
        list_push_back(&store->waiting, &ticket->node);
    } else {
        const enum status status = send_first(ticket, now_us);
        if (status != STATUS_OK) {
            detach(ticket);
            give_back(ticket);
            return status;
        }
    }
    if (!store->is_node) {
        timeout_arm(&ticket->deadline, &store->deadlines, now_us);
    }
    decision->frames[decision->n_frames - 1].state = ticket;
    return STATUS_OK;
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct redis_store *redis = redis_store_of(store);
    const enum redis_link_readiness readiness = redis_link_readiness(&redis->link);
    if (readiness == REDIS_LINK_FAILS) {
        fill_fault(redis, decision, redis_link_fault(&redis->link));
        return STORE_ANSWERED;
    }
    const enum status status = ask(redis, decision, readiness == REDIS_LINK_WAIT);
    if (status == STATUS_OK) {
        return STORE_PENDING;
    }
    fill(redis, decision, status, REDIS_FAULT_NONE);
    return STORE_ANSWERED;
}

static void cancel(struct store *store, struct decision *decision)
{
    struct redis_store *redis = redis_store_of(store);
    struct redis_ticket *ticket = decision->frames[decision->n_frames - 1].state;
    if (!list_is_empty(&ticket->node)) {
        detach(ticket); /* never sent */
        give_back(ticket);
        return;
    }
    redis_breaker_note_cancelled(&redis->link.breaker, ticket->is_trial);
    abandon(ticket);
    begin_client_call(ticket);
    ticket->returned = redis_return_new(ticket);
    ticket->decision = NULL;
}

static bool takes_identical(const struct store *store, const struct decision *decision)
{
    (void)store;
    (void)decision;
    return true;
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    struct redis_store *redis = redis_store_of(store);
    redis_renewals_end(redis, settlements, n);
    redis_settlement_send(redis, redis_settlement_write(redis, settlements, n));
}

static bool can_settle(struct store *store, const struct settlement *settlement)
{
    struct redis_store *redis = redis_store_of(store);
    return redis_link_may_settle(&redis->link) && redis_settlement_has_room(redis, settlement);
}

static uint64_t count_losses(const struct store *store, enum decision_source source)
{
    (void)source;
    return *redis_store_of_const(store)->n_losses;
}

/* --- limits --- */

static void use_latest_limits(struct redis_store *redis)
{
    redis->options.limits = redis_command_latest(&redis->command, &redis->options.n_limits);
}

/* Redis loads the script before the calls that follow on the connection. If it does not, NOSCRIPT
 * is the reply to the first of them. */
static void load_script(struct redis_store *redis)
{
    const struct span words[] = {SPAN("SCRIPT"), SPAN("LOAD"), redis->command.source};
    struct redis_wire wire = {0};
    if (redis_wire_add(&wire, words, ARRAY_LEN(words)) == STATUS_OK) {
        (void)!redis_link_send_unanswered(&redis->link, redis_wire_span(&wire),
                                          clock_monotonic_us());
    }
    redis_wire_free(&wire);
}

static enum status add_limits(struct store *store, const struct limit *limits, size_t n_limits)
{
    struct redis_store *redis = redis_store_of(store);
    struct redis_link *link = &redis->link;
    const unsigned n_scripts = redis->command.n_scripts;
    const enum status status = redis_command_add_limits(&redis->command, limits, n_limits);
    if (status != STATUS_OK) {
        return status;
    }
    use_latest_limits(redis);
    link->source = redis->command.source;
    if (link->state == REDIS_LINK_UP && !link->handshake.cell.is_there) {
        /* If this cannot be sent, the link is about to be lost, and the next one probes again. */
        (void)!redis_cell_probe(&link->handshake.cell, &link->connection, &redis->options);
    }
    if (link->state == REDIS_LINK_UP && redis->command.n_scripts > n_scripts) {
        load_script(redis);
    }
    return STATUS_OK;
}

static void remove_limits(struct store *store, const struct limit *limits)
{
    struct redis_store *redis = redis_store_of(store);
    redis_returns_forget(redis, limits);
    redis_command_remove_limits(&redis->command, limits);
    use_latest_limits(redis);
}

/* A failure may last: waiting would not help. */
static bool is_ready(const struct store *store)
{
    return redis_link_readiness(&redis_store_of_const(store)->link) != REDIS_LINK_WAIT;
}

static bool is_settled(const struct store *store)
{
    const struct redis_store *redis = redis_store_of_const(store);
    return redis->n_requests == 0 && redis->n_releases_owed == 0 && list_is_empty(&redis->returns);
}

/* --- the store --- */

static void free_redis(struct store *store)
{
    struct redis_store *redis = redis_store_of(store);
    redis_link_close(&redis->link); /* settlements that wait are lost with those in flight */
    redis_tls_close(&redis->options);
    redis_operations_close(redis);
    redis_heartbeat_close(redis);
    if (redis->options.process != NULL) {
        const struct redis_store_counters counters = redis_store_count(store);
        redis_process_add(redis->options.process, &counters);
    }
    timeout_queue_close(&redis->deadlines);
    pool_close(&redis->tickets);
    redis_command_close(&redis->command);
    client_calls_leave(redis->options.calls);
    free(redis);
}

static const struct store_ops REDIS_OPS = {
    .name = "redis",
    .decide = decide,
    .cancel = cancel,
    .takes_identical = takes_identical,
    .settle = settle,
    .can_settle = can_settle,
    .count_losses = count_losses,
    .add_limits = add_limits,
    .remove_limits = remove_limits,
    .is_ready = is_ready,
    .is_settled = is_settled,
    .run = redis_operation_run,
    .free = free_redis,
};

static enum status init_timers(struct redis_store *redis, struct loop *loop)
{
    const struct redis_store_options *options = &redis->options;
    timeout_queue_init(&redis->deadlines, loop, options->deadline_us);
    const enum status status = redis_heartbeat_init(redis);
    if (status != STATUS_OK) {
        timeout_queue_close(&redis->deadlines);
    }
    return status;
}

static enum status init(struct redis_store *redis, struct loop *loop)
{
    enum status status = redis_command_init(&redis->command, &redis->options);
    if (status != STATUS_OK) {
        return status;
    }
    status = init_timers(redis, loop);
    if (status == STATUS_OK) {
        status = redis_link_init(&redis->link, loop, &redis->options, redis->command.source,
                                 redis->meters, on_change, redis);
        if (status == STATUS_OK) {
            return STATUS_OK;
        }
        redis_heartbeat_close(redis);
        timeout_queue_close(&redis->deadlines);
    }
    redis_command_close(&redis->command);
    return status;
}

static struct store_node_meters *find_meters(struct redis_store *redis)
{
    const struct redis_store_options *options = &redis->options;
    if (options->meters == NULL || options->process == NULL) {
        return &redis->own;
    }
    return &options->meters->nodes[redis_process_node(options->process, options)];
}

enum status redis_store_new(struct loop *loop, const struct redis_store_options *options,
                            struct store **store)
{
    struct redis_store *redis = calloc(1, sizeof(*redis));
    if (redis == NULL) {
        return STATUS_NO_MEMORY;
    }
    redis->store.ops = &REDIS_OPS;
    redis->options = *options;
    redis->meters = find_meters(redis);
    redis->n_losses = &redis->n_own_losses;
    redis->renewals = &redis->own_renewals;
    redis_renewals_init(redis->renewals);
    redis->loop = loop;
    if (options->calls != NULL) {
        client_calls_join(options->calls);
    }
    redis->answer_us = redis_operation_answer_us(options->deadline_us);
    list_init(&redis->operations);
    list_init(&redis->waiting);
    redis_settlement_queue_init(&redis->settlements);
    list_init(&redis->returns);
    pool_init(&redis->tickets, sizeof(struct redis_ticket), TICKETS_KEPT);
    enum status status = redis_tls_open(loop, &redis->options);
    if (status == STATUS_OK) {
        status = init(redis, loop);
        if (status != STATUS_OK) {
            redis_tls_close(&redis->options);
        }
    }
    if (status != STATUS_OK) {
        client_calls_leave(options->calls);
        free(redis);
        return status;
    }
    *store = &redis->store;
    return STATUS_OK;
}

enum redis_fault redis_store_fault(const struct store *store, struct span *text)
{
    const struct redis_store *redis = redis_store_of_const(store);
    *text = redis->fault_text;
    return redis->fault;
}

bool redis_store_is_up(const struct store *store)
{
    const struct redis_store *redis = redis_store_of_const(store);
    return redis_link_readiness(&redis->link) == REDIS_LINK_READY;
}

struct redis_store_counters redis_store_count(const struct store *store)
{
    const struct redis_store *redis = redis_store_of_const(store);
    struct redis_store_counters counters = redis->counters;
    counters.n_connects = redis->link.n_connects;
    counters.n_openings = redis->link.breaker.n_openings;
    return counters;
}

bool redis_store_is_idle(const struct redis_store *redis)
{
    return redis->tickets.n_taken == 0 && redis->n_requests == 0 &&
           list_is_empty(&redis->operations);
}
