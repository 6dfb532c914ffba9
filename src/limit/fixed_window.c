/* Fixed window: a counter per window.
 *
 * Windows are aligned in one of three ways:
 *   by the clock     they start at multiples of the period since the Unix epoch, moved by `offset`
 *                    (weeks start on Monday: the epoch was a Thursday)
 *   from_first       one starts at the first request admitted after the last one ended
 *   is_calendar      each call holds the edges around now: days, weeks and months of a time zone
 *                    differ in length, see limit/calendar.h
 * At most `rate` units pass in each window, so up to twice that across an edge.
 *
 * Source: docs/policy.md "fixed_window".
 * Twin: fixed_window.lua answers the same; tests/data/vectors/fixed_window.tsv
 * is run through both.
 *
 * A @now at most a second before the window of the state counts as the start of that window. A
 * clock that went back by more is followed, and the count is kept in the window of the new time.
 * Constant time. */

#include <stdbool.h>
#include <stddef.h>

#include "limit/algorithms.h"
#include "limit/inner.h"

/* State of one key. All zero is an untouched window. */
struct fixed_window {
    uint64_t count; /* units admitted in the window */
    uint64_t start; /* of the window, ticks since the epoch */
};

/* How windows are aligned, as an argument of the script. */
enum { BY_CLOCK, FROM_FIRST, CALENDAR };

/* A window as it stands at some time. */
struct snapshot {
    uint64_t count; /* units admitted in it */
    uint64_t start; /* ticks since the epoch */
    uint64_t left;  /* ticks until it ends */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->offset >= params->period) {
        return "offset must be less than the period";
    }
    return NULL;
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->period;
    values[1] = params->offset;
    values[2] = params->is_calendar ? CALENDAR : (params->from_first ? FROM_FIRST : BY_CLOCK);
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    (void)state;
    (void)params;
    (void)call;
    return sizeof(struct fixed_window);
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct fixed_window *window = state;
    return window->start > now + params->ticks_per_s;
}

/* The window of the clock around @now. */
static struct snapshot stand_by_clock(const struct fixed_window *window,
                                      const struct limit_params *params, uint64_t now)
{
    const uint64_t into = now >= params->offset ? (now - params->offset) % params->period
                                                : now + params->period - params->offset;
    const uint64_t start = now >= into ? now - into : 0;

    return (struct snapshot){
        .count = window->start >= start ? window->count : 0,
        .start = start,
        .left = params->period - into,
    };
}

/* The window of the calendar around @now. A window after all known edges is assumed to last a
 * period. A start after the edge is that of a proxy with another zone database, and stays: were it
 * moved back, the next request of that proxy would begin a new count. */
static struct snapshot stand_by_calendar(const struct fixed_window *window,
                                         const struct limit_params *params, const uint64_t *edges,
                                         uint64_t now)
{
    size_t next = 1;
    if (now >= edges[LIMIT_EDGES - 1]) {
        return (struct snapshot){.count = window->count, .start = now, .left = params->period};
    }
    while (edges[next] <= now) {
        next++;
    }
    return (struct snapshot){
        .count = window->start >= edges[next - 1] ? window->count : 0,
        .start = window->start <= now ? later_of(window->start, edges[next - 1]) : edges[next - 1],
        .left = edges[next] - now,
    };
}

/* The window that began with the first request in it, or the one that this request would begin. */
static struct snapshot stand_by_first(const struct fixed_window *window,
                                      const struct limit_params *params, uint64_t now)
{
    uint64_t start = window->start < now ? window->start : now;
    uint64_t count = window->count;
    if (count == 0 || now - start >= params->period) {
        count = 0;
        start = now;
    }
    return (struct snapshot){.count = count, .start = start, .left = start + params->period - now};
}

/* A small step back counts as no time passed; after a large one the count is kept in the window of
 * the new time. */
static struct snapshot stand(const struct fixed_window *window, const struct limit_params *params,
                             const struct limit_call *call)
{
    struct snapshot snapshot;
    uint64_t now = call->now;
    if (window->start > now && !is_ahead(window, params, now)) {
        now = window->start;
    }
    if (params->is_calendar) {
        snapshot = stand_by_calendar(window, params, call->edges, now);
    } else if (params->from_first) {
        snapshot = stand_by_first(window, params, now);
    } else {
        snapshot = stand_by_clock(window, params, now);
    }
    snapshot.left += now - call->now;
    return snapshot;
}

/* The rate may have been lowered. */
static uint64_t remaining_of(const struct snapshot *snapshot, const struct limit_params *params)
{
    return snapshot->count < params->rate ? params->rate - snapshot->count : 0;
}

static uint64_t judge(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait)
{
    (void)wait;
    const struct snapshot snapshot = stand(state, params, call);
    return call->cost <= remaining_of(&snapshot, params) ? 0 : snapshot.left;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const struct snapshot snapshot = stand(state, params, call);
    const uint64_t reset_after = snapshot.count > 0 ? snapshot.left : 0;

    verdict->limit = params->rate;
    verdict->remaining = remaining_of(&snapshot, params);
    verdict->next_after = reset_after;
    verdict->reset_after = reset_after;
}

static void set(struct fixed_window *window, uint64_t count, uint64_t start)
{
    window->count = count;
    window->start = count == 0 ? 0 : start;
}

static uint64_t charge(void *state, const struct limit_params *params,
                       const struct limit_call *call)
{
    const struct snapshot snapshot = stand(state, params, call);
    uint64_t count = snapshot.count + call->cost;
    if (call->to_full && count > params->rate) {
        count = snapshot.count > params->rate ? snapshot.count : params->rate;
    }
    set(state, count, snapshot.start);
    return later_of(call->now, snapshot.start);
}

/* What is taken counts in the window of @now; of a calendar, whose edges a settlement does not
 * hold, in the latest window. What is given back is of the window of the charge: that is the
 * latest, or it does not matter any more. */
static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct fixed_window *window = state;
    struct snapshot snapshot = {.count = window->count, .start = window->start};
    if (delta > 0 && !params->is_calendar) {
        const struct limit_call call = {.now = now};
        snapshot = stand(window, params, &call);
    } else if (window->count == 0 || (delta <= 0 && charged_at < window->start)) {
        return;
    }
    set(window, settle_scaled(snapshot.count, delta, 1, LIMIT_UNITS_MAX), snapshot.start);
}

const struct algorithm fixed_window_algorithm = {
    .name = "fixed_window",
    .has_offset = true,
    .script = &fixed_window_script,
    .check_params = check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .restore = restore_numbers,
    .settle = settle,
};
