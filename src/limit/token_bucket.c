#include "limit/token_bucket.h"

#include <assert.h>
#include <stddef.h>

#include "limit/divide.h"
#include "limit/meter.h"
#include "limit/scripts.h"

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->burst;
    values[1] = params->period;
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    (void)state;
    (void)params;
    (void)call;
    return sizeof(struct meter);
}

static void evaluate(const void *state, const struct limit_params *params,
                     const struct limit_call *call, struct verdict *verdict)
{
    assert(meter_check_params(params) == NULL);

    const uint64_t full = params->burst * params->period;
    const uint64_t debt = meter_at(state, params->rate, call->now);
    const uint64_t left = debt < full ? full - debt : 0; /* the burst may have been lowered */

    /* Divide rather than multiply: cost comes from outside and is unbounded. */
    const uint64_t remaining = left / params->period;
    const bool allowed = call->cost <= remaining;
    uint64_t retry_after = 0;
    if (call->cost > params->burst) {
        retry_after = RETRY_NEVER;
    } else if (!allowed) {
        retry_after = meter_fits_after(params, debt, call->cost);
    }

    *verdict = (struct verdict){
        .allowed = allowed,
        .limit = params->burst,
        .remaining = remaining,
        .retry_after = retry_after,
        .next_after = remaining < params->burst ? meter_fits_after(params, debt, remaining + 1) : 0,
        .reset_after = divide_up(debt, params->rate),
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
    meter_settle(state, params, now, delta);
}

const struct algorithm token_bucket_algorithm = {
    .name = "token_bucket",
    .has_burst = true,
    .script = &token_bucket_script,
    .check_params = meter_check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .evaluate = evaluate,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = meter_restore,
    .settle = settle,
};
