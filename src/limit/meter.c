#include "limit/meter.h"

#include <stddef.h>

#include "limit/divide.h"
#include "limit/settle.h"

const char *meter_check_params(const struct limit_params *params)
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

bool meter_is_ahead(const struct meter *meter, const struct limit_params *params, uint64_t now)
{
    return meter->updated > now + params->ticks_per_s;
}

uint64_t meter_stands_still(const struct meter *meter, const struct limit_params *params,
                            uint64_t now)
{
    return meter->updated > now && !meter_is_ahead(meter, params, now) ? meter->updated - now : 0;
}

/* For a key idle for years the product of time and rate passes 64 bits: then nothing is taken. */
uint64_t meter_at(const struct meter *meter, uint32_t rate, uint64_t now)
{
    if (now <= meter->updated) {
        return meter->taken;
    }
    uint64_t back;
    if (__builtin_mul_overflow(now - meter->updated, rate, &back) || back >= meter->taken) {
        return 0;
    }
    return meter->taken - back;
}

void meter_set(struct meter *meter, const struct limit_params *params, uint64_t now, uint64_t taken)
{
    const bool clock_went_back = meter_is_ahead(meter, params, now);

    meter->taken = taken;
    if (taken == 0) {
        meter->updated = 0;
    } else if (now > meter->updated || clock_went_back) {
        meter->updated = now;
    }
}

void meter_charge(struct meter *meter, const struct limit_params *params,
                  const struct limit_call *call)
{
    const uint64_t before = meter_at(meter, params->rate, call->now);
    uint64_t most = LIMIT_UNITS_MAX;
    if (call->to_full) {
        const uint64_t full = params->burst * params->period;
        most = before > full ? before : full;
    }
    if (params->settles && call->cost > 0 &&
        (before == 0 || meter->refill.since == 0 ||
         refill_is_ahead(&meter->refill, params, call->now))) {
        refill_begin(&meter->refill, call->now);
    }
    meter_set(meter, params, call->now, settle_scaled(before, call->cost, params->period, most));
}

size_t meter_bytes(const struct limit_params *params)
{
    return params->settles ? sizeof(struct meter) : offsetof(struct meter, refill);
}

/* Units more: as if they were charged at @now. */
static void take_more(struct meter *meter, const struct limit_params *params, uint64_t now,
                      int64_t delta)
{
    const uint64_t taken = meter_at(meter, params->rate, now);
    if (params->settles && (taken == 0 || refill_is_ahead(&meter->refill, params, now))) {
        refill_begin(&meter->refill, now);
    }
    meter_set(meter, params, now, settle_scaled(taken, delta, params->period, LIMIT_UNITS_MAX));
}

static void give_back(struct meter *meter, const struct limit_params *params, uint64_t charged_at,
                      uint64_t now, int64_t delta)
{
    const bool is_behind = meter->updated > now && !meter_is_ahead(meter, params, now);
    const uint64_t time = is_behind ? meter->updated : now; /* no time has passed since then */
    const uint64_t taken = meter_at(meter, params->rate, now);
    struct refill refill = params->settles ? meter->refill : (struct refill){.since = 0};
    if (refill_is_ahead(&refill, params, now)) {
        refill_begin(&refill, now);
    }
    const uint64_t ticks = refill_unused(&refill, charged_at, time);
    if (taken == 0 || ticks == REFILL_ALL || charged_at > now + params->ticks_per_s) {
        return;
    }
    const uint64_t amount = settle_scaled(0, -delta, params->period, LIMIT_UNITS_MAX);
    const uint64_t refilled = settle_scaled(0, params->rate, ticks, amount);
    const uint64_t given = amount - refilled;
    if (params->settles) {
        refill_use(&refill, charged_at, refilled / params->rate);
        meter->refill = refill;
    }
    meter_set(meter, params, now, given < taken ? taken - given : 0);
}

void meter_settle(struct meter *meter, const struct limit_params *params, uint64_t charged_at,
                  uint64_t now, int64_t delta)
{
    if (delta > 0) {
        take_more(meter, params, now, delta);
    } else if (delta < 0) {
        give_back(meter, params, charged_at, now, delta);
    }
}

uint64_t meter_remaining(const struct limit_params *params, uint64_t taken)
{
    const uint64_t used = divide_up(taken, params->period);
    return used < params->burst ? params->burst - used : 0;
}

uint64_t meter_fits_after(const struct limit_params *params, uint64_t taken, uint64_t cost)
{
    const uint64_t full = params->burst * params->period;
    const uint64_t wanted = taken + cost * params->period;
    return wanted > full ? divide_up(wanted - full, params->rate) : 0;
}

size_t meter_restore(void *state, const struct limit_params *params, const uint64_t *told, size_t n)
{
    (void)params;
    if (n < 2) {
        return 0;
    }
    *(struct meter *)state = (struct meter){.taken = told[0], .updated = told[1]};
    return 2;
}
