/* Token bucket and leaky bucket: units that were taken and refill, or drain, at a constant rate.
 *
 * A token bucket holds at most `burst` tokens and gains `rate` tokens per period. A request of cost
 * N passes if the bucket holds N tokens, and takes them. A refund returns the tokens that have not
 * refilled since the charge, see refill.h: in any interval of length T at most burst + T * rate /
 * period units pass that are not refunded.
 *
 * A leaky bucket is the same, seen from below: it holds at most `burst` units and drains `rate` of
 * them per period. Without max_wait it polices: a request passes if its units fit, and adds them.
 * With max_wait it shapes: an admitted request gets the next free departure, `wait` from now, and
 * the following departure is later by the time that its units take to drain. The level is then the
 * length of the queue, including the rest of the latest departure's gap. A request is refused if
 * its units do not fit or its wait would exceed max_wait. A granted departure is final: a refund
 * has no effect while shaping, so that two departures are never closer than their gap.
 *
 * One unit is `period` parts, and `rate` parts refill in a tick, so that no number is rounded. The
 * state holds the taken parts, not the remaining ones: an absent state is untouched, and a burst
 * that is raised in the policy takes effect at once. A time earlier than the latest charge counts
 * as no time passed; the next call follows a clock that went back by more than a second. Constant
 * time.
 *
 * Source: RFC 2697 section 3, bucket C alone (CIR = rate / period, CBS = burst); docs/policy.md
 * "leaky_bucket", ITU-T I.371's continuous-state leaky bucket. Twin: meter.lua answers the same;
 * tests/data/vectors/token_bucket.tsv and leaky_bucket.tsv are run through both. */

#include <stdbool.h>
#include <stddef.h>

#include "limit/algorithms.h"
#include "limit/inner.h"
#include "limit/refill.h"

/* State of one key. All zero is untouched. */
struct meter {
    uint64_t taken;       /* parts, as of updated */
    uint64_t updated;     /* time of the latest charge, ticks; 0 while nothing is taken */
    struct refill refill; /* present if the limit settles */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->max_wait > LIMIT_UNITS_MAX) {
        return "max_wait must not exceed 2^52 ticks";
    }
    if (params->burst > LIMIT_UNITS_MAX / params->period) {
        return "burst times period must not exceed 2^52 ticks";
    }
    return NULL;
}

static uint64_t room(const struct limit_params *params)
{
    return LIMIT_UNITS_MAX / params->period - params->burst;
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->burst;
    values[1] = params->period;
    values[2] = params->max_wait;
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    (void)state;
    (void)call;
    return params->settles ? sizeof(struct meter) : offsetof(struct meter, refill);
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct meter *meter = state;
    return meter->updated > now + params->ticks_per_s;
}

/* Ticks until @meter's time advances again after the clock went back by at most a second: no time
 * passes until the clock reaches its old value. Else 0. */
static uint64_t stands_still(const struct meter *meter, const struct limit_params *params,
                             uint64_t now)
{
    return meter->updated > now && !is_ahead(meter, params, now) ? meter->updated - now : 0;
}

/* Parts that are still taken at @now. For a key idle for years the product of time and rate passes
 * 64 bits: then nothing is taken. */
static uint64_t taken_at(const struct meter *meter, const struct limit_params *params, uint64_t now)
{
    if (now <= meter->updated) {
        return meter->taken;
    }
    uint64_t back;
    if (__builtin_mul_overflow(now - meter->updated, params->rate, &back) || back >= meter->taken) {
        return 0;
    }
    return meter->taken - back;
}

/* Sets the taken parts to @taken as of @now, or as of the latest charge if that is up to a second
 * later. */
static void set(struct meter *meter, const struct limit_params *params, uint64_t now,
                uint64_t taken)
{
    const bool clock_went_back = is_ahead(meter, params, now);

    meter->taken = taken;
    if (taken == 0) {
        meter->updated = 0;
    } else if (now > meter->updated || clock_went_back) {
        meter->updated = now;
    }
}

