/* Answers of our own: denials, errors, what a route responds by itself. They fill exchange->out and
 * the body; nothing is sent here. */

#ifndef SLUICE_PROXY_REPLY_H
#define SLUICE_PROXY_REPLY_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "proxy/exchange.h"

/* A problem document (RFC 9457) of type about:blank that says @detail. */
struct span reply_problem(struct exchange *exchange, uint16_t status, const char *detail);

/* 429, or what the limit that denied wants. */
struct span reply_denied(struct exchange *exchange);

/* 429: a limit bans the request's key. */
struct span reply_banned(struct exchange *exchange);

/* 503: no decision could be made, and the policy says deny. */
struct span reply_undecided(struct exchange *exchange);

/* What the route says. */
struct span reply_route(struct exchange *exchange, const struct respond_spec *respond);

/* 200, of an OPTIONS that may go no further. */
struct span reply_options(struct exchange *exchange);

/* Append the RateLimit fields of a decided request to exchange->out. */
void reply_add_ratelimit_fields(struct exchange *exchange);

/* Append a field to exchange->out; @value is in the exchange's arena or static. */
void reply_add_field(struct exchange *exchange, enum field_id id, struct span name,
                     struct span value);

#endif /* SLUICE_PROXY_REPLY_H */
