#include "limit/sliding_window.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "limit/divide.h"
#include "limit/script_source.h"
#include "limit/scripts.h"
#include "limit/settle.h"

/* The sub-windows as they stand at some time. */
struct standing {
    uint64_t width;                                  /* ticks */
    uint64_t number;                                 /* of the current one */
    uint64_t into;                                   /* ticks since it began */
    uint32_t counts[SLIDING_WINDOW_BUCKETS_MAX + 1]; /* of it, and of those before it */
    uint64_t still; /* ticks until time goes on, after a small step back of the clock */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->rate == 0) {
        return "rate must be at least 1";
    }
    if (params->period == 0) {
        return "period must be at least 1 tick";
    }
    if (params->buckets == 0 || params->buckets > SLIDING_WINDOW_BUCKETS_MAX) {
        return "buckets must be 1 to 100";
    }
    if (params->period % params->buckets != 0) {
        return "buckets must divide the period into whole ticks";
    }
    if (params->period > LIMIT_UNITS_MAX ||
        params->rate > LIMIT_UNITS_MAX / (params->period / params->buckets)) {
        return "rate times period, divided by buckets, must not exceed 2^52 ticks";
    }
    return NULL;
}

/* Ticks of a sub-window. */
static uint64_t width_of(const struct limit_params *params)
{
    return divide_down(params->period, params->buckets);
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->period;
    values[1] = params->buckets;
    values[2] = params->strict;
}

static size_t counts_bytes(const struct limit_params *params)
{
    return (params->buckets + 1) * sizeof(uint32_t);
}

_Static_assert(sizeof(struct sliding_window) +
                       (SLIDING_WINDOW_BUCKETS_MAX + 2) * sizeof(uint32_t) <=
                   LIMIT_STATE_BYTES_MAX,
               "the largest state is within the bound");

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    (void)state;
    (void)call;
    return (sizeof(struct sliding_window) + counts_bytes(params) + 7) & ~(size_t)7;
}

/* The greatest count whose weight is still reckoned exactly; it depends
 * on what the digest holds. */
static uint64_t most_of(const struct limit_params *params)
{
    const uint64_t most = LIMIT_UNITS_MAX / width_of(params);
    return most < UINT32_MAX ? most : UINT32_MAX;
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct sliding_window *window = state;
    return window->newest * width_of(params) > now + params->ticks_per_s;
}

/* A small step back counts as no time passed; after a large one what was taken in the newest counts
 * in the current sub-window. */
static void stand(const struct sliding_window *window, const struct limit_params *params,
                  uint64_t now, struct standing *standing)
{
    standing->width = width_of(params);
    standing->number = now / standing->width;
    standing->into = now % standing->width;
    standing->still = 0;
    uint64_t age = 0;
    if (window->newest <= standing->number) {
        age = standing->number - window->newest;
    } else if (!is_ahead(window, params, now)) {
        standing->number = window->newest;
        standing->into = 0;
        standing->still = window->newest * standing->width - now;
    }
    const uint32_t n_counts = params->buckets + 1;
    const uint32_t n_new = age < n_counts ? (uint32_t)age : n_counts;
    memset(standing->counts, 0, n_new * sizeof(uint32_t));
    memcpy(standing->counts + n_new, window->counts, (n_counts - n_new) * sizeof(uint32_t));
}

static uint64_t sum_of(const struct standing *standing, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += standing->counts[i];
    }
    return sum;
}

static uint64_t used_of(const struct standing *standing, const struct limit_params *params)
{
    const uint64_t oldest = standing->counts[params->buckets];
    const uint64_t inside = standing->width - standing->into;
    return sum_of(standing, params->buckets) +
           (params->strict ? oldest : divide_up(oldest * inside, standing->width));
}

/* Ticks into a sub-window from which on @oldest weighs at most @room; the
 * width if it never does. */
static uint64_t fits_at(const struct standing *standing, const struct limit_params *params,
                        uint64_t oldest, uint64_t room)
{
    if (oldest <= room) {
        return 0;
    }
    return params->strict ? standing->width : standing->width - room * standing->width / oldest;
}

