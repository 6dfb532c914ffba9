/* Sliding log: holds each admitted request with its time and units. Exact, but it needs memory per
 * request.
 *
 * A request passes if the units logged in (now - period, now] leave room for its cost. In any
 * window of a period at most `rate` units pass.
 *
 * The state grows: see state_bytes of struct algorithm. The next charge drops entries that have
 * left the window, so that a key has at most `rate` entries that count and as many that do not. A
 * request that is not charged drops them when they are more than ENTRIES_LEFT_MAX: else each of a
 * flood of denied requests would walk over them.
 *
 * Source: docs/policy.md "sliding_log". Twin: sliding_log.lua answers the same;
 * tests/data/vectors/sliding_log.tsv is run through both.
 *
 * A @now earlier than the newest entry counts as no time passed. After a step back of more than a
 * second, the entries dated after now become one entry dated now. Time linear in the entries that
 * leave the window, independent of those that stay and of the cost: 100,000 take 0.17 ms. The twin,
 * for which that would be 50 ms, looks for the first that stays. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "limit/algorithms.h"
#include "limit/inner.h"

enum { ENTRIES_LEFT_MAX = 8, ENTRIES_WALKED_MAX = 56 };
enum { LATER_ENTRIES_MAX = 16, LATER_PER_S = 10 }; /* see give_back() */

struct sliding_log_entry {
    uint32_t at_low; /* ticks, in two 32-bit halves so that an entry has 12 bytes */
    uint32_t at_high;
    uint32_t units;
};

/* State of one key. All zero is untouched. */
struct sliding_log {
    uint64_t units; /* of all entries */
    uint32_t first; /* the oldest entry; entries before it were dropped */
    uint32_t n;
    struct sliding_log_entry entries[]; /* oldest first */
};

/* A log as it stands at some time. */
struct snapshot {
    uint64_t now;   /* ticks; not before the newest entry, unless that is followed */
    uint64_t units; /* of the entries in the window */
    uint32_t first; /* of them, an index */
    uint32_t n;
    uint64_t still; /* ticks until time goes on, after a small step back of the clock */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->rate > SLIDING_LOG_ENTRIES_MAX) {
        return "rate must not exceed 100,000, the entries of a key; use sliding_window";
    }
    return NULL;
}

/* A log that is full takes it in one entry. */
static uint64_t room(const struct limit_params *params)
{
    return UINT32_MAX - params->rate;
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->period;
}

static uint64_t at_of(const struct sliding_log_entry *entry)
{
    return (uint64_t)entry->at_high << 32 | entry->at_low;
}

static struct sliding_log_entry entry_of(uint64_t at, uint64_t units)
{
    return (struct sliding_log_entry){
        .at_low = (uint32_t)at,
        .at_high = (uint32_t)(at >> 32),
        .units = (uint32_t)(units < UINT32_MAX ? units : UINT32_MAX),
    };
}

static uint64_t newest_of(const struct sliding_log *log)
{
    return log->n > 0 ? at_of(&log->entries[log->first + log->n - 1]) : 0;
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    return newest_of(state) > now + params->ticks_per_s;
}

/* When the entry leaves the window; one of a time to come is as one of now. */
static uint64_t leaves_at(const struct sliding_log_entry *entry, const struct limit_params *params,
                          uint64_t now)
{
    const uint64_t at = at_of(entry);
    return (at < now ? at : now) + params->period;
}

static struct snapshot stand(const struct sliding_log *log, const struct limit_params *params,
                             uint64_t now)
{
    struct snapshot snapshot = {.now = now, .units = log->units, .first = log->first, .n = log->n};
    if (newest_of(log) > now && !is_ahead(log, params, now)) {
        snapshot.now = newest_of(log);
        snapshot.still = snapshot.now - now;
    }
    while (snapshot.n > 0 &&
           leaves_at(&log->entries[snapshot.first], params, snapshot.now) <= snapshot.now) {
        snapshot.units -= log->entries[snapshot.first].units;
        snapshot.first++;
        snapshot.n--;
    }
    return snapshot;
}

