/* Admission: the limits that apply to a request under its route, the charge of each, and the report
 * of the decision to the client.
 *
 * The input is a view of a request, not an exchange. The proxy, a decision endpoint for other
 * proxies and the explaining tools can all use it. */

#ifndef SLUICE_PROXY_ADMISSION_H
#define SLUICE_PROXY_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "http/grpc.h"
#include "limit/fields.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "store/bans.h"
#include "store/store.h"
#include "store/tenants.h"

/* The limits that apply to one request. Plain data; decision.charges is its only pointer into
 * itself.
 *
 * While decision.n_charges is 0, @lacked is the only other member that is read. The owner of an
 * admission that is not prepared yet, or never will be, sets only these two. */
struct admission {
    struct decision decision;
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    const struct limit_rule *rules[LIMITS_PER_ROUTE_MAX]; /* by index of the charge */
    uint64_t edges[LIMITS_PER_ROUTE_MAX][LIMIT_EDGES];    /* of charges with calendar windows */
    bool has_several; /* a rule has several identities: a limit may have several charges */
    bool is_complete; /* the charges include all limits of the route */
    const struct limit_rule *lacked; /* ADMISSION_REFUSED: the rule whose key is missing; or NULL */
    struct ban_found ban;            /* ADMISSION_BANNED: the ban */
    uint32_t own_costs; /* bit i: charge i has a cost of its own, whatever the response says */
    uint32_t lent;      /* bit i: the slot of charge i was released while the request waited */
    uint32_t raised, raised_cost; /* bit i: charge i costs that by now, see settlement_raise() */
    uint64_t raised_losses;       /* store_count_losses() before that */
    enum decision_source second_source;    /* of the decision that took those again */
    const struct limit_rule *unknown_plan; /* a rule whose plan has an unknown name; or NULL */
    char unknown_name[NAME_BYTES_MAX];     /* that name; set only with unknown_plan */
    size_t unknown_len;
    uint32_t shadow_bans; /* bit i: a ban exists for the key of charge i, but its limit is shadow */
};

enum admission_result {
    ADMISSION_FREE,      /* no limit applies: nothing to decide */
    ADMISSION_TO_DECIDE, /* admission->decision is ready for store_decide() */
    ADMISSION_REFUSED,   /* a required key is missing (403) */
    ADMISSION_AMBIGUOUS, /* the key has values that differ, or too many values (400) */
    ADMISSION_BANNED, /* the key is banned: admission->decision is the denial, do not ask a store */
    ADMISSION_FAILED, /* no memory */
};

/* What an admission needs besides the request. */
struct admission_context {
    const struct policy *policy;  /* borrowed */
    uint64_t wall_us;             /* now, us since the epoch: selects the calendar windows */
    struct bans_view *bans;       /* banned and exempt keys; NULL: there are none */
    struct tenants_view *tenants; /* plans of keys; NULL: there are none */
    struct span tenant_plan;      /* of all keys, in place of the table; data NULL: not given */
    uint64_t now_us;              /* monotonic; needed only with bans and tenants */
    /* the first of LIMITS_PER_ROUTE_MAX slot numbers, unique to this request among all proxies */
    uint64_t first_slot;
    /* by index of the limit: true: it is not judged and its key is not read. Equal for all limits
     * of a rule. NULL: all are judged */
    const bool *left_out;
};

/* Read the keys of @route's limits from @request. matcher_find_route() has filled @request. Texts
 * live in @arena. */
MUST_USE enum admission_result admission_prepare(struct admission *admission,
                                                 const struct admission_context *context,
                                                 const struct route *route,
                                                 const struct request_view *request,
                                                 struct arena *arena);

/* How a rule applies to a request. */
enum rule_outcome {
    RULE_JUDGES,
    RULE_EXCEPTS,      /* the rule never judges this client */
    RULE_SKIPS,        /* a part of the key is missing, and the rule ignores such requests */
    RULE_DENIES,       /* a part of the key is missing, and the rule denies such requests */
    RULE_IS_AMBIGUOUS, /* the key's values differ and the rule refuses that, or are too many */
};

/* Apply @rule to identity number @i of *n of @request. matcher_find_route() has filled @request.
 * RULE_JUDGES: the identity is written to @key, at most KEY_TEXT_BYTES_MAX bytes. @secret belongs
 * to the store. */
MUST_USE enum rule_outcome admission_read_key(const struct limit_rule *rule,
                                              const struct request_view *request,
                                              struct span secret, size_t i, size_t *n,
                                              struct text *key);

