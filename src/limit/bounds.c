/* Compares an upper bound of the units that a strict limit admits in a time T with a lower bound of
 * the units that a loose limit allows. With N units per period P, burst B, and the tick of the
 * limit's clock:
 *
 *   bucket (B, N/P)     admits B + N * (T + tick) / P
 *   window, N per P     admits N * (whole periods in T + 1), if every time P has at most N,
 *                       else + 2: a clock window may end, and another begin, within T
 *
 *   a window denies nothing while at most N units are admitted in the time that it covers
 *   a bucket denies nothing while each T admits at most B + N * (T - tick) / P units */

#include "limit/algorithm.h"
#include "limit/algorithms.h"
#include "limit/limit.h"

/* The product of units and a time can exceed 64 bits. */
__extension__ typedef unsigned __int128 wide;

/* Whether @limit is a bucket that does not hold requests. */
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

/* --- upper bound of a strict limit --- */

/* A time in which a window admits at most N units. *n_more: how many such times a time T may touch
 * beside the whole ones that it contains. 0: no bound is known. */
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

/* Whether @limit admits at most @most units in every time of @us. */
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

uint64_t bounds_bucket_admits(const struct limit *limit, uint64_t us)
{
    const wide units = limit->params.burst +
                       ((wide)limit->params.rate * us + limit->period_us - 1) / limit->period_us -
                       1;
    return units < UINT64_MAX ? (uint64_t)units : UINT64_MAX;
}

/* --- lower bound of a loose limit --- */

/* The maximum time that a window covers. A month or a day of a calendar may be up to a tenth longer
 * than its nominal period. */
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

/* gcra rounds the cost of a unit up to its tick, which lowers the rate by at most a thousandth. */
static wide rate_of_loose(const struct limit *limit)
{
    const wide rate = (wide)limit->params.rate * 1000;
    return limit->algorithm == &gcra_algorithm ? rate - limit->params.rate : rate;
}

static wide divide_up(wide dividend, wide divisor)
{
    return (dividend + divisor - 1) / divisor;
}

/* The units, rounded up, that @limit may refill too late or admit too early because it counts in
 * ticks. */
static wide units_a_tick(const struct limit *limit)
{
    return divide_up((wide)limit->params.rate * limit->tick_us, limit->period_us);
}

/* Both are buckets. With equal ticks the deficit of the loose bucket never exceeds the deficit of
 * the strict one. */
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

/* A loose bucket and a strict window: N * (T / P + n) <= B + N' * (T - tick) / P' for all T. */
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

/* Two clock windows with the same start and end. */
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
