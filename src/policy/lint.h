/* What is sound in a policy and yet hardly meant: one function a kind, each in
 * its file with those like it.
 *
 * None ever raises a false alarm: what cannot be proven is passed over. They run after everything
 * is linked without an error, while the file's tree is still there to point at: items of the spec
 * and of the policy have the same index. */

#ifndef SLUICE_POLICY_LINT_H
#define SLUICE_POLICY_LINT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/status.h"
#include "policy/policy.h"
#include "policy/spec.h"
#include "policy/warning.h"

struct lint {
    const struct spec_policy *spec;
    const struct policy *policy;
    struct arena *scratch;
    struct diags *diags;
    bool no_memory;
};

/* Run all of them. Warnings go to @diags. STATUS_NO_MEMORY. */
MUST_USE enum status lint_policy(const struct spec_policy *spec, const struct policy *policy,
                                 struct arena *scratch, struct diags *diags);

/* --- the kinds, for lint.c --- */

void lint_unreachable_routes(struct lint *lint);
void lint_unlimited_routes(struct lint *lint);
void lint_dodged_routes(struct lint *lint);
void lint_never_binding(struct lint *lint);
void lint_client_chosen_keys(struct lint *lint);
void lint_spoofable_addresses(struct lint *lint);
void lint_trusts_everybody(struct lint *lint);
void lint_fails_open(struct lint *lint);
void lint_refunds_leaving(struct lint *lint);
void lint_plain_secrets(struct lint *lint);
void lint_empty_secret(struct lint *lint);
void lint_passed_on_cost(struct lint *lint);
void lint_unseen_shadows(struct lint *lint);

/* --- what they share --- */

/* Warn of @warning at @node. */
void lint_warn(struct lint *lint, enum warning warning, const struct node *node, const char *format,
               ...) PRINTF_LIKE(4, 5);

/* What messages may call the route of index @i: as it is written, without
 * values of the environment. */
struct span lint_name_of_route(const struct lint *lint, size_t i);

/* Where the limits of the route of index @i are named: on the route, or in
 * `defaults`; else the route. */
const struct node *lint_node_of_limits(const struct lint *lint, size_t i);

#endif /* SLUICE_POLICY_LINT_H */
