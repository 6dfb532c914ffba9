/* A histogram: counts in buckets that are exact below HISTOGRAM_STEPS. Above, each doubling has
 * HISTOGRAM_STEPS buckets, so that a quantile is at most 3.2 % too large.
 *
 * One thread adds, without a lock. Any thread reads, and sees a recent value of each count. */

#ifndef SLUICE_BASE_HISTOGRAM_H
#define SLUICE_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_STEPS = 32, /* buckets for each doubling; a power of two */
    HISTOGRAM_DOUBLINGS =
        31, /* above the exact ones: numbers below 2^36 have a bucket of their own size */
    HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * (HISTOGRAM_DOUBLINGS + 1),
};

struct histogram {
    atomic_uint_fast64_t counts[HISTOGRAM_BUCKETS]; /* larger numbers are counted in the last */
    atomic_uint_fast64_t max;
};

void histogram_init(struct histogram *histogram);

/* By one thread at a time. */
void histogram_add(struct histogram *histogram, uint64_t number);

/* Add the counts of @from to @to. No other thread may add to @to meanwhile. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* How many numbers were added. */
uint64_t histogram_count(const struct histogram *histogram);

/* An upper bound of the quantile @part / @whole (1 <= @part <= @whole): at least that share of the
 * numbers is not above it. It is the end of the quantile's bucket, or the largest number added if
 * that is less. 0: no number was added. */
uint64_t histogram_quantile(const struct histogram *histogram, uint64_t part, uint64_t whole);

static inline uint64_t histogram_max(const struct histogram *histogram)
{
    return atomic_load_explicit(&histogram->max, memory_order_relaxed);
}

/* The largest number in the bucket @i. */
uint64_t histogram_bucket_max(size_t i);

#endif /* SLUICE_BASE_HISTOGRAM_H */
