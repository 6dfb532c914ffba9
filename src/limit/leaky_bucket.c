#include "limit/leaky_bucket.h"

#include <assert.h>
#include <stddef.h>

#include "limit/divide.h"
#include "limit/meter.h"
#include "limit/scripts.h"

static const char *check_params(const struct limit_params *params)
{
    if (params->max_wait > LIMIT_UNITS_MAX) {
        return "max_wait must not exceed 2^52 ticks";
    }
    return meter_check_params(params);
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
    (void)params;
    (void)call;
    return sizeof(struct meter);
}

/* How much longer than max_wait the next departure is away; 0 while policing. */
static uint64_t excess_of(const struct limit_params *params, uint64_t wait)
{
    return wait > params->max_wait ? wait - params->max_wait : 0;
}

/* Ticks until @cost units, at most the burst, fit and need not wait too long. */
static uint64_t passes_after(const struct limit_params *params, uint64_t level, uint64_t wait,
                             uint64_t cost)
{
    const uint64_t fits_after = meter_fits_after(params, level, cost);
    const uint64_t excess = excess_of(params, wait);
    return fits_after > excess ? fits_after : excess;
}

static void evaluate(const void *state, const struct limit_params *params,
                     const struct limit_call *call, struct verdict *verdict)
{
    assert(check_params(params) == NULL);

    const uint64_t full = params->burst * params->period;
    const uint64_t level = meter_at(state, params->rate, call->now);
    const uint64_t drained_after = divide_up(level, params->rate);
    const uint64_t wait = params->max_wait > 0 ? drained_after : 0;
    const bool waits_too_long = excess_of(params, wait) > 0;
    const uint64_t remaining =
        level < full && !waits_too_long ? (full - level) / params->period : 0;
    /* A cost of nothing has no place in the queue. */
    const bool allowed = call->cost <= remaining;
    uint64_t retry_after = 0;
    if (call->cost > params->burst) {
        retry_after = RETRY_NEVER;
    } else if (!allowed) {
        retry_after = passes_after(params, level, wait, call->cost);
    }

    *verdict = (struct verdict){
        .allowed = allowed,
        .limit = params->burst,
        .remaining = remaining,
        .retry_after = retry_after,
        .next_after =
            remaining < params->burst ? passes_after(params, level, wait, remaining + 1) : 0,
        .reset_after = drained_after,
        .wait = allowed && call->cost > 0 ? wait : 0,
    };
}

static void charge(void *state, const struct limit_params *params, const struct limit_call *call)
{
    meter_charge(state, params, call);
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    return meter_is_ahead(state, params, now);
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    (void)charged_at;
    if (params->max_wait == 0 || delta > 0) {
        meter_settle(state, params, now, delta);
    }
}

const struct algorithm leaky_bucket_algorithm = {
    .name = "leaky_bucket",
    .has_burst = true,
    .script = &leaky_bucket_script,
    .check_params = check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .evaluate = evaluate,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = meter_restore,
    .settle = settle,
};