/* Whether an enforced limit may hold the request until a departure: it has max_wait. */
bool admission_is_shaped(const struct admission *admission);

/* --- after the decision, while its status is STATUS_OK --- */

/* Whether there are verdicts of enforced limits to report: false for a ban, and when every limit
 * was skipped. */
bool admission_has_verdicts(const struct admission *admission);

/* The values of X-RateLimit-*: those of the enforced limit that is nearest to exhaustion. False:
 * there is none. */
MUST_USE bool admission_find_nearest(const struct admission *admission,
                                     struct fields_legacy *nearest);

/* Set *wait_us to how long to hold an admitted request: until the latest departure that an enforced
 * limit gives it. False: another of its departures is more than a gap before that. */
MUST_USE bool admission_find_wait(const struct admission *admission, uint64_t *wait_us);

/* Whether a limit that is enforced has charged the request. */
bool admission_is_counted(const struct admission *admission);
/* Whether an admitted request holds slots. settlement_make() releases them. */
bool admission_has_slots(const struct admission *admission);

/* The part of admission_speaks() for an admission with has_several. */
bool admission_speaks_of_several(const struct admission *admission, size_t i);

/* Whether charge @i is the one that is reported for its limit. Where a limit has several charges,
 * this is the one that denies, or else the one nearest to exhaustion. */
static inline bool admission_speaks(const struct admission *admission, size_t i)
{
    return !admission->has_several || admission_speaks_of_several(admission, i);
}

/* Whether charge @i belongs to a limit that is not enforced but would have denied. */
bool admission_is_shadow_denial(const struct admission *admission, size_t i);

/* The first enforced limit that denied, or NULL. */
const struct charge *admission_first_denied(const struct admission *admission);

/* The name to report for @denied: that of its limit, or for a ban that of its rule. */
struct span admission_denier(const struct admission *admission, const struct charge *denied);

/* The reply that the first denying limit sets instead of a problem document. NULL: none is set, no
 * limit denied, or it is a ban. */
const struct reply_spec *admission_deny_reply(const struct admission *admission);

/* The status of a gRPC call that was denied, or banned, as the first denying limit says. GRPC_NONE:
 * it is answered as other requests are. */
enum grpc_status admission_grpc_status(const struct admission *admission);

/* The status of a denial answered with @reply, which may be NULL. */
static inline uint16_t deny_reply_status(const struct reply_spec *reply)
{
    return reply != NULL ? reply->status : 429;
}

/* The longest Retry-After among the limits that denied, or the rest of the ban. False: waiting does
 * not help. */
MUST_USE bool admission_retry_after_s(const struct admission *admission, uint64_t *seconds);

/* The same wait in milliseconds, rounded up, at most INT32_MAX. False also if nothing denied. */
MUST_USE bool admission_retry_after_ms(const struct admission *admission, uint64_t *milliseconds);

/* The answer that the rule sets for a request that lacks its key. NULL: none is set, or no key is
 * lacking. */
static inline const struct reply_spec *admission_missing_reply(const struct admission *admission)
{
    return admission->lacked != NULL ? admission->lacked->missing_reply : NULL;
}

/* Write @text, the body or a field of a denial, with the values in place of their words. */
void admission_write_reply(const struct admission *admission, struct span text,
                           struct span request_id, struct text *out);

/* Write the problem document (RFC 9457) of a denial or a ban. @has_retry_after: @retry_after_s is
 * known. */
void admission_write_problem(const struct admission *admission, bool has_retry_after,
                             uint64_t retry_after_s, struct text *text);

/* --- the plan of a key --- */

struct plan_choice {
    const struct limit_plan *plan;    /* NULL: the rates of the rule itself count */
    const struct plan_source *source; /* that has named it, or an unknown one; NULL: none has */
    char unknown[NAME_BYTES_MAX];     /* the name that is of none of the rule's plans */
    size_t unknown_len;               /* 0: there is none; a longer name is cut */
};

/* Choose the plan of the identity @key in @rule. */
void plan_choose(const struct admission_context *context, const struct limit_rule *rule,
                 const struct request_view *request, struct span key, struct plan_choice *choice);

/* The plan of @rule named @name; NULL: there is none. */
const struct limit_plan *plan_find(const struct limit_rule *rule, struct span name);

/* The same, or the numbers that @name is: what the table of tenants says. As long as @policy. */
const struct limit_plan *plan_of_tenant(const struct policy *policy, const struct limit_rule *rule,
                                        struct span name);

#endif /* SLUICE_PROXY_ADMISSION_H */
