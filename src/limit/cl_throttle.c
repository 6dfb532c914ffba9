#include "limit/script_source.h"

#include <stddef.h>

#include "limit/algorithms.h"
#include "limit/inner.h"

enum { NS_PER_US = 1000, US_PER_S = 1000000 };

static const uint64_t NS_PER_S = UINT64_C(1000000000);

/* redis-cell adds two such to the time since the epoch, in a signed number of 64 bits: 36 years. */
static const uint64_t DEPTH_MAX_NS = UINT64_C(1) << 60;

/* More seconds than that are nonsense: 136 years. */
static const long long SECONDS_MAX = INT64_C(1) << 32;

/* What redis-cell reckons with. */
static uint64_t interval_ns(const struct limit *limit)
{
    return limit->period_us * NS_PER_US / limit->params.rate;
}

static uint64_t depth_ns(const struct limit *limit)
{
    return limit->params.burst * interval_ns(limit);
}

/* The divisor from which it computes what remains. */
static uint64_t whole_us_interval_ns(const struct limit *limit)
{
    return interval_ns(limit) / NS_PER_US * NS_PER_US;
}

const char *cl_throttle_misfit(const struct limit *limit)
{
    if (limit->algorithm != &gcra_algorithm) {
        return "its algorithm is not gcra";
    }
    if (limit->charge_denied) {
        return "it counts denied requests";
    }
    if (limit->period_us % US_PER_S != 0) {
        return "its period is no whole number of seconds";
    }
    if (limit->period_us > DEPTH_MAX_NS / NS_PER_US ||
        limit->params.burst > DEPTH_MAX_NS / interval_ns(limit)) {
        return "it takes more than 36 years to refill";
    }
    if (interval_ns(limit) < NS_PER_US) {
        return "its rate is above a million a second";
    }
    return NULL;
}

static bool is_askable(const struct limit *limit, uint32_t cost)
{
    return cost <= limit->params.burst;
}

void cl_throttle_args(const struct limit *limit, uint32_t cost, uint64_t args[CL_THROTTLE_ARGS])
{
    args[0] = limit->params.burst - 1;
    args[1] = limit->params.rate;
    args[2] = limit->period_us / US_PER_S;
    args[3] = is_askable(limit, cost) ? cost : 0;
}

/* limited, limit, remaining, retry, full */
static bool make_sense(const struct limit *limit, uint32_t cost, const long long *ints)
{
    const bool must_report_when = ints[0] == 1 && cost > 0 && is_askable(limit, cost);
    return (ints[0] == 0 || ints[0] == 1) && ints[1] == limit->params.burst && ints[2] >= 0 &&
           ints[3] >= (must_report_when ? 0 : -1) && ints[3] <= SECONDS_MAX && ints[4] >= 0 &&
           ints[4] <= SECONDS_MAX;
}

/* Less than that. */
static uint64_t most_ns(long long seconds)
{
    return ((uint64_t)seconds + 1) * NS_PER_S;
}

static uint64_t ticks_of(const struct limit *limit, uint64_t ns)
{
    return divide_up(ns, (uint64_t)limit->tick_us * NS_PER_US);
}

/* Report the state from the seconds and the units of the reply, whichever is tighter. */
static void report_state(const struct limit *limit, const long long *ints, struct verdict *verdict)
{
    const uint64_t depth = depth_ns(limit);
    const uint64_t interval = interval_ns(limit);
    const uint64_t divisor = whole_us_interval_ns(limit);
    const uint64_t reported =
        (uint64_t)ints[2] < depth / divisor ? (uint64_t)ints[2] : depth / divisor;
    const uint64_t free_ns = reported * divisor;
    uint64_t debt_ns = most_ns(ints[4]);

    verdict->remaining = (free_ns + divisor - 1) / interval;
    if (verdict->remaining >= limit->params.burst) {
        verdict->remaining = limit->params.burst;
        return; /* untouched */
    }
    /* With 0 remaining the debt may exceed the depth, after a burst was lowered: then only the
     * seconds are used. */
    if (reported > 0 && depth - free_ns < debt_ns) {
        debt_ns = depth - free_ns;
    }
    const uint64_t then_ns = (limit->params.burst - verdict->remaining - 1) * interval;
    verdict->next_after = debt_ns > then_ns ? ticks_of(limit, debt_ns - then_ns) : 1;
    verdict->reset_after = ticks_of(limit, debt_ns);
}

bool cl_throttle_read_verdict(const struct limit *limit, uint32_t cost, const long long *ints,
                              struct verdict *verdict)
{
    if (!make_sense(limit, cost, ints)) {
        return false;
    }
    *verdict = (struct verdict){
        .allowed = cost == 0 || (is_askable(limit, cost) && ints[0] == 0),
        .limit = limit->params.burst,
    };
    report_state(limit, ints, verdict);
    if (!is_askable(limit, cost)) {
        verdict->retry_after = RETRY_NEVER;
    } else if (!verdict->allowed) {
        verdict->retry_after = ticks_of(limit, most_ns(ints[3]));
    }
    return true;
}
