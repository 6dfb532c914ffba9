/* Changes of the numbers of a policy's limits, to see what they would do. */

#ifndef SLUICE_ADMIN_POLICY_CHANGE_H
#define SLUICE_ADMIN_POLICY_CHANGE_H

#include <jansson.h>

#include "base/compiler.h"
#include "base/span.h"

enum { POLICY_CHANGE_BYTES_MAX = 512 };

/* Apply @change to @policy, as description_to_load() makes it: LIMIT.rate=N/PERIOD, several with
 * commas; LIMIT.burst=N; LIMIT.plans.PLAN=N/PERIOD; LIMIT.max_wait=DURATION; LIMIT.shadow=true or
 * false. Without a value the key is removed. Values are not judged: that does the loader. Returns
 * the problem, static; NULL: none. */
MUST_USE const char *policy_change_apply(json_t *policy, struct span change);

#endif /* SLUICE_ADMIN_POLICY_CHANGE_H */
