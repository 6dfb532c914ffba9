#include "limit/fixed_window.h"

#include <assert.h>
#include <stddef.h>

#include "limit/scripts.h"
#include "limit/settle.h"

/* How windows are laid, as the script is told. */
enum { BY_CLOCK, FROM_FIRST, CALENDAR };

/* A window as it stands at some time. */
struct standing {
    uint64_t count; /* units admitted in it */
    uint64_t start; /* ticks since the epoch */
    uint64_t left;  /* ticks until it ends */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->rate == 0) {
        return "rate must be at least 1";
    }
    if (params->period == 0) {
        return "period must be at least 1 tick";
    }
    if (params->period > LIMIT_UNITS_MAX) {
        return "period must not exceed 2^52 ticks";
    }
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
static struct standing stand_by_clock(const struct fixed_window *window,
                                      const struct limit_params *params, uint64_t now)
{
    const uint64_t into = now >= params->offset ? (now - params->offset) % params->period
                                                : now + params->period - params->offset;
    const uint64_t start = now >= into ? now - into : 0;

    return (struct standing){
        .count = window->start >= start ? window->count : 0,
        .start = start,
        .left = params->period - into,
    };
}

/* The window of the calendar around @now. A window that is later than all that are known lasts, as
 * far as this call can tell, a period. */
static struct standing stand_by_calendar(const struct fixed_window *window,
                                         const struct limit_params *params, const uint64_t *edges,
                                         uint64_t now)
{
    size_t next = 1;
    if (now >= edges[LIMIT_EDGES - 1]) {
        return (struct standing){.count = window->count, .start = now, .left = params->period};
    }
    while (edges[next] <= now) {
        next++;
    }
    return (struct standing){
        .count = window->start >= edges[next - 1] ? window->count : 0,
        .start = edges[next - 1],
        .left = edges[next] - now,
    };
}

/* The window that began with the first request in it, or the one that this request would begin. */
static struct standing stand_by_first(const struct fixed_window *window,
                                      const struct limit_params *params, uint64_t now)
{
    uint64_t start = window->start < now ? window->start : now;
    uint64_t count = window->count;
    if (count == 0 || now - start >= params->period) {
        count = 0;
        start = now;
    }
    return (struct standing){.count = count, .start = start, .left = start + params->period - now};
}

/* A small step back counts as no time passed; after a large one what was taken counts in the window
 * of the new time. */
static struct standing stand(const struct fixed_window *window, const struct limit_params *params,
                             const struct limit_call *call)
{
    struct standing standing;
    uint64_t now = call->now;
    if (window->start > now && !is_ahead(window, params, now)) {
        now = window->start;
    }
    if (params->is_calendar) {
        standing = stand_by_calendar(window, params, call->edges, now);
    } else if (params->from_first) {
        standing = stand_by_first(window, params, now);
    } else {
        standing = stand_by_clock(window, params, now);
    }
    standing.left += now - call->now;
    return standing;
}

/* The rate may have been lowered. */
static uint64_t remaining_of(const struct standing *standing, const struct limit_params *params)
{
    return standing->count < params->rate ? params->rate - standing->count : 0;
}

static void judge(const void *state, const struct limit_params *params,
                  const struct limit_call *call, struct verdict *verdict)
{
    assert(check_params(params) == NULL);

    const struct standing standing = stand(state, params, call);
    const bool allowed = call->cost <= remaining_of(&standing, params);
    uint64_t retry_after = 0;
    if (call->cost > params->rate) {
        retry_after = RETRY_NEVER;
    } else if (!allowed) {
        retry_after = standing.left;
    }
    verdict->allowed = allowed;
    verdict->retry_after = retry_after;
    verdict->wait = 0;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const struct standing standing = stand(state, params, call);
    const uint64_t reset_after = standing.count > 0 ? standing.left : 0;

    verdict->limit = params->rate;
    verdict->remaining = remaining_of(&standing, params);
    verdict->next_after = reset_after;
    verdict->reset_after = reset_after;
}

static void set(struct fixed_window *window, uint64_t count, uint64_t start)
{
    window->count = count;
    window->start = count == 0 ? 0 : start;
}

static void charge(void *state, const struct limit_params *params, const struct limit_call *call)
{
    const struct standing standing = stand(state, params, call);
    uint64_t count = standing.count + call->cost;
    if (call->to_full && count > params->rate) {
        count = standing.count > params->rate ? standing.count : params->rate;
    }
    set(state, count, standing.start);
}

/* The window of the charge is the latest, or it does not matter any more. */
static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    struct fixed_window *window = state;
    (void)params;
    (void)now;
    if (window->count > 0 && charged_at >= window->start) {
        set(window, settle_scaled(window->count, delta, 1, LIMIT_UNITS_MAX), window->start);
    }
}

static size_t restore(void *state, const struct limit_params *params, const uint64_t *told,
                      size_t n)
{
    (void)params;
    if (n < 2) {
        return 0;
    }
    *(struct fixed_window *)state = (struct fixed_window){.count = told[0], .start = told[1]};
    return 2;
}

const struct algorithm fixed_window_algorithm = {
    .name = "fixed_window",
    .has_burst = false,
    .has_offset = true,
    .script = &fixed_window_script,
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
