/* What resources of one limit have in common. */

#ifndef SLUICE_ADMIN_LIMITS_RESOURCE_H
#define SLUICE_ADMIN_LIMITS_RESOURCE_H

#include "admin/request.h"
#include "base/compiler.h"
#include "policy/policy.h"

/* The limit that the first capture names, in the request's policy. NULL: there is none, and the
 * request was answered with a 404. */
MUST_USE const struct limit_rule *limits_resource_find(struct admin_request *request);

#endif /* SLUICE_ADMIN_LIMITS_RESOURCE_H */
