/* How often each size of number came: counts in buckets that are exact below HISTOGRAM_STEPS and a
 * HISTOGRAM_STEPS-th wide above, so that a quantile is at most 3.2 % too large.
 *
 * One thread adds, without a lock; any thread reads, and sees each count as it was about then. */

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
    atomic_uint_fast64_t counts[HISTOGRAM_BUCKETS]; /* what is larger than all is in the last */
    atomic_uint_fast64_t sum;
    atomic_uint_fast64_t max;
};

void histogram_init(struct histogram *histogram);

/* By one thread at a time. */
void histogram_add(struct histogram *histogram, uint64_t number);

/* Add what @from counts to @to; nobody may add to @to meanwhile. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* Numbers added. */
uint64_t histogram_count(const struct histogram *histogram);

/* The least number of which it is sure that @part of @whole (1 … @whole) of those that
 * were added are not above it, rounded up to the end of its bucket, and never above the
 * largest. 0: none was added. */
uint64_t histogram_quantile(const struct histogram *histogram, uint64_t part, uint64_t whole);

static inline uint64_t histogram_max(const struct histogram *histogram)
{
    return atomic_load_explicit(&histogram->max, memory_order_relaxed);
}

static inline uint64_t histogram_sum(const struct histogram *histogram)
{
    return atomic_load_explicit(&histogram->sum, memory_order_relaxed);
}

/* The largest number that falls into the bucket @i: the edges that a page of metrics shows. */
uint64_t histogram_bucket_max(size_t i);

#endif /* SLUICE_BASE_HISTOGRAM_H */