/* How much longer than max_wait the next departure is away; 0 while policing. */
static uint64_t excess_of(const struct limit_params *params, uint64_t taken)
{
    if (params->max_wait == 0) {
        return 0;
    }
    const uint64_t drained_after = divide_up(taken, params->rate);
    return drained_after > params->max_wait ? drained_after - params->max_wait : 0;
}

/* Ticks until @cost units, at most the burst, fit beside @taken parts and need not wait too
 * long. */
static uint64_t passes_after(const struct limit_params *params, uint64_t taken, uint64_t cost)
{
    const uint64_t full = params->burst * params->period;
    const uint64_t wanted = taken + cost * params->period;
    const uint64_t fits_after = wanted > full ? divide_up(wanted - full, params->rate) : 0;
    const uint64_t excess = excess_of(params, taken);
    return fits_after > excess ? fits_after : excess;
}

static uint64_t judge(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait)
{
    const uint64_t taken = taken_at(state, params, call->now);
    const uint64_t retry_after = passes_after(params, taken, call->cost);
    if (retry_after > 0) {
        return retry_after + stands_still(state, params, call->now);
    }
    if (params->max_wait > 0) {
        *wait = divide_up(taken, params->rate);
    }
    return 0;
}

/* Units that fit beside @taken parts, which may exceed the capacity after the burst was lowered. */
static uint64_t remaining_of(const struct limit_params *params, uint64_t taken)
{
    const uint64_t used = divide_up(taken, params->period);
    return used < params->burst && excess_of(params, taken) == 0 ? params->burst - used : 0;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const uint64_t taken = taken_at(state, params, call->now);
    const uint64_t still = taken > 0 ? stands_still(state, params, call->now) : 0;
    const uint64_t remaining = remaining_of(params, taken);

    verdict->limit = params->burst;
    verdict->remaining = remaining;
    verdict->next_after =
        remaining < params->burst ? passes_after(params, taken, remaining + 1) + still : 0;
    verdict->reset_after = divide_up(taken, params->rate) + still;
}

static uint64_t charge(void *state, const struct limit_params *params,
                       const struct limit_call *call)
{
    struct meter *meter = state;
    const uint64_t before = taken_at(meter, params, call->now);
    uint64_t most = LIMIT_UNITS_MAX;
    if (call->to_full) {
        const uint64_t full = params->burst * params->period;
        most = before > full ? before : full;
    }
    if (params->settles && call->cost > 0) {
        refill_note_charge(&meter->refill, params, call->now, before == 0);
    }
    set(meter, params, call->now, settle_scaled(before, call->cost, params->period, most));
    return later_of(meter->updated, refill_dated(&meter->refill, params, call->now));
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct meter *meter = state;
    const uint64_t taken = taken_at(meter, params, now);
    if (delta > 0) { /* as if they were charged at now */
        if (params->settles) {
            refill_note_more(&meter->refill, params, charged_at, now, taken == 0);
            if (settle_scaled(taken, delta, params->period, UINT64_MAX) > LIMIT_UNITS_MAX) {
                refill_note_forgiven(&meter->refill, params, now, stands_still(meter, params, now));
            }
        }
        set(meter, params, now, settle_scaled(taken, delta, params->period, LIMIT_UNITS_MAX));
    } else if (delta < 0 && taken > 0 && params->max_wait == 0) {
        const struct refund refund = {
            .refill = params->settles ? &meter->refill : NULL,
            .charged_at = charged_at,
            .now = now,
            .still = stands_still(meter, params, now), /* no time has passed since then */
            .amount = settle_scaled(0, -delta, params->period, LIMIT_UNITS_MAX),
            .rate = params->rate,
        };
        uint64_t given;
        if (refill_refund(&refund, params, &given)) {
            set(meter, params, now, given < taken ? taken - given : 0);
        }
    }
}

const struct algorithm token_bucket_algorithm = {
    .name = "token_bucket",
    .has_burst = true,
    .script = &meter_script,
    .check_params = check_params,
    .room = room,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = restore_numbers,
    .settle = settle,
};

const struct algorithm leaky_bucket_algorithm = {
    .name = "leaky_bucket",
    .has_burst = true,
    .has_wait = true,
    .script = &meter_script,
    .check_params = check_params,
    .room = room,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = restore_numbers,
    .settle = settle,
};
