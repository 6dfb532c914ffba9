/* From the choice of a server to a connection that the request can go out on, and again where that
 * one died.
 *
 * Happy path: an idle connection is ready at once. Where a server may have so many connections and
 * no more, a request may have to wait for one of them.
 *
 * Failures: a server that cannot be reached hands the request, whatever it is, to the next address
 * or server, since nothing was sent (502 when none is left, 504 by time). A connection that dies
 * before a byte of the answer hands it to the next server if it is idempotent, or was not written
 * yet, and has no body, and that one gets a connection of its own. A kept connection that died says
 * nothing about its server, which has closed it while the request was on its way: it may be asked
 * again when no other is left. */

#include "base/clock.h"
#include "policy/key.h"
#include "proxy/counting.h"
#include "proxy/exchange.h"
#include "proxy/exchange_steps.h"
#include "proxy/upstream_name.h"
#include "proxy/upstream_process.h"
#include "proxy/worker.h"

enum {
    CONNECT_TIMEOUTS_MAX = 3, /* of one request: a client does not wait for 256 dead servers */
};

static const char UNREACHABLE[] = "the upstream cannot be reached";
static const char TOO_SLOW[] = "the upstream did not accept a connection in time";
static const char LOST[] = "the upstream closed the connection before its answer was complete";
static const char GIVEN_UP[] = "the upstream closed the connection while the client was slow";

static struct upstream_group *group_of(const struct exchange *exchange)
{
    return exchange->regime->upstreams[exchange->route->upstream->index];
}

/* --- waiting for a place --- */

static void wait_for_place(struct exchange *exchange)
{
    struct upstream_waiter *waiter = &exchange->waiter;
    *waiter = (struct upstream_waiter){.group = group_of(exchange), .choice = &exchange->choice};
    exchange_set_state(exchange, EXCHANGE_QUEUE);
    if (upstream_queue_enter(waiter, !upstream_choice_is_new(&exchange->choice),
                             exchange->connect_started_us) != STATUS_OK) {
        counter_up(&counting_upstream(exchange)->queue_full);
        exchange_fail(exchange, 503, "as many requests wait for the upstream as may");
        return;
    }
    exchange->is_queued = true;
    counter_up(&counting_upstream(exchange)->waiting);
    exchange->queued_at_us = exchange->connect_started_us;
    exchange->client->ops->hold(exchange->client, true);
}

/* It waits no longer, however that came. */
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
        exchange->server = waiter->server; /* it may have been a trial */
        upstream_queue_return_grant(waiter, clock_monotonic_us());
    }
}

void exchange_on_queue_timeout(struct exchange *exchange)
{
    if (!upstream_queue_leave(&exchange->waiter)) {
        return; /* it has a place, and is about to learn of it */
    }
    end_wait(exchange);
    counter_up(&counting_upstream(exchange)->queue_timeouts);
    exchange->client->ops->hold(exchange->client, false);
    exchange_fail(exchange, 503, "no connection to the upstream became free in time");
}

/* --- one server after another --- */

/* A connection is ready, or under way. */
static void go_out(struct exchange *exchange, bool is_ready, uint64_t now_us)
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

/* Whether a connection to exchange->server could be had; then the request is on its way. */
static enum status try_server(struct exchange *exchange)
{
    bool is_ready;
    const enum status status = upstream_acquire(exchange->server, exchange, use_of(exchange),
                                                &exchange->upstream, &is_ready);
    if (status == STATUS_OK) {
        go_out(exchange, is_ready, exchange->connect_started_us);
    }
    return status;
}

/* exchange->server could not be reached at one of its addresses. */
static void note_unreachable(struct exchange *exchange, enum upstream_outcome outcome)
{
    upstream_name_on_failure(exchange->server);
    if (++exchange->choice.n_addresses >= exchange->server->n_addresses) {
        exchange->choice.n_addresses = 0;
        exchange_note_outcome(exchange, outcome);
    }
}

/* Another server, into exchange->server. CHOICE_FULL also while others wait for one already. */
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

/* Whether another attempt may follow one at exchange->server that came to @tried. */
static bool may_go_on(struct exchange *exchange, enum status tried)
{
    if (tried == STATUS_OK) {
        return false;
    }
    if (tried == STATUS_UNREACHABLE) {
        note_unreachable(exchange, OUTCOME_UNREACHABLE);
        return true;
    }
    if (tried == STATUS_IN_USE) { /* its last place was taken meanwhile */
        exchange->choice.n_addresses = 0;
        upstream_choice_withdraw(&exchange->choice, exchange->server, exchange->connect_started_us);
        return true;
    }
    exchange_fail(exchange, 503, status_text(tried)); /* it is we who cannot */
    return false;
}