/* Whether what was dropped leaves so much room that a charge moves the rest to the front. */
static bool is_worth_moving(const struct snapshot *snapshot)
{
    return snapshot->first >= snapshot->n;
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    size_t n = 1;
    if (state != NULL) {
        const struct sliding_log *log = state;
        const struct snapshot snapshot = stand(log, params, call->now);
        const size_t then = (is_worth_moving(&snapshot) ? 0 : snapshot.first) + snapshot.n + 1;
        const size_t now = (size_t)log->first + log->n;
        n = then > now ? then : now;
    }
    return (sizeof(struct sliding_log) + n * sizeof(struct sliding_log_entry) + 7) & ~(size_t)7;
}

/* The earliest entry with which enough can have left, where the entries from @i on have @units
 * units, of which @wanted must leave: each has one at least, so the first k of them have at most k
 * and what all have above one. Exact where each has one. */
static uint32_t earliest_of(const struct snapshot *snapshot, uint32_t i, uint64_t units,
                            uint64_t wanted)
{
    const uint32_t end = snapshot->first + snapshot->n;
    const uint64_t above_one = units > end - i ? units - (end - i) : 0;
    const uint64_t n_leave = wanted > above_one + 1 ? wanted - above_one : 1;
    return n_leave < end - i ? i + (uint32_t)n_leave - 1 : end - 1;
}

/* Ticks until @cost units, at most the rate, pass: until enough of the oldest have left. A request
 * may cost as much as thousands of entries, and a plan may be smaller than what was used under
 * another; each denial must not read them all. So beyond ENTRIES_WALKED_MAX entries it is the
 * earliest time at which that can be. */
static uint64_t passes_after(const struct sliding_log *log, const struct limit_params *params,
                             const struct snapshot *snapshot, uint64_t cost)
{
    const uint32_t end = snapshot->first + snapshot->n;
    uint64_t units = snapshot->units;
    uint64_t leaves = snapshot->now;
    uint32_t i = snapshot->first;
    while (units + cost > params->rate && i < end && i - snapshot->first < ENTRIES_WALKED_MAX) {
        units -= log->entries[i].units;
        leaves = leaves_at(&log->entries[i], params, snapshot->now);
        i++;
    }
    if (units + cost > params->rate && i < end) {
        i = earliest_of(snapshot, i, units, units + cost - params->rate);
        leaves = leaves_at(&log->entries[i], params, snapshot->now);
    }
    return leaves - snapshot->now + snapshot->still;
}

static uint64_t remaining_of(const struct snapshot *snapshot, const struct limit_params *params)
{
    return snapshot->units < params->rate ? params->rate - snapshot->units : 0;
}

static uint64_t judge(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait)
{
    (void)wait;
    const struct snapshot snapshot = stand(state, params, call->now);
    return call->cost <= remaining_of(&snapshot, params)
               ? 0
               : passes_after(state, params, &snapshot, call->cost);
}

static uint64_t reset_after(const struct sliding_log *log, const struct limit_params *params,
                            const struct snapshot *snapshot)
{
    if (snapshot->n == 0) {
        return 0;
    }
    const struct sliding_log_entry *newest = &log->entries[log->first + log->n - 1];
    return leaves_at(newest, params, snapshot->now) - snapshot->now + snapshot->still;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const struct snapshot snapshot = stand(state, params, call->now);
    const uint64_t remaining = remaining_of(&snapshot, params);

    verdict->limit = params->rate;
    verdict->remaining = remaining;
    verdict->next_after =
        remaining < params->rate ? passes_after(state, params, &snapshot, remaining + 1) : 0;
    verdict->reset_after = reset_after(state, params, &snapshot);
}

static void drop_what_left(struct sliding_log *log, const struct snapshot *snapshot)
{
    log->units = snapshot->units;
    log->first = snapshot->first;
    log->n = snapshot->n;
    if (is_worth_moving(snapshot)) {
        memmove(log->entries, log->entries + log->first, log->n * sizeof(*log->entries));
        log->first = 0;
    }
}

static void trim(void *state, const struct limit_params *params, uint64_t now)
{
    struct sliding_log *log = state;
    const struct snapshot snapshot = stand(log, params, now);
    if (snapshot.first - log->first > ENTRIES_LEFT_MAX) {
        drop_what_left(log, &snapshot);
    }
}

/* What is dated after @now becomes one entry of @now. */
static void follow(struct sliding_log *log, uint64_t now)
{
    uint64_t units = 0;
    while (log->n > 0 && newest_of(log) > now) {
        units += log->entries[log->first + log->n - 1].units;
        log->n--;
    }
    struct sliding_log_entry *entry = &log->entries[log->first + log->n];
    *entry = entry_of(now, units);
    log->n++;
    log->units = log->units - units + entry->units;
}

