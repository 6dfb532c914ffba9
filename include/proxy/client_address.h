/* Whose request it is: the client's address as it may be believed. */

#ifndef SLUICE_PROXY_CLIENT_ADDRESS_H
#define SLUICE_PROXY_CLIENT_ADDRESS_H

#include "base/address.h"
#include "http/head.h"
#include "policy/policy.h"

/* Who the client is: @peer, or, where @peer is a trusted proxy, the right-most address in X-Forwarded-For, or
 * else in Forwarded, that is not one. Garbage before that one is found, or FORWARDED_HOPS_MAX trusted ones and more:
 * @peer. What stands to the left of it has no influence. */
struct address client_address_find(const struct policy *policy, const struct address *peer,
                                   const struct head *request);

#endif /* SLUICE_PROXY_CLIENT_ADDRESS_H */
