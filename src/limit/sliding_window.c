/* Sliding window: counters of sub-windows; the oldest is weighted by its part inside the window.
 *
 * The period is divided into `buckets` equal sub-windows that start at multiples of their width
 * since the epoch. The used units are the counts of the current sub-window, of those in the period
 * before it, and of the one that contains now - period. The latter counts by its part inside the
 * window, rounded up, or whole if `strict`. A request passes if the used units plus its cost are at
 * most `rate`.
 *
 * At most `rate` units pass in any interval of period * (1 - 1 / buckets), and at worst just under
 * twice that in a period; strict: `rate` in any period.
 *
 * Source: docs/policy.md "sliding_window"; with one bucket, the two counters known from large CDNs.
 * Twin: sliding_window.lua answers the same;
 * tests/data/vectors/sliding_window.tsv is run through both.
 *
 * A state of a later sub-window than @now's is kept if the clock went back by at most a second; a
 * greater step is followed. Time linear in buckets. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "limit/algorithms.h"
#include "limit/inner.h"

/* State of one key. All zero is untouched. */
struct sliding_window {
    uint64_t newest;   /* number of the latest sub-window with a charge, from the epoch */
    uint32_t counts[]; /* buckets + 1 of them: of newest, then of those before it */
};

/* The sub-windows as they stand at some time. */
struct snapshot {
    uint64_t width;                                  /* ticks */
    uint64_t number;                                 /* of the current one */
    uint64_t into;                                   /* ticks since it began */
    uint32_t counts[SLIDING_WINDOW_BUCKETS_MAX + 1]; /* of it, and of those before it */
    uint64_t still; /* ticks until time goes on, after a small step back of the clock */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->buckets == 0 || params->buckets > SLIDING_WINDOW_BUCKETS_MAX) {
        return "buckets must be 1 to 100";
    }
    if (params->period % params->buckets != 0) {
        return "buckets must divide the period into whole ticks";
    }
    if (params->rate > LIMIT_UNITS_MAX / (params->period / params->buckets)) {
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

/* The greatest count whose weight is still exact; it depends only on parameters in the digest. */
static uint64_t most_of(const struct limit_params *params)
{
    const uint64_t most = LIMIT_UNITS_MAX / width_of(params);
    return most < UINT32_MAX ? most : UINT32_MAX;
}

static uint64_t room(const struct limit_params *params)
{
    return most_of(params) - params->rate;
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct sliding_window *window = state;
    return window->newest * width_of(params) > now + params->ticks_per_s;
}

/* A small step back counts as no time passed; after a large one what was taken in the newest counts
 * in the current sub-window. */
static void stand(const struct sliding_window *window, const struct limit_params *params,
                  uint64_t now, struct snapshot *snapshot)
{
    snapshot->width = width_of(params);
    snapshot->number = now / snapshot->width;
    snapshot->into = now % snapshot->width;
    snapshot->still = 0;
    uint64_t age = 0;
    if (window->newest <= snapshot->number) {
        age = snapshot->number - window->newest;
    } else if (!is_ahead(window, params, now)) {
        snapshot->number = window->newest;
        snapshot->into = 0;
        snapshot->still = window->newest * snapshot->width - now;
    }
    const uint32_t n_counts = params->buckets + 1;
    const uint32_t n_new = age < n_counts ? (uint32_t)age : n_counts;
    memset(snapshot->counts, 0, n_new * sizeof(uint32_t));
    memcpy(snapshot->counts + n_new, window->counts, (n_counts - n_new) * sizeof(uint32_t));
}

static uint64_t sum_of(const struct snapshot *snapshot, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += snapshot->counts[i];
    }
    return sum;
}

static uint64_t used_of(const struct snapshot *snapshot, const struct limit_params *params)
{
    const uint64_t oldest = snapshot->counts[params->buckets];
    const uint64_t inside = snapshot->width - snapshot->into;
    return sum_of(snapshot, params->buckets) +
           (params->strict ? oldest : divide_up(oldest * inside, snapshot->width));
}

/* Ticks into a sub-window from which on @oldest weighs at most @room; the
 * width if it never does. */
static uint64_t fits_at(const struct snapshot *snapshot, const struct limit_params *params,
                        uint64_t oldest, uint64_t room)
{
    if (oldest <= room) {
        return 0;
    }
    return params->strict ? snapshot->width : snapshot->width - room * snapshot->width / oldest;
}

