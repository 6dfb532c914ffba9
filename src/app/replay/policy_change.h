/* Changes of the numbers of a policy's limits, to see what they would do. */

#ifndef SLUICE_APP_REPLAY_POLICY_CHANGE_H
#define SLUICE_APP_REPLAY_POLICY_CHANGE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/loader.h"

enum { POLICY_CHANGES_MAX = 64 };

/* Apply @change, LIMIT.KEY=VALUE, to @policy, as description_to_load() makes it. KEY is:
 *
 *   rate, burst               of a limit with one rate; several rates, with commas, replace all
 *   rate.N, burst.N           of the N-th of its rates, from 1
 *   plans.PLAN                the rates of a plan, with commas
 *   plans.PLAN.rate, .burst, .rate.N, .burst.N
 *   max_wait, shadow
 *
 * Without a VALUE the key is removed. Values are not judged: that does the loader. Returns the
 * problem, static; NULL: none. */
MUST_USE const char *policy_change_apply(json_t *policy, struct span change);

/* Load @policy, of the file at @path, with @changes, in their order. Calendars are computed from
 * @now_us, as in loader_load_file_at(). What cannot be changed is reported on stderr as a fault of
 * `sluice replay --set`. STATUS_OK: the caller owns *changed. */
MUST_USE enum status policy_change_load(const struct policy *policy, const char *path,
                                        const char *const *changes, size_t n_changes,
                                        uint64_t now_us, struct policy **changed);

#endif /* SLUICE_APP_REPLAY_POLICY_CHANGE_H */