/* Ticks until @cost units, at most the rate, pass. Sub-window by sub-window, as the oldest go. */
static uint64_t passes_after(const struct standing *standing, const struct limit_params *params,
                             uint64_t cost)
{
    uint64_t whole = sum_of(standing, params->buckets);
    for (uint32_t step = 0; step <= params->buckets; step++) {
        const uint32_t last = params->buckets - step;
        if (whole + cost <= params->rate) {
            const uint64_t room = params->rate - cost - whole;
            uint64_t into = fits_at(standing, params, standing->counts[last], room);
            if (step == 0 && into < standing->into) {
                into = standing->into;
            }
            if (into < standing->width) {
                return step * standing->width + into - standing->into + standing->still;
            }
        }
        whole -= last > 0 ? standing->counts[last - 1] : 0;
    }
    return (params->buckets + UINT64_C(1)) * standing->width - standing->into + standing->still;
}

/* Ticks until the newest sub-window that counts has gone; 0 if none does. */
static uint64_t reset_after(const struct standing *standing, const struct limit_params *params)
{
    for (uint32_t i = 0; i <= params->buckets; i++) {
        if (standing->counts[i] > 0) {
            return (params->buckets + UINT64_C(1) - i) * standing->width - standing->into +
                   standing->still;
        }
    }
    return 0;
}

static uint64_t remaining_of(const struct standing *standing, const struct limit_params *params)
{
    const uint64_t used = used_of(standing, params);
    return used < params->rate ? params->rate - used : 0;
}

static void judge(const void *state, const struct limit_params *params,
                  const struct limit_call *call, struct verdict *verdict)
{
    assert(check_params(params) == NULL);

    struct standing standing;
    stand(state, params, call->now, &standing);
    const bool allowed = call->cost <= remaining_of(&standing, params);
    uint64_t retry_after = 0;
    if (call->cost > params->rate) {
        retry_after = RETRY_NEVER;
    } else if (!allowed) {
        retry_after = passes_after(&standing, params, call->cost);
    }
    verdict->allowed = allowed;
    verdict->retry_after = retry_after;
    verdict->wait = 0;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    struct standing standing;
    stand(state, params, call->now, &standing);
    const uint64_t remaining = remaining_of(&standing, params);

    verdict->limit = params->rate;
    verdict->remaining = remaining;
    verdict->next_after =
        remaining < params->rate ? passes_after(&standing, params, remaining + 1) : 0;
    verdict->reset_after = reset_after(&standing, params);
}

static void charge(void *state, const struct limit_params *params, const struct limit_call *call)
{
    struct sliding_window *window = state;
    struct standing standing;
    stand(window, params, call->now, &standing);
    uint64_t cost = call->cost;
    if (call->to_full) {
        const uint64_t remaining = remaining_of(&standing, params);
        cost = cost < remaining ? cost : remaining;
    }
    const uint64_t count = standing.counts[0] + cost;
    standing.counts[0] = (uint32_t)(count < most_of(params) ? count : most_of(params));

    window->newest = sum_of(&standing, params->buckets + 1) > 0 ? standing.number : 0;
    memcpy(window->counts, standing.counts, counts_bytes(params));
}

static bool is_untouched(const struct sliding_window *window, const struct limit_params *params)
{
    for (uint32_t i = 0; i <= params->buckets; i++) {
        if (window->counts[i] > 0) {
            return false;
        }
    }
    return true;
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct sliding_window *window = state;
    const uint64_t number = charged_at / width_of(params);
    const uint64_t age = number < window->newest ? window->newest - number : 0;
    (void)now;
    if (age <= params->buckets && !is_untouched(window, params)) {
        window->counts[age] =
            (uint32_t)settle_scaled(window->counts[age], delta, 1, most_of(params));
    }
    if (is_untouched(window, params)) {
        window->newest = 0;
    }
}

_Static_assert(1 + SLIDING_WINDOW_BUCKETS_MAX + 1 <= SCRIPT_TOLD_MAX, "all of a state is told");

static size_t restore(void *state, const struct limit_params *params, const uint64_t *told,
                      size_t n)
{
    struct sliding_window *window = state;
    const size_t n_told = 1 + params->buckets + 1;
    if (n < n_told) {
        return 0;
    }
    window->newest = told[0];
    for (size_t i = 1; i < n_told; i++) {
        if (told[i] > most_of(params)) {
            return 0;
        }
        window->counts[i - 1] = (uint32_t)told[i];
    }
    return n_told;
}

const struct algorithm sliding_window_algorithm = {
    .name = "sliding_window",
    .script = &sliding_window_script,
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
