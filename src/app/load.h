/* Loading a policy for a person: what is wrong goes to stderr. */

#ifndef SLUICE_APP_LOAD_H
#define SLUICE_APP_LOAD_H

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

/* Load @path and print its errors and warnings. On STATUS_OK *policy is the caller's. */
MUST_USE enum status load_policy(const char *path, struct policy **policy);

#endif /* SLUICE_APP_LOAD_H */
