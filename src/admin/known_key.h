/* Keys that are known by their hash: those of whom the sketches of the most denied tell. */

#ifndef SLUICE_ADMIN_KNOWN_KEY_H
#define SLUICE_ADMIN_KNOWN_KEY_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/meters.h"

/* Find the identity of @given, of which the hash alone is known, among the keys that @rule denied
 * lately; @secret is the store's. False: it is not among them. */
MUST_USE bool known_key_find(const struct meters *meters, const struct limit_rule *rule,
                             struct span secret, struct key_given *given);

#endif /* SLUICE_ADMIN_KNOWN_KEY_H */
