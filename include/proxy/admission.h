/* Admission: which limits a request meets under its route, what is counted for each, and what the
 * client is told of the decision.
 *
 * It takes a view of a request, not an exchange, so that whoever wants a decision can have one: the
 * proxy, an endpoint for other proxies, a tool that explains. */

#ifndef SLUICE_PROXY_ADMISSION_H
#define SLUICE_PROXY_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/text.h"
#include "limit/fields.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "store/bans.h"
#include "store/store.h"

/* The limits that one request meets. Plain data, no pointers into itself but decision.charges.
 *
 * While decision.n_charges is 0, nothing else of it is read but @lacked: whoever has an admission
 * that is not prepared yet, or may never be, sets those two and no more. */
struct admission {
    struct decision decision;
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    const struct limit_rule *rules[LIMITS_PER_ROUTE_MAX]; /* of the charge of the same index */
    uint64_t edges[LIMITS_PER_ROUTE_MAX][LIMIT_EDGES];    /* of charges with calendar windows */
    bool has_several; /* a rule has several identities: a limit may have several charges */
    bool is_complete; /* all limits of the route are among the charges */
    const struct limit_rule *lacked; /* NULL, or ADMISSION_REFUSED: whose key is not there */
    uint64_t ban_left_us;            /* with ADMISSION_BANNED: how long it is banned yet */
    uint32_t shadow_bans; /* bit i: the charge of that index is of a shadow that bans its key */
};

enum admission_result {
    ADMISSION_FREE,      /* no limit applies: nothing to decide */
    ADMISSION_TO_DECIDE, /* admission->decision is ready for store_decide() */
    ADMISSION_REFUSED,   /* a key that must be there is missing (403) */
    ADMISSION_AMBIGUOUS, /* what it is counted by differs, or there is too much of it (400) */
    ADMISSION_BANNED, /* a limit bans its key, admission->decision says so: nobody is to be asked */
    ADMISSION_FAILED, /* no memory */
};

/* What an admission needs besides the request. */
struct admission_context {
    const struct policy *policy; /* borrowed */
    uint64_t wall_us;            /* now, us since the epoch: which calendar windows are around it */
    const struct ban_table *bans; /* who is banned and exempt; NULL: nobody */
    uint64_t now_us;              /* monotonic; where there are bans */
    uint64_t
        first_slot; /* of LIMITS_PER_ROUTE_MAX numbers that no other request of any proxy has */
};

/* Read the keys of @route's limits off @request, which matcher_find_route() has filled. Texts live
 * in @arena. */
MUST_USE enum admission_result admission_prepare(struct admission *admission,
                                                 const struct admission_context *context,
                                                 const struct route *route,
                                                 const struct request_view *request,
                                                 struct arena *arena);

/* What a rule has to do with a request. */
enum rule_standing {
    RULE_JUDGES,
    RULE_EXCEPTS,      /* its client is among those that the rule never judges */
    RULE_SKIPS,        /* it lacks a part of the key, and the rule passes over such requests */
    RULE_REFUSES,      /* likewise, and the rule refuses them */
    RULE_IS_AMBIGUOUS, /* its values differ where the rule refuses that, or there are too many */
};

/* How @rule stands to @request, which matcher_find_route() has filled, as to its identity number @i
 * of *n. With RULE_JUDGES that is written into @key, at most KEY_TEXT_BYTES_MAX bytes; @secret is
 * the store's. */
MUST_USE enum rule_standing admission_read_key(const struct limit_rule *rule,
                                               const struct request_view *request,
                                               struct span secret, size_t i, size_t *n,
                                               struct text *key);

/* --- after the decision, while its status is STATUS_OK --- */

/* Whether verdicts speak of a quota that is enforced: not when every limit was skipped. */
bool admission_has_verdicts(const struct admission *admission);

/* The value of the RateLimit-Policy field: the one that @route has ready, or written to @text. */
struct span admission_policy_field(const struct admission *admission, const struct route *route,
                                   struct text *text);

/* The value of the RateLimit field. */
void admission_write_state_field(const struct admission *admission, enum fields_draft draft,
                                 struct text *text);

/* What X-RateLimit-* say: of the enforced limit nearest to its end. False: there is none. */
MUST_USE bool admission_find_nearest(const struct admission *admission,
                                     struct fields_legacy *nearest);

/* How long an admitted request is to be held, us: the longest wait of its
 * limits that are enforced. */
uint64_t admission_wait_us(const struct admission *admission);

/* Whether an admitted request holds slots, which are given back with settlement_make(). */
bool admission_has_slots(const struct admission *admission);

/* For admission_speaks(), of an admission that has several. */
bool admission_speaks_of_several(const struct admission *admission, size_t i);

/* Whether the charge of index @i is the one that speaks for its limit: where a request has several
 * identities, the one that denies, or else is nearest to its end. */
static inline bool admission_speaks(const struct admission *admission, size_t i)
{
    return !admission->has_several || admission_speaks_of_several(admission, i);
}

/* Whether the charge of index @i is of a limit that is not enforced and would have denied. */
bool admission_is_shadow_denial(const struct admission *admission, size_t i);

/* The first enforced limit that denied, or NULL. */
const struct charge *admission_first_denied(const struct admission *admission);

/* The name under which @denied denies: that of the limit, or, of a ban, of its rule. */
struct span admission_denier(const struct admission *admission, const struct charge *denied);

/* What that limit wants answered instead of a problem document, or NULL. */
const struct deny_reply *admission_deny_reply(const struct admission *admission);

/* The longest Retry-After among the limits that denied; false when waiting cannot help. */
MUST_USE bool admission_retry_after_s(const struct admission *admission, uint64_t *seconds);

/* The problem document of a ban that ends in @retry_after_s. */
void admission_write_ban(const struct admission *admission, uint64_t retry_after_s,
                         struct text *text);

/* The problem document of a denial (RFC 9457). @has_retry_after: @retry_after_s is known. */
void admission_write_problem(const struct admission *admission, bool has_retry_after,
                             uint64_t retry_after_s, struct text *text);

#endif /* SLUICE_PROXY_ADMISSION_H */
