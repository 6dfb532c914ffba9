/* Finds valid settings of a policy that are probably mistakes. One function per kind of warning;
 * related kinds share a file.
 *
 * There are no false positives: a doubtful case gives no warning. The functions run after a
 * compilation without errors, while the nodes of the file still exist for positions. Items of the
 * spec and of the policy have the same index. */

#ifndef SLUICE_POLICY_LINT_LINT_H
#define SLUICE_POLICY_LINT_LINT_H

#include <stdbool.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/load/spec.h"
#include "policy/policy.h"
#include "policy/warning.h"

struct route_entry;

struct lint {
    const struct spec_policy *spec;
    const struct spec_limit *limits; /* of spec */
    const struct spec_route *routes; /* of spec */
    const struct policy *policy;
    struct arena *scratch;
    struct diags *diags;
    bool *is_unreachable; /* of each route, once lint_unreachable_routes() has run */
    bool no_memory;
};

/* Run all of them. Warnings go to @diags. STATUS_NO_MEMORY. */
MUST_USE enum status lint_policy(const struct spec_policy *spec, const struct policy *policy,
                                 struct arena *scratch, struct diags *diags);

/* --- one function per kind, for lint.c --- */

/* Check the policy as a whole. */
void lint_unreachable_routes(struct lint *lint);
void lint_dodged_routes(struct lint *lint);
void lint_stripped_paths(struct lint *lint);
void lint_dodged_hosts(struct lint *lint);
void lint_dodged_schemes(struct lint *lint);
void lint_client_chosen_routes(struct lint *lint);
void lint_replaced_choices(struct lint *lint);
void lint_never_binding(struct lint *lint);
void lint_narrow_prefixes(struct lint *lint);
void lint_trusts_all(struct lint *lint);
void lint_missing_proxies(struct lint *lint);
void lint_default_body(struct lint *lint);
void lint_plain_secrets(struct lint *lint);
void lint_empty_secret(struct lint *lint);
void lint_unrouted_names(struct lint *lint);
void lint_providers(struct lint *lint);
void lint_servers_by_address(struct lint *lint);
void lint_any_provider(struct lint *lint);
void lint_any_authority(struct lint *lint);

/* Check @rule, which is that of @spec. */
typedef void lint_rule_check(struct lint *lint, const struct limit_rule *rule,
                             const struct spec_limit *spec);
lint_rule_check lint_bucket_quotas;
lint_rule_check lint_lone_fingerprints;
lint_rule_check lint_named_victims;
lint_rule_check lint_shared_denials;
lint_rule_check lint_stalled_buckets;
lint_rule_check lint_spoofable_addresses;
lint_rule_check lint_replaced_keys;
lint_rule_check lint_unreachable_plans;
lint_rule_check lint_fails_open;
lint_rule_check lint_refunds_leaving;
lint_rule_check lint_chosen_statuses;
lint_rule_check lint_missed_guesses;
lint_rule_check lint_unasked_certificates;
lint_rule_check lint_unseen_shadows;

/* Check @route, which is that of @spec. */
typedef void lint_route_check(struct lint *lint, const struct route *route,
                              const struct spec_route *spec);
lint_route_check lint_unlimited_routes;
lint_route_check lint_unmet_connections;
lint_route_check lint_client_chosen_keys;
lint_route_check lint_shared_keys;
lint_route_check lint_replaced_conditions;
lint_route_check lint_passed_on_cost;
lint_route_check lint_cheap_default;

/* --- helpers --- */

/* The name of route @i for messages: as written, without values of environment variables. */
struct span lint_name_of_route(const struct lint *lint, size_t i);

/* What a route lacks of another, for messages. */
struct lint_lack {
    char buffer[NAME_BYTES_MAX + 16];
    struct span what; /* `limit "NAME"`, or `the same cost` */
    struct span kind; /* `limits`, or `cost` */
};

/* Write what @other lacks of the limits of @route. */
void lint_find_lack(const struct route *other, const struct route *route, struct lint_lack *lack);

/* Whether @text contains values of environment variables, which no message may show. */
bool lint_is_hidden(const struct spec_text *text);

/* The node that lists the limits of a route: in the route or in `defaults`; without one, the
 * route. */
const struct node *lint_node_of_limits(const struct lint *lint, const struct spec_route *spec);

/* The maximum number of IPv6 address bits that @key counts by; 0: it does not count by address. */
unsigned lint_key_ipv6_bits(const struct key *key);

/* Whether clients of @route cannot choose what @rule counts by. @shared: a key of which one value
 * is looked at, so that its parts are chosen already; or NULL. */
bool lint_is_firm_key(const struct limit_rule *rule, const struct route *route,
                      const struct key *shared);

/* The claim of @rule of which a client gets another with a new token; NULL: there is none, or
 * clients of @route choose what else it counts by. */
const struct key_term *lint_find_passing_claim(const struct limit_rule *rule,
                                               const struct route *route);

/* The refusal that @rule counts as a guess of a password: charge_on has it, or the rule gives back
 * 200 and charges it. 0: the rule is no limit on guesses. */
unsigned lint_counted_guess(const struct limit_rule *rule);

/* A subset of the requests of a match: one method, and clients in one prefix. */
struct cover_part {
    struct span method;                  /* empty: any */
    const struct address_prefix *client; /* NULL: any */
};

/* Whether the entry @earlier matches all requests in @part of the entry @later. Several prefixes of
 * @earlier that only together cover one of @later are not combined. */
bool cover_takes(const struct policy *policy, const struct route_entry *earlier,
                 const struct route_entry *later, const struct cover_part *part);

/* The first route before that of @later that matches @part of its requests, or NULL. Each
 * comparison decrements *steps; the search ends at 0. */
const struct route *cover_find_taker(const struct policy *policy, const struct route_entry *later,
                                     const struct cover_part *part, uint64_t *steps);

#endif /* SLUICE_POLICY_LINT_LINT_H */