/* Ticks until @cost units, at most the rate, pass. Sub-window by sub-window, as the oldest go. */
static uint64_t passes_after(const struct snapshot *snapshot, const struct limit_params *params,
                             uint64_t cost)
{
    uint64_t whole = sum_of(snapshot, params->buckets);
    for (uint32_t step = 0; step <= params->buckets; step++) {
        const uint32_t last = params->buckets - step;
        if (whole + cost <= params->rate) {
            const uint64_t room = params->rate - cost - whole;
            uint64_t into = fits_at(snapshot, params, snapshot->counts[last], room);
            if (step == 0 && into < snapshot->into) {
                into = snapshot->into;
            }
            if (into < snapshot->width) {
                return step * snapshot->width + into - snapshot->into + snapshot->still;
            }
        }
        whole -= last > 0 ? snapshot->counts[last - 1] : 0;
    }
    return (params->buckets + UINT64_C(1)) * snapshot->width - snapshot->into + snapshot->still;
}

/* Ticks until the newest sub-window that counts has gone; 0 if none does. */
static uint64_t reset_after(const struct snapshot *snapshot, const struct limit_params *params)
{
    for (uint32_t i = 0; i <= params->buckets; i++) {
        if (snapshot->counts[i] > 0) {
            return (params->buckets + UINT64_C(1) - i) * snapshot->width - snapshot->into +
                   snapshot->still;
        }
    }
    return 0;
}

static uint64_t remaining_of(const struct snapshot *snapshot, const struct limit_params *params)
{
    const uint64_t used = used_of(snapshot, params);
    return used < params->rate ? params->rate - used : 0;
}

static uint64_t judge(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait)
{
    (void)wait;
    struct snapshot snapshot;
    stand(state, params, call->now, &snapshot);
    return call->cost <= remaining_of(&snapshot, params)
               ? 0
               : passes_after(&snapshot, params, call->cost);
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    struct snapshot snapshot;
    stand(state, params, call->now, &snapshot);
    const uint64_t remaining = remaining_of(&snapshot, params);

    verdict->limit = params->rate;
    verdict->remaining = remaining;
    verdict->next_after =
        remaining < params->rate ? passes_after(&snapshot, params, remaining + 1) : 0;
    verdict->reset_after = reset_after(&snapshot, params);
}

/* Makes @window what @snapshot says, with @units more in the current sub-window. */
static void take(struct sliding_window *window, const struct limit_params *params,
                 struct snapshot *snapshot, uint64_t units)
{
    const uint64_t count = snapshot->counts[0] + units;
    snapshot->counts[0] = (uint32_t)(count < most_of(params) ? count : most_of(params));

    window->newest = sum_of(snapshot, params->buckets + 1) > 0 ? snapshot->number : 0;
    memcpy(window->counts, snapshot->counts, counts_bytes(params));
}

static uint64_t charge(void *state, const struct limit_params *params,
                       const struct limit_call *call)
{
    struct snapshot snapshot;
    stand(state, params, call->now, &snapshot);
    uint64_t cost = call->cost;
    if (call->to_full) {
        const uint64_t remaining = remaining_of(&snapshot, params);
        cost = cost < remaining ? cost : remaining;
    }
    take(state, params, &snapshot, cost);
    return call->now + snapshot.still;
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

/* What is taken counts in the sub-window of @now; what is given back is of that of the charge. */
static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct sliding_window *window = state;
    if (delta > 0) {
        struct snapshot snapshot;
        stand(window, params, now, &snapshot);
        take(window, params, &snapshot, settle_scaled(0, delta, 1, UINT32_MAX));
        return;
    }
    const uint64_t number = charged_at / width_of(params);
    const uint64_t age = number < window->newest ? window->newest - number : 0;
    if (age <= params->buckets && !is_untouched(window, params)) {
        window->counts[age] =
            (uint32_t)settle_scaled(window->counts[age], delta, 1, most_of(params));
    }
    if (is_untouched(window, params)) {
        window->newest = 0;
    }
}

_Static_assert(1 + SLIDING_WINDOW_BUCKETS_MAX + 1 <= LIMIT_SCRIPT_REPORTED_MAX,
               "all of a state is reported");

static size_t restore(void *state, const struct limit_params *params, const uint64_t *reported,
                      size_t n)
{
    struct sliding_window *window = state;
    const size_t n_reported = 1 + params->buckets + 1;
    if (n < n_reported) {
        return 0;
    }
    window->newest = reported[0];
    for (size_t i = 1; i < n_reported; i++) {
        if (reported[i] > most_of(params)) {
            return 0;
        }
        window->counts[i - 1] = (uint32_t)reported[i];
    }
    return n_reported;
}

const struct algorithm sliding_window_algorithm = {
    .name = "sliding_window",
    .script = &sliding_window_script,
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
