/* An explanation of a policy's effect on a request, computed with the functions of the proxy. It is
 * independent of the output format. */

#ifndef SLUICE_APP_EXPLAIN_EXPLANATION_H
#define SLUICE_APP_EXPLAIN_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/explain/given_request.h"
#include "base/compiler.h"
#include "base/memory.h"
#include "base/status.h"
#include "policy/matcher.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "proxy/client_address.h"
#include "store/bans.h"
#include "store/tenants.h"

/* The part of a route that a request does not match. */
struct explained_route {
    enum match_part part;                /* MATCH_ALL: the request matches the route */
    const struct value_match *condition; /* with MATCH_FIELD and MATCH_PARAMETER */
};

/* A rule with one of the identities that the request has under it. */
struct explained_rule {
    const struct limit_rule *rule;
    enum rule_outcome outcome;
    struct span key;                       /* the identity, in the arena; with RULE_JUDGES */
    bool has_ban;                          /* a ban or an exemption is known */
    enum ban_kind ban;                     /* if has_ban */
    uint64_t left_us;                      /* remaining time of the ban; if has_ban */
    uint64_t strike;                       /* of a ban that the limit has set; 0: by an operator */
    struct span plan;                      /* its name, in the policy or the arena; empty: none */
    const struct plan_source *plan_source; /* that named it; NULL: none did */
    bool is_plan_unknown;                  /* the rule has no plan of this name */
    const struct limit *limits;            /* by its plan; NULL: it is unlimited */
    bool is_charged;     /* its limits are among the charges that the store judges */
    size_t first_charge; /* index of the first of those charges; if is_charged */
};

/* Whether the state in the store is known. */
enum explained_state {
    STATE_NOT_ASKED, /* no query was requested or needed */
    STATE_KNOWN,     /* the verdicts of the admission's charges are filled */
    STATE_UNKNOWN,   /* the query failed; explanation.fault has the reason */
};

/* The answer to the request, as far as it is known. */
struct explained_answer {
    uint16_t status;      /* of sluice's own; 0: the request goes to the upstream */
    bool is_refusal;      /* by sluice or a limit; false for a route's own response */
    const char *reason;   /* of the refusal, static; NULL: a limit denies, or it is not refused */
    bool has_retry_after; /* with a denial */
    uint64_t retry_after_s;
    uint64_t hold_us; /* delay before it is forwarded; 0: none or unknown */
    bool is_open;     /* whether its limits allow it is unknown */
};

enum {
    EXPLAINED_FAULT_BYTES = 512,
    EXPLAINED_RULES_MAX = LIMITS_PER_ROUTE_MAX * KEY_IDENTITIES_MAX,
};

struct explanation {
    const struct policy *policy; /* borrowed */
    struct given_request given;
    struct client_walk walk; /* the steps that determined the client */
    /* The first n_routes of the policy, up to the one that matches. */
    struct explained_route *routes;
    size_t n_routes;                                  /* 0: the request is refused before routing */
    struct explained_rule rules[EXPLAINED_RULES_MAX]; /* of the route, in its order */
    size_t n_rules;
    /* The table of tenants, as far as it is known; owned. NULL: it is not, and tenants_fault says
     * why; NULL: nobody was asked. */
    struct tenants *tenants;
    const char *tenants_fault; /* static, or of the caller */
    struct span tenant_plan;   /* of all keys, in place of the table; data is NULL: not given */
    const char *bans_fault;    /* why bans are unknown, static; NULL: known, or not queried */
    struct admission admission;
    enum explained_state state;
    /* By the admin API of the proxy that runs: why it is degraded or unready; "": it is well, or
     * no proxy answers there. */
    char proxy_state[EXPLAINED_FAULT_BYTES];
    char fault[EXPLAINED_FAULT_BYTES]; /* with STATE_UNKNOWN: the server queried and its fault */
    struct explained_answer answer;
    struct arena arena;
};

/* Explain @explanation->given, which given_request_read() has filled, at @wall_us. Fills all except
 * the state and the members that depend on it. @explanation must be zero except given and what it
 * says of tenants; the caller frees it with explanation_close(), also on failure. STATUS_NO_MEMORY.
 */
MUST_USE enum status explanation_make(struct explanation *explanation, const struct policy *policy,
                                      uint64_t wall_us);
void explanation_close(struct explanation *explanation);

/* The rules now hold bans and exemptions: prepare the admission again with them, as the proxy does.
 * STATUS_NO_MEMORY. */
MUST_USE enum status explanation_take_bans(struct explanation *explanation, uint64_t wall_us);

/* The admission's decision, a DECISION_JUDGE, has ended: add its result, or its fault. */
void explanation_take_state(struct explanation *explanation);

/* The state is unknown, because of @why: the answer follows from on_failure, as far as possible. */
void explanation_take_fault(struct explanation *explanation, const char *why);

/* The status of the answer where it ends a gRPC call by HTTP/2; GRPC_NONE: it does not. */
enum grpc_status explanation_grpc_status(const struct explanation *explanation);

/* Write the hash that the access log has for the identity @key, 32 hex digits. */
void explanation_write_hash(const struct policy *policy, struct span key, struct text *text);

#endif /* SLUICE_APP_EXPLAIN_EXPLANATION_H */
