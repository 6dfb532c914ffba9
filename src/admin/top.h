/* Lookup of keys by their hash among the most denied keys. */

#ifndef SLUICE_ADMIN_TOP_H
#define SLUICE_ADMIN_TOP_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/meters.h"

/* Find the identity of @given, which has only a hash, among the keys that @rule denied recently.
 * @secret is the store's. False: it is not among them. */
MUST_USE bool top_find_key(const struct meters *meters, const struct limit_rule *rule,
                           struct span secret, struct key_given *given);

#endif /* SLUICE_ADMIN_TOP_H */
