/* Which route a request takes: the first that matches, in the order of the file. */

#ifndef SLUICE_POLICY_MATCHER_H
#define SLUICE_POLICY_MATCHER_H

#include "base/compiler.h"
#include "policy/key.h"
#include "policy/policy.h"

/* The first route that matches @request, or NULL. Fills request->route and request->captures of the
 * match. Reads head, path, host and client of @request. */
MUST_USE const struct route *matcher_find_route(const struct policy *policy,
                                                struct request_view *request);

#endif /* SLUICE_POLICY_MATCHER_H */
