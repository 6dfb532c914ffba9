/* A limit: one rate of one rule of the policy, ready to be judged.
 *
 * Immutable after limit_init(), shared by all workers. Also which of two limits is stricter, and
 * how long the bans of one are. */

#ifndef SLUICE_LIMIT_LIMIT_H
#define SLUICE_LIMIT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "limit/algorithm.h"

enum { LIMIT_DIGEST_BYTES = 8 };

/* What happens to a request when the shared store cannot answer. */
enum on_failure {
    ON_FAILURE_LOCAL, /* decided in this process, at its share */
    ON_FAILURE_ALLOW, /* the limit is skipped */
    ON_FAILURE_DENY,  /* 503 */
};

struct limit {
    struct span
        name; /* borrowed from the policy; "login", or "login.1s" where there are several rates */
    uint32_t index; /* among all limits of the policy, from 0 */
    uint32_t base;  /* the index of the limit whose plan this is; its own: it is of no plan */
    uint32_t meter; /* its number in the counters by name, which assign it; 0: none */
    const struct algorithm *algorithm;
    struct limit_params params;
    uint32_t tick_us;                /* 1, 1,000 or 1,000,000 */
    uint64_t period_us;              /* as written */
    char digest[LIMIT_DIGEST_BYTES]; /* of the state's unit; lower-case hex, no NUL */
    struct hash128 id;  /* hash of name and digest; public, the same in every process */
    bool shadow;        /* judged and charged as if enforced, never denies */
    bool charge_denied; /* a denied request is charged too, at most until the state is full */
    bool is_settled;    /* its charges may be corrected later */
    uint64_t owed;      /* units that responses may report together beyond what was charged */
    /* A Redis that has redis-cell judges it by CL.THROTTLE: cl_throttle_misfit() is NULL, it is
     * never judged together with another limit, and its charges are never settled. */
    bool by_cell;
    enum on_failure on_failure;
};

/* A limit as written in the policy. */
struct limit_spec {
    const struct algorithm *algorithm;
    uint32_t rate;
    uint32_t burst;       /* ignored by algorithms without one */
    uint64_t period_us;   /* ignored by those with slots */
    uint64_t max_wait_us; /* as in struct limit_params, as are all that follow */
    uint64_t lease_us;
    uint32_t buckets;
    bool strict;
    bool from_first;
    bool is_calendar;
    uint64_t zone;
};

/* Fill algorithm, params, tick, period, digest and id of @limit, which has its name, from @spec,
 * with the finest tick in which the numbers are exact; the other members are untouched. Windows of
 * a week start on Monday. Returns NULL, or the fault: a static phrase that can follow "error: ". */
MUST_USE const char *limit_init(struct limit *limit, const struct limit_spec *spec);

/* As limit_init(), with a tick of at least @tick_us: limits that share states have the same. */
MUST_USE const char *limit_init_coarse(struct limit *limit, const struct limit_spec *spec,
                                       uint32_t tick_us);

/* Units that can be charged after the fact beyond the capacity; what is more is forgiven. */
uint64_t limit_room(const struct limit *limit);

/* Whether all that @limit may be owed has room. Otherwise a charge that was raised may have taken
 * less than it asked for, and must not be given back. */
bool limit_owes_all(const struct limit *limit);

/* Make @coarse what @limit, whose charges may be raised, is with a tick @factor times as long,
 * which gives it more room. False: it would not have more, its numbers are not exact in that tick,
 * or what refills in one tick is too large a part of the capacity. */
MUST_USE bool limit_coarsen(const struct limit *limit, uint32_t factor, struct limit *coarse);

/* Make @share the part of @limit that one of @instances (>= 1) proxies may admit by itself, so that
 * all of them together stay within @limit. For a bucket the period is multiplied and the burst
 * divided. For a window the count is divided and the period stays, since clients know it. Quotients
 * are rounded down but are at least 1: more proxies than units admit more than @limit. The tick and
 * the name are those of @limit; the digest and the id change with the period. Cannot fail: a period
 * that does not fit is clamped. */
