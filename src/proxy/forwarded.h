/* The request's head as the upstream gets it, and the client's address as it may be believed. */

#ifndef SLUICE_PROXY_FORWARDED_H
#define SLUICE_PROXY_FORWARDED_H

#include "base/address.h"
#include "base/text.h"
#include "exchange.h"

/* Who the client is: @peer, or, where @peer is a trusted proxy, the right-most address in X-Forwarded-For, or
 * else in Forwarded, that is not one. Garbage there, or more hops than FORWARDED_HOPS_MAX: @peer. */
struct address forwarded_client(const struct policy *policy, const struct address *peer,
                                const struct head *request);

/* Write the request line and the fields: hop-by-hop ones left out, Host as the upstream wants it, the
 * forwarding fields and Via ours or appended to. text->truncated: it does not fit. */
void forwarded_write_request(struct exchange *exchange, struct text *text);

#endif /* SLUICE_PROXY_FORWARDED_H */
