/* Loading a policy for a person: what is wrong goes to stderr. */

#ifndef SLUICE_APP_LOAD_H
#define SLUICE_APP_LOAD_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

/* Load @path and print its errors and warnings. On STATUS_OK *policy is the caller's. */
MUST_USE enum status load_policy(const char *path, struct policy **policy);

/* The same for whoever runs it under another clock: its calendars are reckoned from @now_us. */
MUST_USE enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy);

#endif /* SLUICE_APP_LOAD_H */
