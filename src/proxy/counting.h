/* What an exchange and its server add to the worker's meters, see proxy/meters.h. */

#ifndef SLUICE_PROXY_COUNTING_H
#define SLUICE_PROXY_COUNTING_H

#include <stdint.h>

#include "base/compiler.h"
#include "proxy/exchange.h"
#include "proxy/meters.h"
#include "proxy/upstream_outcome.h"

/* The store has answered, after exchange->decide_us. */
void counting_note_decision(struct exchange *exchange);

/* @exchange is over, at @now_us: its log line is being written. */
void counting_note_end(const struct exchange *exchange, uint64_t now_us);

/* What came of asking exchange->server: something else than being served. */
COLD void counting_note_failure(const struct exchange *exchange, enum upstream_outcome outcome);

/* Where @exchange, which has a route to an upstream, and @server are counted. */
struct upstream_meters *counting_upstream(const struct exchange *exchange);
struct server_meters *counting_server(const struct upstream_server *server);

#endif /* SLUICE_PROXY_COUNTING_H */
