/* From the choice of a server to a connection that the request can go out on, and again where that one died.
 *
 * Happy path: an idle connection is ready at once.
 *
 * Failures: no server can be reached (502, 504 by time); a kept-alive connection that dies before a byte of the
 * answer is tried again once on a fresh one, if the request is idempotent and has no body. */

#include "base/clock.h"
#include "proxy/exchange.h"
#include "proxy/exchange_steps.h"
#include "proxy/worker.h"

/* One try. STATUS_OK: it is under way, or exchange_forward() has begun. */
static enum status try_server(struct exchange *exchange, bool fresh)
{
    bool is_ready;
    const enum status status =
        upstream_acquire(exchange->server, exchange, fresh, &exchange->upstream, &is_ready);
    if (status != STATUS_OK) {
        upstream_server_failed(exchange->server);
        return status;
    }
    exchange->connect_started_us = clock_monotonic_us();
    exchange_set_state(exchange, EXCHANGE_CONNECT);
    if (is_ready) {
        exchange_forward(exchange);
    }
    return STATUS_OK;
}

void exchange_connect(struct exchange *exchange, bool fresh)
{
    struct upstream_group *group = &exchange->worker->upstreams[exchange->route->upstream->index];
    while (exchange->n_attempts < group->spec->n_servers + (fresh ? 1 : 0)) {
        exchange->n_attempts++;
        exchange->server = upstream_group_next(group);
        if (exchange->server == NULL) {
            exchange_fail(exchange, 502, "no address of the upstream is known");
            return;
        }
        if (try_server(exchange, fresh) == STATUS_OK) {
            return;
        }
    }
    exchange_fail(exchange, 502, "the upstream cannot be reached");
}

static void drop_connecting(struct exchange *exchange)
{
    upstream_close(exchange->upstream);
    exchange->upstream = NULL;
    upstream_server_failed(exchange->server);
}

void exchange_on_upstream_connected(struct exchange *exchange, enum status status)
{
    if (status == STATUS_OK) {
        exchange_forward(exchange);
        return;
    }
    drop_connecting(exchange);
    exchange_connect(exchange, false);
}

void exchange_on_connect_timeout(struct exchange *exchange)
{
    drop_connecting(exchange);
    if (exchange->n_attempts < exchange->route->upstream->n_servers) {
        exchange_connect(exchange, false);
    } else {
        exchange_fail(exchange, 504, "the upstream did not accept a connection in time");
    }
}

void exchange_on_upstream_lost(struct exchange *exchange)
{
    const bool may_retry = exchange->upstream->is_reused && !exchange->has_upstream_answered &&
                           exchange->request.is_idempotent && exchange->request.body == BODY_NONE;
    if (may_retry) {
        /* Not a failure of the server: it closed an idle connection while the request was on its way. */
        upstream_close(exchange->upstream);
        exchange->upstream = NULL;
        exchange_connect(exchange, true);
        return;
    }
    exchange_fail(exchange, 502,
                  "the upstream closed the connection before its answer was complete");
}
