/* A limit: one rate of one rule of the policy, ready to be judged.
 *
 * Immutable after limit_init(), shared by all workers. */

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
    uint32_t meter; /* its number with who counts by name, which gives it; 0: none */
    const struct algorithm *algorithm;
    struct limit_params params;
    uint32_t tick_us;                /* 1, 1,000 or 1,000,000 */
    uint64_t period_us;              /* as written */
    char digest[LIMIT_DIGEST_BYTES]; /* of what gives the state its unit; lower-case hex, no NUL */
    struct hash128 id; /* of the name and of that; public, the same in every process */
    bool shadow;       /* judged and charged as if real, never enforced */
    bool count_denied; /* a denied request is charged too, by at most what brings it to full */
    bool is_settled;   /* what it charges may be corrected later */
    /* A Redis that has redis-cell judges it by CL.THROTTLE: it is no misfit (see cl_throttle.h),
     * never judged beside another, and what it charges is never settled. */
    bool by_cell;
    enum on_failure on_failure;
};

/* What the policy says of it. */
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
};

/* Fill algorithm, params, tick, period, digest and id of @limit, which has its name, from @spec,
 * with the finest tick in which the numbers are exact; the other members are left. Windows of a
 * week start on Monday. Returns NULL, or what is wrong: a static phrase fit to follow "error: ". */
MUST_USE const char *limit_init(struct limit *limit, const struct limit_spec *spec);

/* Make @share what one of @instances (>= 1) proxies may admit by itself, so that all of them
 * together keep within @limit. A bucket's period is multiplied and its burst divided; a window
 * stays the window that clients know, and its count alone is divided. What is divided is
 * rounded down but never below 1: more proxies than units admit more than @limit. The tick and
 * the name are @limit's; the digest and the id differ as the period does. Cannot fail: a period
 * that fits no more is cut. */
void limit_share(const struct limit *limit, uint32_t instances, struct limit *share);

/* Whether requests alike that meet @limit can be decided as one call of the script,
 * see limit/alike.h: not where they are held one after another, or are counted
 * though they are denied. */
bool limit_takes_alike(const struct limit *limit);

/* The first limit of @limit's policy, behind which the others lie by index. */
static inline const struct limit *limit_first(const struct limit *limit)
{
    return limit - limit->index;
}

/* Units that pass at once when the quota is untouched: a bucket's burst, a window's rate. No cost
 * above it can ever pass. */
uint64_t limit_capacity(const struct limit *limit);

/* The call that @cost units at @now_us are to @limit; edges, slot and to_full are left for the
 * caller. */
struct limit_call limit_call_at(const struct limit *limit, uint64_t now_us, uint32_t cost);

/* Whether @limit's windows are known at @call's time: false for a calendar whose edges do not hold
 * it, and then @call must not be judged. */
bool limit_knows(const struct limit *limit, const struct limit_call *call);

/* Whether @limit's windows start at times of the wall clock that people can see. For all others
 * time that has passed is what counts, and any clock that does not step will do. */
static inline bool limit_follows_wall_clock(const struct limit *limit)
{
    return limit->algorithm->has_offset && !limit->params.from_first;
}

/* @now_us (us since the epoch, at most LIMIT_NOW_MAX) in @limit's ticks, rounded down, so that
 * nothing comes back early. */
static inline uint64_t limit_ticks(const struct limit *limit, uint64_t now_us)
{
    switch (limit->tick_us) { /* dividing by what is no constant takes many times as long */
    case 1:
        return now_us;
    case 1000:
        return now_us / 1000;
    default:
        return now_us / 1000000;
    }
}

/* @ticks in us; what does not fit is UINT64_MAX. */
uint64_t limit_us(const struct limit *limit, uint64_t ticks);

/* @ticks in whole seconds, rounded up. RETRY_NEVER and RETRY_UNKNOWN stay. */
uint64_t limit_seconds(const struct limit *limit, uint64_t ticks);

#endif /* SLUICE_LIMIT_LIMIT_H */
