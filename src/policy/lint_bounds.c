/* The greatest number of units that a limit admits in a time T is reckoned from above; what
 * another limit holds against it from below. With N units per period P, burst B, and the tick
 * of time by which it counts:
 *
 *   bucket (B, N/P)     admits B + N * (T + tick) / P
 *   window, N per P     admits N * (whole periods in T + 1), if any time P has N at most, else + 2:
 *                       a window of the clock may end, and another begin, within T
 *
 *   a window refuses nothing while what is admitted in all that it looks back on is N at most
 *   a bucket refuses nothing while what is admitted in each T is B + N * (T - tick) / P at most */

#include "policy/lint_bounds.h"

#include "limit/algorithm.h"
#include "limit/fixed_window.h"
#include "limit/gcra.h"
#include "limit/sliding_log.h"
#include "limit/sliding_window.h"

/* Units times a time can pass 64 bits. */
__extension__ typedef unsigned __int128 wide;

/* Whether @limit is a bucket that lets pass at once what it admits. */
static bool is_bucket(const struct limit *limit)
{
    return limit->algorithm->has_burst && limit->params.max_wait == 0;
}

static bool is_window(const struct limit *limit)
{
    return limit->algorithm == &fixed_window_algorithm ||
           limit->algorithm == &sliding_window_algorithm ||
           limit->algorithm == &sliding_log_algorithm;
}

/* --- what a strict limit admits --- */

/* A time in which a window admits its N at most, and in how many such times, one after the other, T
 * may lie beside the whole ones. 0: nothing is known. */
static uint64_t strict_us(const struct limit *limit, unsigned *n_more)
{
    const uint64_t buckets = limit->params.buckets;
    uint64_t us = limit->period_us;
    *n_more = 1;
    if (limit->params.is_calendar) {
        return 0;
    }
    if (limit->algorithm == &fixed_window_algorithm) {
        *n_more = 2;
    } else if (limit->algorithm == &sliding_window_algorithm && !limit->params.strict) {
        us = us / buckets * (buckets - 1);
    }
    return us > limit->tick_us ? us - limit->tick_us : 0;
}

/* Whether @limit admits @most units at most in any time of @us. */
static bool admits_at_most(const struct limit *limit, uint64_t us, uint64_t most)
{
    const wide rate = limit->params.rate;
    const wide period_us = limit->period_us;
    unsigned n_more;
    if (is_bucket(limit)) {
        return limit->params.burst * period_us + rate * ((wide)us + limit->tick_us) <=
               most * period_us;
    }
    const uint64_t window_us = strict_us(limit, &n_more);
    return window_us > 0 && rate * (us / window_us + n_more) <= most;
}

/* --- what a loose limit holds --- */

/* How far back a window looks; a month or a day of a calendar may be a tenth
 * longer than it is reckoned. */
static uint64_t looks_back_us(const struct limit *limit)
{
    uint64_t us = limit->period_us + limit->tick_us;
    if (limit->params.is_calendar) {
        us += limit->period_us / 10;
    } else if (limit->algorithm == &sliding_window_algorithm) {
        us += limit->period_us / limit->params.buckets;
    }
    return us;
}

/* gcra rounds what a unit costs up to its tick: a rate less by a thousandth at most. */
static wide rate_of_loose(const struct limit *limit)
{
    const wide rate = (wide)limit->params.rate * 1000;
    return limit->algorithm == &gcra_algorithm ? rate - limit->params.rate : rate;
}

static wide divide_up(wide dividend, wide divisor)
{
    return (dividend + divisor - 1) / divisor;
}

/* What @limit may gain too late, or admit too early, since it counts by
 * ticks: units, rounded up. */
static wide units_a_tick(const struct limit *limit)
{
    return divide_up((wide)limit->params.rate * limit->tick_us, limit->period_us);
}

/* Both are buckets. If they count by one tick, what one lacks of full is never more
 * than what the other does. */
static bool is_larger_bucket(const struct limit *loose, const struct limit *strict)
{
    const bool is_rounded =
        loose->algorithm == &gcra_algorithm && strict->algorithm != &gcra_algorithm;
    const wide rate = is_rounded ? rate_of_loose(loose) : (wide)loose->params.rate * 1000;
    const wide slack =
        loose->tick_us == strict->tick_us ? 0 : units_a_tick(loose) + units_a_tick(strict);
    return loose->params.burst >= strict->params.burst + slack &&
           rate * strict->period_us >= (wide)strict->params.rate * 1000 * loose->period_us;
}

/* A bucket over a window: N * (T / P + n) is B + N' * (T - tick) / P' at most for all T. */
static bool is_bucket_over_window(const struct limit *loose, const struct limit *strict)
{
    unsigned n_more;
    const uint64_t window_us = strict_us(strict, &n_more);
    const wide rate = strict->params.rate;
    const wide loose_us = (wide)loose->period_us * 1000;
    return window_us > 0 &&
           (wide)loose->params.burst * loose_us >=
               rate * n_more * loose_us + rate_of_loose(loose) * loose->tick_us + loose_us &&
           rate_of_loose(loose) * window_us >= rate * loose_us;
}

/* Two windows of the clock that begin and end together. */
static bool is_same_window(const struct limit *loose, const struct limit *strict)
{
    const bool has_params = loose->period_us == strict->period_us &&
                            loose->tick_us == strict->tick_us &&
                            loose->params.offset == strict->params.offset &&
                            loose->params.buckets == strict->params.buckets &&
                            loose->params.strict == strict->params.strict;
    return loose->algorithm == strict->algorithm && has_params && !loose->params.is_calendar &&
           !strict->params.is_calendar && !loose->params.from_first && !strict->params.from_first &&
           loose->params.rate >= strict->params.rate;
}

bool bounds_never_binds(const struct limit *loose, const struct limit *strict)
{
    if (!(is_bucket(strict) || is_window(strict))) {
        return false;
    }
    if (is_bucket(loose)) {
        return is_bucket(strict) ? is_larger_bucket(loose, strict)
                                 : is_bucket_over_window(loose, strict);
    }
    return is_window(loose) && (is_same_window(loose, strict) ||
                                admits_at_most(strict, looks_back_us(loose), loose->params.rate));
}
