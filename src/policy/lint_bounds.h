/* Whether one limit can ever deny what another one, which judges the same requests, allows. */

#ifndef SLUICE_POLICY_LINT_BOUNDS_H
#define SLUICE_POLICY_LINT_BOUNDS_H

#include <stdbool.h>

#include "limit/limit.h"

/* Whether @loose allows whatever @strict allows: both count the same requests at the same cost,
 * @strict perhaps more of them, and gives nothing back. May say no where the answer is yes: where
 * that depends on calendars, on windows that begin with a request, or on rounding. */
bool bounds_never_binds(const struct limit *loose, const struct limit *strict);

#endif /* SLUICE_POLICY_LINT_BOUNDS_H */
