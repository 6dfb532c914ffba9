/* What resources of one key of one limit have in common. */

#ifndef SLUICE_ADMIN_KEY_RESOURCE_H
#define SLUICE_ADMIN_KEY_RESOURCE_H

#include <jansson.h>
#include <stdbool.h>

#include "admin/request.h"
#include "base/compiler.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "store/bans.h"

/* The limit that the first capture names and, in @given, the key that the second means. NULL: there
 * is no such limit, or the key is none of its, and the request was answered. */
MUST_USE const struct limit_rule *key_resource_read(struct admin_request *request,
                                                    struct key_given *given);

/* Whether @given is more than a hash, or one of a key that @rule denied lately, which is filled in
 * then; if not, the request was answered. */
MUST_USE bool key_resource_needs_identity(struct admin_request *request,
                                          const struct limit_rule *rule, struct key_given *given);

/* Whether one more change may wait for the store; if not, the request was answered. One that waits
 * is counted in admin->n_changes until the store has answered. */
MUST_USE bool key_resource_may_wait(struct admin_request *request);

/* {"limit": …, "key": …, "hash": …}; without a key where the hash alone is
 * known. NULL: no memory. */
json_t *key_resource_describe(const struct limit_rule *rule, const struct key_given *given);

/* What an operator has said of @given until a time; NULL: nothing, or no memory. */
json_t *key_resource_describe_ban(struct bans *bans, const struct limit_rule *rule,
                                  const struct key_given *given);

#endif /* SLUICE_ADMIN_KEY_RESOURCE_H */
