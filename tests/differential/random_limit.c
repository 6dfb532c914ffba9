#include "random_limit.h"

#include "base/compiler.h"
#include "limit/algorithms.h"

#include "chance.h"

static const uint64_t S = 1000000;

static uint32_t at_most_u32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static uint64_t random_period(const struct limit *limit)
{
    return random_size(one_in(2) ? 3600 * S / limit->tick_us : LIMIT_UNITS_MAX);
}

/* Windows of the wall clock, the first request or a calendar. */
static void make_windows(struct limit *limit)
{
    struct limit_params *params = &limit->params;
    switch (random_below(4)) {
    case 0:
        params->from_first = true;
        break;
    case 1:
        params->is_calendar = true;
        params->period = 1 + params->period % (30 * 86400 * S);
        limit->tick_us = 1;
        params->ticks_per_s = S;
        break;
    case 2:
        params->offset = random_below(params->period);
        break;
    default:
        break;
    }
}

static void make_params(struct limit *limit)
{
    struct limit_params *params = &limit->params;
    const struct algorithm *algorithm = limit->algorithm;
    params->rate = at_most_u32(random_size(one_in(2) ? 20 : UINT32_MAX));
    params->period = random_period(limit);
    if (algorithm->has_burst) {
        const uint64_t most = LIMIT_UNITS_MAX / params->period;
        params->burst = at_most_u32(random_size(one_in(2) && most > 20 ? 20 : most));
        params->max_wait = algorithm->has_wait && one_in(2) ? random_period(limit) : 0;
    }
    if (algorithm->has_offset) {
        make_windows(limit);
    }
    if (algorithm == &sliding_window_algorithm) {
        params->buckets = (uint32_t)(1 + random_below(one_in(3) ? 100 : 12));
        params->period -= params->period % params->buckets;
        params->strict = one_in(3);
    }
    if (algorithm == &sliding_log_algorithm) {
        params->rate = 1 + params->rate % SLIDING_LOG_ENTRIES_MAX;
    }
    if (algorithm->has_slots) {
        params->rate = (uint32_t)(1 + random_below(6));
        params->lease = params->period;
        params->period = 0;
    }
}

void random_limit(struct limit *limit, const struct algorithm *algorithm)
{
    static const uint32_t ticks_us[] = {1, 1, 1000, 1000000};
    do {
        *limit = (struct limit){.name = SPAN("limit"), .algorithm = algorithm};
        limit->tick_us = ticks_us[random_below(ARRAY_LEN(ticks_us))];
        limit->params.ticks_per_s = S / limit->tick_us;
        make_params(limit);
    } while (algorithm_check_params(algorithm, &limit->params) != NULL);
    limit->params.settles = one_in(2);
    limit->shadow = one_in(6);
    limit->charge_denied = one_in(6);
}

/* The period and what else gives a state its unit are those of before: see limit_init(). */
void random_limit_change(const struct limit *before, struct limit *after)
{
    do {
        struct limit other = *before;
        make_params(&other);
        *after = *before;
        if (!before->algorithm->has_numbers_in_digest) {
            after->params.rate = other.params.rate;
        }
        after->params.burst = other.params.burst;
        if (before->params.max_wait > 0) {
            after->params.max_wait = random_size(before->params.max_wait * 2);
        }
        after->params.strict = one_in(3);
    } while (algorithm_check_params(after->algorithm, &after->params) != NULL);
    after->shadow = one_in(6);
    after->charge_denied = one_in(6);
}