static uint64_t charge(void *state, const struct limit_params *params,
                       const struct limit_call *call)
{
    struct sliding_log *log = state;
    const struct snapshot snapshot = stand(log, params, call->now);
    const bool ahead = is_ahead(log, params, call->now);
    uint64_t cost = call->cost;
    if (call->to_full && cost > remaining_of(&snapshot, params)) {
        cost = remaining_of(&snapshot, params);
    }

    drop_what_left(log, &snapshot);
    if (ahead) {
        follow(log, call->now);
    }
    if (cost > 0) {
        log->entries[log->first + log->n] = entry_of(snapshot.now, cost);
        log->n++;
        log->units += cost;
    }
    return snapshot.now;
}

/* Index, from the oldest, after the last entry that is not later than @at. */
static uint32_t end_of(const struct sliding_log *log, uint64_t at)
{
    uint32_t low = 0;
    uint32_t high = log->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (at_of(&log->entries[log->first + middle]) <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void remove_entry(struct sliding_log *log, uint32_t index)
{
    struct sliding_log_entry *entry = &log->entries[log->first + index];
    memmove(entry, entry + 1, (log->n - index - 1) * sizeof(*entry));
    log->n--;
}

/* Returns what of @delta the entry does not have. One without units is removed. */
static int64_t lower_entry(struct sliding_log *log, uint32_t index, int64_t delta)
{
    struct sliding_log_entry *entry = &log->entries[log->first + index];
    const uint32_t before = entry->units;
    const uint32_t after = (uint32_t)settle_scaled(before, delta, 1, UINT32_MAX);
    entry->units = after;
    log->units = log->units - before + after;
    if (after == 0) {
        remove_entry(log, index);
    }
    return delta + (int64_t)(before - after);
}

/* Of the entries of the charge's tick the latest give back first. What was re-dated is the newest.
 * What was taken more while the request was in flight has an entry a little later than its caller
 * knows: a tenth of a second at most, and not many entries, so that it takes no long. */
static void give_back(struct sliding_log *log, const struct limit_params *params,
                      uint64_t charged_at, uint64_t now, int64_t delta)
{
    const uint64_t newest = newest_of(log);
    const uint64_t at = charged_at < newest ? charged_at : newest;
    const bool counts = at + params->period > (now > newest ? now : newest);
    uint32_t i = end_of(log, at);
    while (i > 0 && delta < 0 && at_of(&log->entries[log->first + i - 1]) == at) {
        delta = lower_entry(log, --i, delta);
    }
    const uint64_t latest = at + params->ticks_per_s / LATER_PER_S;
    for (unsigned n = 0; counts && n < LATER_ENTRIES_MAX && delta < 0 && i < log->n &&
                         at_of(&log->entries[log->first + i]) <= latest;
         n++) {
        delta = lower_entry(log, i, delta);
    }
}

/* What is taken is one more entry, of @now. A log that has `rate` of them, as many as charges can
 * make, does not grow: its newest is dated to @now and has all. */
static void take_more(struct sliding_log *log, const struct limit_params *params, uint64_t now,
                      int64_t delta)
{
    const struct snapshot snapshot = stand(log, params, now);
    const bool ahead = is_ahead(log, params, now);
    drop_what_left(log, &snapshot);
    if (ahead) {
        follow(log, now);
    }
    uint64_t units = 0;
    if (log->n > 0 && log->n >= params->rate) {
        log->n--;
        units = log->entries[log->first + log->n].units;
        log->units -= units;
    }
    struct sliding_log_entry *entry = &log->entries[log->first + log->n];
    *entry = entry_of(snapshot.now, settle_scaled(units, delta, 1, UINT32_MAX));
    log->n++;
    log->units += entry->units;
}

static void settle(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta)
{
    if (delta > 0) {
        take_more(state, params, now, delta);
    } else {
        give_back(state, params, charged_at, now, delta);
    }
}

const struct algorithm sliding_log_algorithm = {
    .name = "sliding_log",
    .script = &sliding_log_script,
    .check_params = check_params,
    .room = room,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .trim = trim,
    .settle = settle,
};