void limit_share(const struct limit *limit, uint32_t instances, struct limit *share);

/* Whether one call of the script can decide identical requests to @limit, see limit/identical.h:
 * false if requests are delayed one after another, or if denied requests are counted. */
bool limit_takes_identical(const struct limit *limit);

/* The first limit of @limit's policy. The others follow it in memory, by index. */
static inline const struct limit *limit_first(const struct limit *limit)
{
    return limit - limit->index;
}

/* Units that pass at once when the quota is untouched: a bucket's burst, a window's rate. No cost
 * above it can ever pass. */
uint64_t limit_capacity(const struct limit *limit);

/* The call for @cost units of @limit at @now_us. The caller sets edges, slot and to_full. */
struct limit_call limit_call_at(const struct limit *limit, uint64_t now_us, uint32_t cost);

/* Whether @limit's windows are known at @call's time. False: the edges of a calendar do not enclose
 * it, and @call must not be judged. */
bool limit_knows(const struct limit *limit, const struct limit_call *call);

/* Whether @limit's windows are aligned to the wall clock. The other limits depend on elapsed time
 * alone, and any clock that does not step is sufficient for them. */
static inline bool limit_follows_wall_clock(const struct limit *limit)
{
    return limit->algorithm->has_offset && !limit->params.from_first;
}

/* @now_us (us since the epoch, at most LIMIT_NOW_MAX) in @limit's ticks, rounded down, so that
 * no unit refills early. */
static inline uint64_t limit_ticks(const struct limit *limit, uint64_t now_us)
{
    switch (limit->tick_us) { /* division by a variable takes many times as long */
    case 1:
        return now_us;
    case 1000:
        return now_us / 1000;
    default:
        return now_us / 1000000;
    }
}

/* @ticks in us; UINT64_MAX on overflow. */
uint64_t limit_us(const struct limit *limit, uint64_t ticks);

/* Time of a charge to @limit, us: @now_us of the decision, or @charged_at (ticks) if that is later
 * because the clock is behind the state. */
static inline uint64_t limit_charged_at_us(const struct limit *limit, uint64_t now_us,
                                           uint64_t charged_at)
{
    return charged_at > limit_ticks(limit, now_us) ? limit_us(limit, charged_at) : now_us;
}

/* @ticks in whole seconds, rounded up. RETRY_NEVER and RETRY_UNKNOWN stay. */
uint64_t limit_seconds(const struct limit *limit, uint64_t ticks);

/* What a limit admits at most, and which of two limits is the stricter one. */

/* The most units that @limit, a bucket, admits in a time shorter than @us. Saturates. */
uint64_t bounds_bucket_admits(const struct limit *limit, uint64_t us);

/* Whether @loose allows every request that @strict allows. Both count the same requests at the same
 * cost; @strict may count more requests, and refunds nothing. May return false although the answer
 * is yes, if that depends on calendars, on windows that begin with a request, or on rounding. */
bool bounds_never_binds(const struct limit *loose, const struct limit *strict);

/* Bans that grow: when a limit bans a key, and for how long. */

struct ban_terms {
    uint32_t after;     /* offences within the period that ban a key; 0: the limit never bans */
    bool shadow;        /* bans are logged and counted, not set */
    uint32_t factor;    /* each further ban is so many times longer; at least 1 */
    uint64_t period_us; /* at least 1 */
    uint64_t for_ms;    /* of the first ban; at least 1 */
    uint64_t max_ms;    /* of any ban */
    uint64_t forget_ms; /* without a ban for so long after the last one: the next is the first */
};

/* The length of ban number @strike, from 1, of a key: for_ms * factor ^ (strike - 1), at most
 * max_ms. */
MUST_USE uint64_t ban_terms_length_ms(const struct ban_terms *terms, uint64_t strike);

#endif /* SLUICE_LIMIT_LIMIT_H */
