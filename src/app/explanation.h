/* What becomes of a request under a policy, and why: found with the functions that the proxy uses,
 * and not yet written for anybody. */

#ifndef SLUICE_APP_EXPLANATION_H
#define SLUICE_APP_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/given_request.h"
#include "base/arena.h"
#include "base/compiler.h"
#include "base/status.h"
#include "policy/matcher.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "store/bans.h"

/* What keeps a request from a route. */
struct explained_route {
    enum match_part part;            /* MATCH_ALL: nothing; it is the route */
    const struct field_match *field; /* with MATCH_FIELD */
};

/* A rule with one of the identities that the request has under it. */
struct explained_rule {
    const struct limit_rule *rule;
    enum rule_standing standing;
    struct span key;     /* the identity, in the arena; with RULE_JUDGES */
    bool has_ban;        /* or an exemption, as far as anybody was asked */
    enum ban_kind ban;   /* which; if has_ban, as is what follows */
    uint64_t left_us;    /* it holds so long yet */
    bool is_charged;     /* its limits are among the admission's charges */
    size_t first_charge; /* the first of them; if is_charged */
};

/* What is known of the state in the store. */
enum explained_state {
    STATE_NOT_ASKED, /* nobody wanted to know, or there is nothing to ask */
    STATE_KNOWN,     /* the verdicts of the admission's charges are filled */
    STATE_UNKNOWN,   /* who knows it could not be asked; explanation.fault says why */
};

/* How it ends, as far as can be told. */
struct explained_answer {
    uint16_t status;      /* of sluice's own; 0: the request goes to the upstream */
    bool is_refusal;      /* by sluice, or by a limit: not what the route answers */
    const char *reason;   /* why it is refused, static; NULL: a limit denies, or it is not */
    bool has_retry_after; /* with a denial */
    uint64_t retry_after_s;
    uint64_t hold_us; /* it is held so long first; 0: it is not, or that is not known */
    bool is_open;     /* nobody knows whether its limits let it pass */
};

enum {
    EXPLAINED_FAULT_BYTES = 512,
    EXPLAINED_RULES_MAX = LIMITS_PER_ROUTE_MAX * KEY_IDENTITIES_MAX,
};

struct explanation {
    const struct policy *policy; /* borrowed */
    struct given_request given;
    struct explained_route
        *routes;     /* the first n_routes of the policy, up to the one that matches */
    size_t n_routes; /* 0: the request is refused before it has a route */
    struct explained_rule rules[EXPLAINED_RULES_MAX]; /* of the route, in its order */
    size_t n_rules;
    enum admission_result admitted; /* of a request that has a route */
    const char *bans_fault;         /* why nobody knows of bans, static; NULL: they are known, or
                                     * were not asked for */
    struct admission admission;
    enum explained_state state;
    char fault[EXPLAINED_FAULT_BYTES]; /* with STATE_UNKNOWN: who was asked, and what ailed it */
    const char *strip_fault;           /* why the prefix cannot be stripped, static; or NULL */
    struct span upstream_path;         /* what the upstream gets, without the query */
    char path_buffer[TARGET_BYTES_MAX + 1];
    struct explained_answer answer;
    struct arena arena;
};

/* Explain @explanation->given, which given_request_read() has filled, at @wall_us. All but the
 * state, and what depends on it. STATUS_NO_MEMORY. @explanation is zero but for given;
 * explanation_close() frees it, whatever comes. */
MUST_USE enum status explanation_make(struct explanation *explanation, const struct policy *policy,
                                      uint64_t wall_us);
void explanation_close(struct explanation *explanation);

/* Bans and exemptions stand in the rules now: prepare the admission anew with them, as the proxy
 * does. STATUS_NO_MEMORY. */
MUST_USE enum status explanation_take_bans(struct explanation *explanation, uint64_t wall_us);

/* The decision of the admission has been answered, to DECISION_JUDGE: fold it in. */
void explanation_take_state(struct explanation *explanation);

/* The state is not known, for @why: what is answered then is what on_failure
 * says, as far as it does. */
void explanation_take_fault(struct explanation *explanation, const char *why);

/* What stands for the identity @key in the access log, 32 hex digits. */
void explanation_write_hash(const struct policy *policy, struct span key, struct text *text);

#endif /* SLUICE_APP_EXPLANATION_H */
