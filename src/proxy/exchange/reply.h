/* Answers that the proxy makes, and the fields that it adds to those of the upstream. */

#ifndef SLUICE_PROXY_EXCHANGE_REPLY_H
#define SLUICE_PROXY_EXCHANGE_REPLY_H

#include <stdint.h>

#include "base/span.h"
#include "http/field.h"
#include "policy/policy.h"
#include "proxy/exchange/exchange.h"

/* --- whole answers: these fill exchange->out and return the body; nothing is sent --- */

/* A problem document (RFC 9457) of type about:blank with @detail. */
struct span reply_problem(struct exchange *exchange, uint16_t status, const char *detail);

/* The configured answer of the rule whose key the request lacks. */
struct span reply_lacking(struct exchange *exchange);

/* 429, or the configured answer of the rule that denied. A ban gives 429. */
struct span reply_denied(struct exchange *exchange);

/* 503: no decision could be made, and the policy denies in that case. */
struct span reply_undecided(struct exchange *exchange);

/* The route's fixed response. */
struct span reply_route(struct exchange *exchange, const struct reply_spec *respond);

/* --- fields of these answers, and of the upstream's --- */

/* Where the route edits fields (policy/edits.h): mark the fields of exchange->response that do not
 * pass; append to exchange->out the fields that the route sets, except those that it has. */
void edits_redact(struct exchange *exchange);
void edits_add(struct exchange *exchange);

/* CORS (cors.c): the fields of an own answer, its Vary after all others; those of the upstream's
 * answer. */
void cors_add_own(struct exchange *exchange);
void cors_add_vary(struct exchange *exchange);
void cors_add_exposed(struct exchange *exchange);

/* Append the RateLimit fields of a decided request to exchange->out. */
void reply_add_ratelimit_fields(struct exchange *exchange);

/* Append the current Date. */
void reply_add_date(struct exchange *exchange);

/* Append a field to exchange->out; @value is in the exchange's arena or static. */
void reply_add_field(struct exchange *exchange, enum field_id id, struct span name,
                     struct span value);

#endif /* SLUICE_PROXY_EXCHANGE_REPLY_H */
