/* Which protocols a request asks to switch to, which of them pass, and whether
 * the answer takes one of them.
 *
 * Source: RFC 9110 section 7.8. */

#ifndef SLUICE_PROXY_UPGRADE_H
#define SLUICE_PROXY_UPGRADE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "http/head.h"
#include "policy/policy.h"

/* Write `Connection` and `Upgrade` for what @request asks for and @route lets pass, in its order.
 * False: that is nothing, and nothing is written. */
MUST_USE bool upgrade_write_offer(const struct head *request, const struct route *route,
                                  struct text *text);

/* Whether @response, a 101, switches to one of what upgrade_write_offer() has offered: *protocol,
 * as the server wrote it. */
MUST_USE bool upgrade_is_taken(const struct head *request, const struct route *route,
                               const struct head *response, struct span *protocol);

#endif /* SLUICE_PROXY_UPGRADE_H */
