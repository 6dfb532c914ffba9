/* The generic cell rate algorithm: one number of state, the theoretical arrival time.
 *
 * Each unit advances that time by an interval of ceil(period / rate) ticks. A request passes if the
 * advanced time is at most burst intervals after now. A rate is refused if that rounding changes
 * its interval by more than 0.1 %. The answers equal those of redis-cell's CL.THROTTLE with
 * max_burst = burst - 1.
 *
 * The state does not hold the time of its last change. A clock that was set back is detected if the
 * arrival time is further ahead than the depth of the bucket plus a second; the bucket then counts
 * as full. A smaller step back takes the units that refill in that time. What a larger burst
 * admitted would look the same, so another burst is another state. For the same reason a cost known
 * later at most fills the bucket.
 *
 * Source: ITU-T I.371 annex A (virtual scheduling); brandur/redis-cell. Twin: gcra.lua answers the
 * same; tests/data/vectors/gcra.tsv is run through both.
 *
 * Constant time. */

#include <stdbool.h>
#include <stddef.h>

#include "limit/algorithms.h"
#include "limit/inner.h"
#include "limit/refill.h"

/* State of one key. All zero is untouched. */
struct gcra {
    uint64_t arrival;     /* theoretical arrival time, ticks */
    struct refill refill; /* present if the limit settles */
};

/* A rounding that adds more than one part in so many to the interval is refused. */
enum { ROUNDING_PARTS = 1000 };

/* Ticks per unit. */
static uint64_t interval_of(const struct limit_params *params)
{
    return divide_up(params->period, params->rate);
}

static const char *check_params(const struct limit_params *params)
{
    if (params->burst > LIMIT_UNITS_MAX / interval_of(params)) {
        return "burst times the interval of a unit must not exceed 2^52 ticks";
    }
    const uint64_t rounding = interval_of(params) * params->rate - params->period;
    if (rounding * ROUNDING_PARTS > params->period) {
        return "rate does not divide the period into whole ticks within 0.1 %; use token_bucket";
    }
    return NULL;
}

/* A full bucket takes no more. */
static uint64_t room(const struct limit_params *params)
{
    (void)params;
    return 0;
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->burst;
    values[1] = interval_of(params);
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    (void)state;
    (void)call;
    return params->settles ? sizeof(struct gcra) : offsetof(struct gcra, refill);
}

static uint64_t depth_of(const struct limit_params *params)
{
    return params->burst * interval_of(params);
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct gcra *gcra = state;
    return gcra->arrival > now + depth_of(params) + params->ticks_per_s;
}

/* Ticks from @now to the theoretical arrival time. */
static uint64_t debt_at(const struct gcra *gcra, const struct limit_params *params, uint64_t now)
{
    if (is_ahead(gcra, params, now)) {
        return depth_of(params);
    }
    return gcra->arrival > now ? gcra->arrival - now : 0;
}

/* @delta units, which fill the bucket at most. */
static void owe_more(struct gcra *gcra, const struct limit_params *params, uint64_t now,
                     int64_t delta)
{
    const uint64_t before = debt_at(gcra, params, now);
    const uint64_t most = before > depth_of(params) ? before : depth_of(params);
    const uint64_t debt = settle_scaled(before, delta, interval_of(params), most);
    gcra->arrival = debt > 0 ? now + debt : 0;
}

/* Ticks until @cost units, at most the burst, pass. */
static uint64_t passes_after(const struct limit_params *params, uint64_t debt, uint64_t cost)
{
    const uint64_t wanted = debt + cost * interval_of(params);
    return wanted > depth_of(params) ? wanted - depth_of(params) : 0;
}

static uint64_t judge(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait)
{
    (void)wait;
    return passes_after(params, debt_at(state, params, call->now), call->cost);
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const uint64_t debt = debt_at(state, params, call->now);
    const uint64_t used = divide_up(debt, interval_of(params));
    const uint64_t remaining = used < params->burst ? params->burst - used : 0;

    verdict->limit = params->burst;
    verdict->remaining = remaining;
    verdict->next_after = remaining < params->burst ? passes_after(params, debt, remaining + 1) : 0;
    verdict->reset_after = debt;
}

static uint64_t charge(void *state, const struct limit_params *params,
                       const struct limit_call *call)
{
    struct gcra *gcra = state;
    if (params->settles && call->cost > 0) {
        refill_note_charge(&gcra->refill, params, call->now, debt_at(gcra, params, call->now) == 0);
    }
    owe_more(gcra, params, call->now, call->cost);
    return refill_dated(&gcra->refill, params, call->now);
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct gcra *gcra = state;
    const uint64_t debt = debt_at(gcra, params, now);
    if (delta > 0) {
        if (params->settles) {
            refill_note_more(&gcra->refill, params, charged_at, now, debt == 0);
            if (settle_scaled(debt, delta, interval_of(params), UINT64_MAX) >
                later_of(debt, depth_of(params))) {
                refill_note_forgiven(&gcra->refill, params, now, 0);
            }
        }
        owe_more(gcra, params, now, delta);
    } else if (delta < 0 && debt > 0) {
        const struct refund refund = {
            .refill = params->settles ? &gcra->refill : NULL,
            .charged_at = charged_at,
            .now = now,
            .amount = settle_scaled(0, -delta, interval_of(params), LIMIT_UNITS_MAX),
            .rate = 1,
        };
        uint64_t given;
        if (refill_refund(&refund, params, &given)) {
            gcra->arrival = given < debt ? now + debt - given : 0;
        }
    }
}

/* The script reports the debt and its time. */
static size_t restore(void *state, const struct limit_params *params, const uint64_t *reported,
                      size_t n)
{
    uint64_t numbers[2] = {0};
    const size_t n_used = restore_numbers(numbers, params, reported, n);
    *(struct gcra *)state = (struct gcra){.arrival = numbers[0] > 0 ? numbers[0] + numbers[1] : 0};
    return n_used;
}

const struct algorithm gcra_algorithm = {
    .name = "gcra",
    .has_burst = true,
    .has_numbers_in_digest = true,
    .script = &gcra_script,
    .check_params = check_params,
    .room = room,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = restore,
    .settle = settle,
};
