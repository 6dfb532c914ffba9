/* The differences between two policies, key by key. */

#ifndef SLUICE_APP_SERVE_POLICY_CHANGES_H
#define SLUICE_APP_SERVE_POLICY_CHANGES_H

#include <jansson.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/reload_changes.h"

/* Compare two policies as their files say it, with the files that they include. Secrets of a file
 * are neither compared nor shown. Takes as long as loading both. STATUS_NO_MEMORY: *changes is
 * empty. */
MUST_USE enum status policy_changes_find(const struct policy *before, const struct policy *after,
                                         struct reload_changes *changes);

/* The same of their descriptions, which are modified. Items of a list are found by their `name`;
 * those without one by what precedes and follows them. */
void policy_changes_compare(json_t *before, json_t *after, struct reload_changes *changes);

#endif /* SLUICE_APP_SERVE_POLICY_CHANGES_H */
