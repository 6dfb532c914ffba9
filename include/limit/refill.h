/* What a refund must leave charged: a bucket refills while a request is in flight, and gives back
 * the charge of that request less this refill. Else charges that are held would gather a burst.
 *
 * The refill of one moment is deducted once, from the first refund of those requests that were
 * in flight then: k requests at a time take one refill between them, not k. Known are the moments
 * whose refill no refund has used yet:
 *
 *      since                 seam             used            now
 *        |     ...   ########|................|###############|        # not used yet
 *                    <-before->
 *
 * What was in flight when the bucket was last untouched has had all of it back by the refill.
 *
 * Why it is safe: at any time all refill that is not used can be assigned to charges that were not
 * given back, each no later than its refill. So it would have drained those charges alone as well,
 * and the level is never below the one without the refunded charges. A refund removes a charge, and
 * as much unused refill as may be assigned to it, the earliest first; what remains is later, and
 * later refill can be assigned to any charge that earlier refill can. Moving unused refill to a
 * later moment, as is done at the seam, is safe for the same reason. */

#ifndef SLUICE_LIMIT_REFILL_H
#define SLUICE_LIMIT_REFILL_H

#include <stdint.h>

#include "limit/algorithm.h"

/* All zero: nothing is known. Plain data; times in ticks. */
struct refill {
    uint64_t since;  /* the bucket was untouched; charges before that are over */
    uint64_t seam;   /* end of the earlier refill that is not used */
    uint64_t before; /* ticks of that, right before the seam */
    uint64_t used;   /* from the seam to here it is used, and from here on it is not */
};

enum { REFILL_NUMBERS = 4 };

/* No refund of that charge can be reckoned: it is over, or of a clock that was set back. */
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

/* Ticks whose refill the charge of @charged_at must still have deducted at @now. */
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

/* The refill of @ticks, at most as many as refill_unused() says, is deducted from that charge. */
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

#endif /* SLUICE_LIMIT_REFILL_H */
