/* From the choice of a server to a connection that the request can go out on, and again where that
 * one died.
 *
 * Happy path: an idle connection is ready at once.
 *
 * Failures: a server that cannot be reached hands the request, whatever it is, to the next address
 * or server, since nothing was sent (502 when none is left, 504 by time). A connection that dies
 * before a byte of the answer hands it to the next server if it is idempotent and has no body, and
 * that one gets a connection of its own. A kept connection that died says nothing about its server,
 * which has closed it while the request was on its way: it may be asked again when no other is
 * left. */

#include "base/clock.h"
#include "policy/key.h"
#include "proxy/exchange.h"
#include "proxy/exchange_steps.h"
#include "proxy/upstream_name.h"
#include "proxy/worker.h"

enum {
    CONNECT_TIMEOUTS_MAX = 3, /* of one request: a client does not wait for 256 dead servers */
};

static const char UNREACHABLE[] = "the upstream cannot be reached";
static const char TOO_SLOW[] = "the upstream did not accept a connection in time";
static const char LOST[] = "the upstream closed the connection before its answer was complete";

static struct upstream_group *group_of(const struct exchange *exchange)
{
    return &exchange->worker->upstreams[exchange->route->upstream->index];
}

/* --- one server after another --- */

/* Whether a connection to exchange->server is under way, or one is there and the request went out.
 * */
static enum status try_server(struct exchange *exchange)
{
    const bool is_safe = exchange->request.is_idempotent && exchange->request.body == BODY_NONE;
    const enum upstream_use use = exchange->choice.fresh ? UPSTREAM_FRESH
                                  : is_safe              ? UPSTREAM_ANY
                                                         : UPSTREAM_SURE;
    bool is_ready;
    const enum status status =
        upstream_acquire(exchange->server, exchange, use, &exchange->upstream, &is_ready);
    if (status != STATUS_OK) {
        return status;
    }
    exchange_set_state(exchange, EXCHANGE_CONNECT);
    if (is_ready) {
        exchange_forward(exchange);
    }
    return STATUS_OK;
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

/* Ask the next address, or server; @status and @fault are told when none is left. */
static void try_next(struct exchange *exchange, uint16_t status, const char *fault)
{
    struct upstream_group *group = group_of(exchange);
    exchange->connect_started_us = clock_monotonic_us();
    for (;;) {
        if (exchange->choice.n_addresses == 0) {
            struct upstream_server *server =
                upstream_choice_make(group, &exchange->choice, exchange->connect_started_us);
            if (server == NULL) {
                exchange_fail(exchange, status, fault);
                return;
            }
            exchange->server = server;
        }
        const enum status tried = try_server(exchange);
        if (tried == STATUS_OK) {
            return;
        }
        if (tried != STATUS_UNREACHABLE) {
            exchange_fail(exchange, 503, status_text(tried)); /* it is we who cannot */
            return;
        }
        note_unreachable(exchange, OUTCOME_UNREACHABLE);
        status = 502;
        fault = UNREACHABLE;
    }
}

static void read_balance_key(struct exchange *exchange, const struct upstream_group *group)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    exchange->choice.has_key =
        key_read(&group->spec->balance_key, KEY_MISSING_SKIP, &exchange->view,
                 exchange->worker->policy->store.secret, &text) == KEY_READ;
    if (exchange->choice.has_key) {
        exchange->choice.key = hash_table(&group->hash_key, text_span(&text));
    }
}

void exchange_connect(struct exchange *exchange)
{
    const struct upstream_group *group = group_of(exchange);
    if (group->spec->balance == BALANCE_HASH) {
        read_balance_key(exchange, group);
    }
    try_next(exchange, 502, "no address of the upstream is known");
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
        exchange_forward(exchange);
        return;
    }
    drop(exchange);
    note_unreachable(exchange, OUTCOME_UNREACHABLE);
    try_next(exchange, 502, UNREACHABLE);
}

void exchange_on_connect_timeout(struct exchange *exchange)
{
    drop(exchange);
    note_unreachable(exchange, OUTCOME_UNACCEPTED);
    if (++exchange->choice.n_timeouts >= CONNECT_TIMEOUTS_MAX) {
        exchange_fail(exchange, 504, TOO_SLOW);
        return;
    }
    try_next(exchange, 504, TOO_SLOW);
}

/* Whether the request may be sent once more: nothing of an answer has come, it does the same twice
 * as once, and all of it is still there. */
static bool may_repeat(const struct exchange *exchange)
{
    return !exchange->has_upstream_answered && exchange->request.is_idempotent &&
           exchange->request.body == BODY_NONE;
}

void exchange_on_upstream_lost(struct exchange *exchange)
{
    struct upstream_choice *choice = &exchange->choice;
    const bool was_kept = exchange->upstream->is_reused && !exchange->has_upstream_answered;
    exchange_note_outcome(exchange, was_kept ? OUTCOME_INCONCLUSIVE : OUTCOME_LOST);
    if (!may_repeat(exchange) ||
        (!was_kept && choice->n_deaths >= exchange->route->upstream->retries)) {
        exchange_fail(exchange, 502, LOST);
        return;
    }
    drop(exchange);
    if (was_kept) {
        choice->stale = exchange->server;
        choice->fresh = true;
    } else {
        choice->n_deaths++;
    }
    try_next(exchange, 502, LOST);
}
