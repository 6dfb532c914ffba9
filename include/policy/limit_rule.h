/* Rules: named limits of a policy, and their plans, which are other numbers for some keys, by
 * name or as numbers of a tenant. */

#ifndef SLUICE_POLICY_LIMIT_RULE_H
#define SLUICE_POLICY_LIMIT_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/answer_set.h"
#include "policy/key.h"

struct calendar;
struct policy;
struct reply_spec;

/* Other numbers that a rule has for some keys. */
struct limit_plan {
    struct span name;
    const struct limit *limits; /* as many as the rule's, of the same states; NULL: unlimited */
};

/* Where the name of a key's plan is looked for. */
struct plan_source {
    bool is_tenant; /* in the table of tenants, by key */
    /* else: in this header, which trusted proxies alone may send, or this claim of the token */
    struct key_term term;
};

struct plan_sources {
    struct plan_source items[PLAN_SOURCES_MAX];
    size_t n_items;
};

/* How a rule answers gRPC calls by HTTP/2 that it denies. */
enum grpc_denial {
    GRPC_DENIAL_RESOURCE_EXHAUSTED,
    GRPC_DENIAL_UNAVAILABLE,
    GRPC_DENIAL_HTTP, /* as other requests */
};

/* A named rule of the `limits` section: one key, one or several rates. */
struct limit_rule {
    struct span name;
    struct key key;
    enum key_missing missing;
    bool reads_token;           /* its key has a part jwt */
    bool has_plan_of_token;     /* a claim may name a plan */
    uint32_t key_number;        /* equal for rules with the same key and `missing` */
    const struct limit *limits; /* one per rate, adjacent in policy->limits */
    size_t n_limits;
    const struct limit_plan *plans; /* none: n_plans is 0 */
    size_t n_plans;
    const struct plan_source *plan_sources; /* the first that names a plan counts */
    size_t n_plan_sources;
    /* one per limit, without N and burst: for numbers of tenants; NULL: it looks for none */
    const struct limit_spec *specs;
    const struct calendar **calendars; /* one per limit; NULL: no calendar windows */
    struct address_prefix *except;     /* clients that the rule does not apply to */
    size_t n_except;
    enum grpc_denial grpc_denial;
    const struct reply_spec *deny;          /* NULL: a problem document */
    const struct reply_spec *missing_reply; /* of KEY_MISSING_DENY; NULL: a problem document */
    struct answer_set charge_on;            /* the answers that are charged; empty: all */
    struct answer_set refund_on;            /* the answers whose charge is refunded */
    struct ban_terms ban;                   /* of keys that are denied; after is 0: none */
    bool counts_addresses; /* set only with ban: its key reads the address of the client */
};

/* Whether @rule looks for plans in the table of tenants. */
static inline bool limit_rule_has_tenants(const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        if (rule->plan_sources[i].is_tenant) {
            return true;
        }
    }
    return false;
}

/* Numbers in place of a plan, which the table of tenants may give a key: `1000/minute`, with a
 * burst `1000/minute:200`, and of a limit with several rates all of them, `100/minute,5/hour`. They
 * are checked as the loader checks a plan, and are limits of the same states.
 *
 * A policy keeps those that were asked for, at most NUMBERED_PLANS_MAX. */

struct plan_numbers;

/* Why @text is not numbers of @rule, which looks for tenants; NULL: it is. A static phrase. */
MUST_USE const char *plan_numbers_fault(const struct limit_rule *rule, struct span text);

/* The plan that @text is for @rule, which looks for tenants; as long as @policy. NULL: it is none,
 * or there is no room for another one. From any thread. */
const struct limit_plan *plan_numbers_find(const struct policy *policy,
                                           const struct limit_rule *rule, struct span text);

/* --- for the compiler --- */

/* Prepares @numbers, all zero, whose limits will be the @n behind @limits, the first of which has
 * @index. */
void plan_numbers_init(struct plan_numbers *numbers, struct limit *limits, uint32_t index,
                       size_t n);
size_t plan_numbers_bytes(void);

#endif /* SLUICE_POLICY_LIMIT_RULE_H */
