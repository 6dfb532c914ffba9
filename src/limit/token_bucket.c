#include "limit/token_bucket.h"

#include <assert.h>
#include <stddef.h>

#include "limit/divide.h"
#include "limit/scripts.h"
#include "limit/settle.h"

static const char *check_params(const struct limit_params *params)
{
    if (params->rate == 0) {
        return "rate must be at least 1";
    }
    if (params->burst == 0) {
        return "burst must be at least 1";
    }
    if (params->period == 0) {
        return "period must be at least 1 tick";
    }
    if (params->burst > LIMIT_UNITS_MAX / params->period) {
        return "burst times period must not exceed 2^52 ticks";
    }
    return NULL;
}

static size_t script_params(const struct limit_params *params,
                            uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->burst;
    values[1] = params->period;
    return 2;
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    (void)state;
    (void)params;
    (void)call;
    return sizeof(struct token_bucket);
}

/* For a key idle for years the product of time and rate passes 64 bits: then nothing is owed. */
static uint64_t debt_at(const struct token_bucket *bucket, uint32_t rate, uint64_t now)
{
    if (now <= bucket->updated) {
        return bucket->debt;
    }
    uint64_t paid;
    if (__builtin_mul_overflow(now - bucket->updated, rate, &paid) || paid >= bucket->debt) {
        return 0;
    }
    return bucket->debt - paid;
}

static void evaluate(const void *state, const struct limit_params *params,
                     const struct limit_call *call, struct verdict *verdict)
{
    assert(check_params(params) == NULL);

    const uint32_t cost = call->cost;
    const uint64_t full = params->burst * params->period;
    const uint64_t debt = debt_at(state, params->rate, call->now);
    const uint64_t left = debt < full ? full - debt : 0; /* the burst may have been lowered */

    /* Divide rather than multiply: cost comes from outside and is unbounded. */
    const uint64_t remaining = left / params->period;
    const bool allowed = cost <= remaining;
    uint64_t retry_after = 0;
    if (cost > params->burst) {
        retry_after = RETRY_NEVER;
    } else if (!allowed) {
        retry_after = divide_up(debt + cost * params->period - full, params->rate);
    }
    uint64_t next_after = 0;
    if (remaining < params->burst) {
        next_after = divide_up(debt + (remaining + 1) * params->period - full, params->rate);
    }

    *verdict = (struct verdict){
        .allowed = allowed,
        .limit = params->burst,
        .remaining = remaining,
        .retry_after = retry_after,
        .next_after = next_after,
        .reset_after = divide_up(debt, params->rate),
    };
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct token_bucket *bucket = state;
    return bucket->updated > now + params->ticks_per_s;
}

static void owe(struct token_bucket *bucket, const struct limit_params *params, uint64_t now,
                uint64_t debt)
{
    const bool clock_went_back = is_ahead(bucket, params, now);
    bucket->debt = debt;
    if (debt == 0) {
        bucket->updated = 0;
    } else if (now > bucket->updated || clock_went_back) {
        bucket->updated = now;
    }
}

static void charge(void *state, const struct limit_params *params, const struct limit_call *call)
{
    const uint64_t full = params->burst * params->period;
    const uint64_t before = debt_at(state, params->rate, call->now);
    uint64_t debt;
    if (call->to_full) {
        /* A product that wraps is more than full too: cost comes from outside. */
        const uint64_t left = before < full ? full - before : 0;
        debt = call->cost > left / params->period ? before + left
                                                  : before + call->cost * params->period;
    } else {
        debt = before + call->cost * params->period;
    }
    owe(state, params, call->now, debt);
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    (void)charged_at;
    const uint64_t debt = debt_at(state, params->rate, now);
    owe(state, params, now, settle_scaled(debt, delta, params->period, LIMIT_UNITS_MAX));
}

const struct algorithm token_bucket_algorithm = {
    .name = "token_bucket",
    .has_burst = true,
    .has_offset = false,
    .script = &token_bucket_script,
    .check_params = check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .evaluate = evaluate,
    .charge = charge,
    .is_ahead = is_ahead,
    .settle = settle,
};
