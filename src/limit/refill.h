/* The refill that a refund must deduct. A bucket refills while a request is in flight, and a refund
 * returns the charge of that request less this refill. Otherwise held charges would build up a
 * burst.
 *
 * The refill of one moment is deducted once, from the first refund among the requests that were in
 * flight then: k concurrent requests share one refill. The state holds the periods whose refill no
 * refund has used yet:
 *
 *      since                 seam             used            now
 *        |     ...   ########|................|###############|        # not used yet
 *                    <-before->
 *
 * A charge from before the bucket was last untouched has refilled completely. One from before a
 * part of another was forgiven counts as if it had.
 *
 * Why it is safe: at any time all unused refill can be assigned to charges that were not refunded,
 * each no later than its refill. That refill would have drained those charges alone as well, and
 * the level is never below the level without the refunded charges. A refund removes a charge and as
 * much unused refill as can be assigned to it, the earliest first. The remaining refill is later,
 * and later refill can be assigned to any charge that earlier refill can. Moving unused refill to a
 * later moment, as is done at the seam, is safe for the same reason. */

#ifndef SLUICE_LIMIT_REFILL_H
#define SLUICE_LIMIT_REFILL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "limit/inner.h"

/* All zero: unknown. Plain data; times in ticks. */
struct refill {
    uint64_t since;  /* what was charged earlier gives back nothing */
    uint64_t seam;   /* end of the earlier unused refill */
    uint64_t before; /* ticks of the earlier unused refill, which ends at the seam */
    uint64_t used;   /* end of the used refill, which begins at the seam; later refill is unused */
};

/* The charge cannot be refunded: it has refilled, or it predates a step back of the clock. */
#define REFILL_ALL UINT64_MAX

static inline void refill_begin(struct refill *refill, uint64_t now)
{
    *refill = (struct refill){.since = now, .seam = now, .used = now};
}

static inline bool refill_is_ahead(const struct refill *refill, const struct limit_params *params,
                                   uint64_t now)
{
    const uint64_t latest = now + params->ticks_per_s;
    return refill->since > latest || refill->used > latest;
}

/* @is_untouched: the bucket was, before the charge at @now. */
static inline void refill_note_charge(struct refill *refill, const struct limit_params *params,
                                      uint64_t now, bool is_untouched)
{
    if (is_untouched || refill->since == 0 || refill_is_ahead(refill, params, now)) {
        refill_begin(refill, now);
    }
}

/* Likewise when the charge of @charged_at becomes greater at @now. What it takes more may be
 * refunded as charged at any time since then: its caller knows @now only roughly. What was charged
 * between the two has refilled, and that refill is not used yet. */
static inline void refill_note_more(struct refill *refill, const struct limit_params *params,
                                    uint64_t charged_at, uint64_t now, bool is_untouched)
{
    if (refill_is_ahead(refill, params, now)) {
        refill_begin(refill, now);
    } else if (is_untouched) {
        refill_begin(refill, charged_at < now ? charged_at : now);
    }
}

/* A part of what a charge became greater by is forgiven, @still ticks after @now. The state is then
 * as full as it can be. What was charged until then gives back nothing more: it has taken the room
 * of that part. */
static inline void refill_note_forgiven(struct refill *refill, const struct limit_params *params,
                                        uint64_t now, uint64_t still)
{
    const uint64_t next = later_of(now + still, refill->since) + 1;
    const uint64_t second = now + params->ticks_per_s;
    const uint64_t latest = second < LIMIT_NOW_MAX ? second : LIMIT_NOW_MAX;
    refill_begin(refill, next < latest ? next : latest);
}

/* Time of a charge at @now: @now, or since, where the clock is behind it. */
static inline uint64_t refill_dated(const struct refill *refill, const struct limit_params *params,
                                    uint64_t now)
{
    return params->settles ? later_of(now, refill->since) : now;
}

/* Ticks of unused refill to deduct at @now from a refund of the charge of @charged_at. */
static inline uint64_t refill_unused(const struct refill *refill, uint64_t charged_at, uint64_t now)
{
    if (charged_at < refill->since) {
        return REFILL_ALL;
    }
    const uint64_t from = refill->used > charged_at ? refill->used : charged_at;
    uint64_t ticks = now > from ? now - from : 0;
    if (charged_at < refill->seam) {
        const uint64_t early = refill->seam - charged_at;
        ticks += early < refill->before ? early : refill->before;
    }
    return ticks;
}

/* Mark the refill of @ticks, at most refill_unused(), as deducted from that charge. */
static inline void refill_use(struct refill *refill, uint64_t charged_at, uint64_t ticks)
{
    if (ticks == 0) {
        return;
    }
    if (charged_at > refill->used) {
        refill->before += charged_at - refill->used;
        refill->seam = charged_at;
        refill->used = charged_at + ticks;
        return;
    }
    if (charged_at < refill->seam) {
        const uint64_t early = ticks < refill->before ? ticks : refill->before;
        refill->before -= early;
        ticks -= early;
    }
    refill->used += ticks;
}

struct refund {
    struct refill *refill; /* NULL: the state holds none */
    uint64_t charged_at;
    uint64_t now;
    uint64_t still;  /* ticks that the time of the state is ahead of now, within a second */
    uint64_t amount; /* parts to give back */
    uint64_t rate;   /* parts that refill in a tick */
};

/* The parts of @refund to give back, less the unused refill, which is marked as used. False: the
 * charge cannot be refunded. */
MUST_USE static inline bool refill_refund(const struct refund *refund,
                                          const struct limit_params *params, uint64_t *given)
{
    struct refill refill = refund->refill != NULL ? *refund->refill : (struct refill){.since = 0};
    if (refill_is_ahead(&refill, params, refund->now)) {
        refill_begin(&refill, refund->now);
    }
    const uint64_t ticks = refill_unused(&refill, refund->charged_at, refund->now + refund->still);
    if (ticks == REFILL_ALL || refund->charged_at > refund->now + params->ticks_per_s) {
        return false;
    }
    const uint64_t refilled = settle_scaled(0, (int64_t)refund->rate, ticks, refund->amount);
    if (refund->refill != NULL) {
        refill_use(&refill, refund->charged_at, refilled / refund->rate);
        *refund->refill = refill;
    }
    *given = refund->amount - refilled;
    return true;
}

#endif /* SLUICE_LIMIT_REFILL_H */
