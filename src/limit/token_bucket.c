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
    (void)call;
    return meter_bytes(params);
}

static void judge(const void *state, const struct limit_params *params,
                  const struct limit_call *call, struct verdict *verdict)
{
    assert(meter_check_params(params) == NULL);

    uint64_t retry_after = 0;
    if (call->cost > params->burst) {
        retry_after = RETRY_NEVER;
    } else if (call->cost > 0) {
        const uint64_t debt = meter_at(state, params->rate, call->now);
        retry_after = meter_fits_after(params, debt, call->cost);
        retry_after += retry_after > 0 ? meter_stands_still(state, params, call->now) : 0;
    }
    verdict->allowed = retry_after == 0;
    verdict->retry_after = retry_after;
    verdict->wait = 0;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const uint64_t debt = meter_at(state, params->rate, call->now);
    const uint64_t remaining = meter_remaining(params, debt);
    const uint64_t still = debt > 0 ? meter_stands_still(state, params, call->now) : 0;

    verdict->limit = params->burst;
    verdict->remaining = remaining;
    verdict->next_after =
        remaining < params->burst ? meter_fits_after(params, debt, remaining + 1) + still : 0;
    verdict->reset_after = divide_up(debt, params->rate) + still;
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
    meter_settle(state, params, charged_at, now, delta);
}

const struct algorithm token_bucket_algorithm = {
    .name = "token_bucket",
    .has_burst = true,
    .script = &meter_script,
    .check_params = meter_check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = meter_restore,
    .settle = settle,
};
