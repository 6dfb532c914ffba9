#include "limit/gcra.h"

#include <assert.h>
#include <stddef.h>

#include "limit/divide.h"
#include "limit/scripts.h"
#include "limit/settle.h"

/* A rounding that adds more than one part in so many to the interval is refused. */
enum { ROUNDING_PARTS = 1000 };

uint64_t gcra_interval(const struct limit_params *params)
{
    return divide_up(params->period, params->rate);
}

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
    if (params->period > LIMIT_UNITS_MAX) {
        return "period must not exceed 2^52 ticks";
    }
    if (params->burst > LIMIT_UNITS_MAX / gcra_interval(params)) {
        return "burst times the interval of a unit must not exceed 2^52 ticks";
    }
    const uint64_t rounding = gcra_interval(params) * params->rate - params->period;
    if (rounding * ROUNDING_PARTS > params->period) {
        return "rate does not divide the period into whole ticks within 0.1 %; use token_bucket";
    }
    return NULL;
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->burst;
    values[1] = gcra_interval(params);
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
    return params->burst * gcra_interval(params);
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
    const uint64_t debt = settle_scaled(before, delta, gcra_interval(params), most);
    gcra->arrival = debt > 0 ? now + debt : 0;
}

/* Ticks until @cost units, at most the burst, pass. */
static uint64_t passes_after(const struct limit_params *params, uint64_t debt, uint64_t cost)
{
    const uint64_t wanted = debt + cost * gcra_interval(params);
    return wanted > depth_of(params) ? wanted - depth_of(params) : 0;
}

static void judge(const void *state, const struct limit_params *params,
                  const struct limit_call *call, struct verdict *verdict)
{
    assert(check_params(params) == NULL);

    uint64_t retry_after = 0;
    if (call->cost > params->burst) {
        retry_after = RETRY_NEVER;
    } else if (call->cost > 0) {
        retry_after = passes_after(params, debt_at(state, params, call->now), call->cost);
    }
    verdict->allowed = retry_after == 0;
    verdict->retry_after = retry_after;
    verdict->wait = 0;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const uint64_t debt = debt_at(state, params, call->now);
    const uint64_t used = divide_up(debt, gcra_interval(params));
    const uint64_t remaining = used < params->burst ? params->burst - used : 0;

    verdict->limit = params->burst;
    verdict->remaining = remaining;
    verdict->next_after = remaining < params->burst ? passes_after(params, debt, remaining + 1) : 0;
    verdict->reset_after = debt;
}

static void charge(void *state, const struct limit_params *params, const struct limit_call *call)
{
    struct gcra *gcra = state;
    if (params->settles && call->cost > 0 &&
        (debt_at(gcra, params, call->now) == 0 || gcra->refill.since == 0 ||
         refill_is_ahead(&gcra->refill, params, call->now))) {
        refill_begin(&gcra->refill, call->now);
    }
    owe_more(gcra, params, call->now, call->cost);
}

static void give_back(struct gcra *gcra, const struct limit_params *params, uint64_t charged_at,
                      uint64_t now, int64_t delta)
{
    const uint64_t debt = debt_at(gcra, params, now);
    struct refill refill = params->settles ? gcra->refill : (struct refill){.since = 0};
    if (refill_is_ahead(&refill, params, now)) {
        refill_begin(&refill, now);
    }
    const uint64_t ticks = refill_unused(&refill, charged_at, now);
    if (debt == 0 || ticks == REFILL_ALL || charged_at > now + params->ticks_per_s) {
        return;
    }
    const uint64_t amount = settle_scaled(0, -delta, gcra_interval(params), LIMIT_UNITS_MAX);
    const uint64_t refilled = ticks < amount ? ticks : amount;
    const uint64_t given = amount - refilled;
    if (params->settles) {
        refill_use(&refill, charged_at, refilled);
        gcra->refill = refill;
    }
    gcra->arrival = given < debt ? now + debt - given : 0;
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct gcra *gcra = state;
    if (delta > 0) {
        if (params->settles &&
            (debt_at(gcra, params, now) == 0 || refill_is_ahead(&gcra->refill, params, now))) {
            refill_begin(&gcra->refill, now);
        }
        owe_more(gcra, params, now, delta);
    } else if (delta < 0) {
        give_back(gcra, params, charged_at, now, delta);
    }
}

static size_t restore(void *state, const struct limit_params *params, const uint64_t *told,
                      size_t n)
{
    (void)params;
    if (n < 2) {
        return 0;
    }
    *(struct gcra *)state = (struct gcra){.arrival = told[0] > 0 ? told[0] + told[1] : 0};
    return 2;
}

const struct algorithm gcra_algorithm = {
    .name = "gcra",
    .has_burst = true,
    .has_rate_in_digest = true,
    .script = &gcra_script,
    .check_params = check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = restore,
    .settle = settle,
};