/* Ask the next address, or server; @status and @fault are told when none is left. */
static void try_next(struct exchange *exchange, uint64_t now_us, uint16_t status, const char *fault)
{
    exchange->connect_started_us = now_us;
    for (;;) {
        const enum choice_result choice =
            exchange->choice.n_addresses > 0 ? CHOICE_MADE : choose(exchange);
        if (choice == CHOICE_FULL) {
            wait_for_place(exchange);
            return;
        }
        if (choice == CHOICE_NONE) {
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
        }
    }
}

/* Of several cookies the first counts: which server is asked limits nobody. False: the request is
 * refused. */
static bool read_balance_key(struct exchange *exchange, const struct upstream_group *group)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const enum key_result result =
        key_read(&group->spec->balance_key, KEY_MISSING_SKIP, &exchange->view,
                 exchange->regime->policy->store.secret, &text);
    exchange->choice.has_key = result == KEY_READ;
    if (exchange->choice.has_key) {
        exchange->choice.key = hash_table(&group->hash_key, text_span(&text));
    }
    return result != KEY_IS_AMBIGUOUS;
}

void exchange_connect(struct exchange *exchange, uint64_t now_us)
{
    const struct upstream_group *group = group_of(exchange);
    if (group->spec->balance == BALANCE_HASH && !read_balance_key(exchange, group)) {
        exchange_fail(exchange, 400, KEY_AMBIGUITY);
        return;
    }
    try_next(exchange, now_us, 502, "no address of the upstream is known");
}

void exchange_on_grant(struct exchange *exchange)
{
    const struct upstream_waiter *waiter = &exchange->waiter;
    bool is_ready;
    end_wait(exchange);
    exchange->client->ops->hold(exchange->client, false);
    exchange->connect_started_us = clock_monotonic_us();
    exchange->server = waiter->server;
    const enum status status = upstream_acquire_granted(exchange, waiter, use_of(exchange),
                                                        &exchange->upstream, &is_ready);
    if (status == STATUS_OK) {
        go_out(exchange, is_ready, exchange->connect_started_us);
    } else if (may_go_on(exchange, status)) {
        try_next(exchange, exchange->connect_started_us, 502, UNREACHABLE);
    }
}

/* --- what came of it --- */

static void drop(struct exchange *exchange)
{
    upstream_close(exchange->upstream);
    exchange->upstream = NULL;
}

void exchange_on_upstream_connected(struct exchange *exchange, enum status status)
{
    if (status == STATUS_OK) {
        exchange->choice.n_addresses = 0;
        exchange_forward(exchange, clock_monotonic_us());
        return;
    }
    drop(exchange);
    note_unreachable(exchange, OUTCOME_UNREACHABLE);
    try_next(exchange, clock_monotonic_us(), 502, UNREACHABLE);
}

void exchange_on_connect_timeout(struct exchange *exchange)
{
    drop(exchange);
    note_unreachable(exchange, OUTCOME_UNACCEPTED);
    if (++exchange->choice.n_timeouts >= CONNECT_TIMEOUTS_MAX) {
        if (exchange->choice.n_addresses > 0) { /* it has more than there is time for */
            exchange_note_outcome(exchange, OUTCOME_UNACCEPTED);
        }
        exchange_fail(exchange, 504, TOO_SLOW);
        return;
    }
    try_next(exchange, clock_monotonic_us(), 504, TOO_SLOW);
}

/* Whether the request may be sent once more: nothing of an answer has come, it does the same twice
 * as once or has not been sent at all, and all of it is still there. */
static bool may_repeat(const struct exchange *exchange)
{
    const bool is_unsent = stream_is_unoffered(&exchange->upstream->stream);
    return !exchange->has_upstream_answered && (exchange->request.is_idempotent || is_unsent) &&
           exchange->request.body == BODY_NONE;
}

void exchange_on_upstream_lost(struct exchange *exchange)
{
    struct upstream_choice *choice = &exchange->choice;
    if (exchange_has_delayed_server(exchange)) {
        exchange_note_outcome(exchange, OUTCOME_INCONCLUSIVE);
        exchange_fail(exchange, 408, GIVEN_UP);
        return;
    }
    const bool was_kept = exchange->upstream->is_reused && !exchange->has_upstream_answered;
    exchange_note_outcome(exchange, was_kept ? OUTCOME_INCONCLUSIVE : OUTCOME_LOST);
    if (!may_repeat(exchange) ||
        (!was_kept && choice->n_deaths >= exchange->route->upstream->retries)) {
        exchange_fail(exchange, 502, LOST);
        return;
    }
    drop(exchange);
    counter_up(&counting_upstream(exchange)->retries);
    if (was_kept) {
        choice->stale = exchange->server;
        choice->fresh = true;
    } else {
        choice->n_deaths++;
    }
    try_next(exchange, clock_monotonic_us(), 502, LOST);
}
