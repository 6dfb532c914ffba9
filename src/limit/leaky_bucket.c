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
    (void)call;
    return meter_bytes(params);
}

/* How the bucket stands. */
struct standing {
    uint64_t level;         /* parts */
    uint64_t drained_after; /* ticks */
    uint64_t
        excess; /* how much longer than max_wait the next departure is away; 0 while policing */
};

static struct standing stand(const struct meter *meter, const struct limit_params *params,
                             uint64_t now)
{
    const uint64_t level = meter_at(meter, params->rate, now);
    const uint64_t drained_after = divide_up(level, params->rate);
    const bool waits_too_long = params->max_wait > 0 && drained_after > params->max_wait;

    return (struct standing){
        .level = level,
        .drained_after = drained_after,
        .excess = waits_too_long ? drained_after - params->max_wait : 0,
    };
}

/* Ticks until @cost units, at most the burst, fit and need not wait too long. */
static uint64_t passes_after(const struct limit_params *params, const struct standing *standing,
                             uint64_t cost)
{
    const uint64_t fits_after = meter_fits_after(params, standing->level, cost);
    return fits_after > standing->excess ? fits_after : standing->excess;
}

/* A cost of nothing has no place in the queue. */
static void judge(const void *state, const struct limit_params *params,
                  const struct limit_call *call, struct verdict *verdict)
{
    assert(check_params(params) == NULL);

    const struct standing standing = stand(state, params, call->now);
    uint64_t retry_after = 0;
    uint64_t wait = 0;
    if (call->cost > params->burst) {
        retry_after = RETRY_NEVER;
    } else if (call->cost > 0) {
        retry_after = passes_after(params, &standing, call->cost);
        retry_after += retry_after > 0 ? meter_stands_still(state, params, call->now) : 0;
        wait = params->max_wait > 0 && retry_after == 0 ? standing.drained_after : 0;
    }
    verdict->allowed = retry_after == 0;
    verdict->retry_after = retry_after;
    verdict->wait = wait;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const struct standing standing = stand(state, params, call->now);
    const uint64_t still = standing.level > 0 ? meter_stands_still(state, params, call->now) : 0;
    const uint64_t remaining = standing.excess == 0 ? meter_remaining(params, standing.level) : 0;

    verdict->limit = params->burst;
    verdict->remaining = remaining;
    verdict->next_after =
        remaining < params->burst ? passes_after(params, &standing, remaining + 1) + still : 0;
    verdict->reset_after = standing.drained_after + still;
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
    if (params->max_wait == 0 || delta > 0) {
        meter_settle(state, params, charged_at, now, delta);
    }
}

const struct algorithm leaky_bucket_algorithm = {
    .name = "leaky_bucket",
    .has_burst = true,
    .script = &meter_script,
    .check_params = check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = meter_restore,
    .settle = settle,
};
