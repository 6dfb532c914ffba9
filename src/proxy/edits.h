/* What the exchange's route changes of its request and its answers: see policy/edits.h. Nothing of
 * this is called for routes that change nothing. */

#ifndef SLUICE_PROXY_EDITS_H
#define SLUICE_PROXY_EDITS_H

#include "base/compiler.h"
#include "base/text.h"
#include "proxy/exchange.h"

/* Set exchange->stripped_path, where the route strips a prefix. False: the request cannot be passed
 * on, and has been answered. */
MUST_USE bool edits_prepare(struct exchange *exchange);

/* Write the fields of the request that pass, and those that the route sets. @skipped: bit set of
 * the ids that do not pass anyway. */
void edits_write_request(const struct exchange *exchange, uint64_t skipped, struct text *text);

/* Mark the fields of exchange->response that do not pass. */
void edits_hide(struct exchange *exchange);

/* Append the fields that the route sets to exchange->out, but none that
 * stands among its own fields. */
void edits_add(struct exchange *exchange);

#endif /* SLUICE_PROXY_EDITS_H */
