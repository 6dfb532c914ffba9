#include "base/histogram.h"

#include <assert.h>

enum { STEP_BITS = 5 };

static_assert(1 << STEP_BITS == HISTOGRAM_STEPS, "steps are a power of two");

/* Each number below HISTOGRAM_STEPS has its own bucket. Above, the highest bit gives the doubling,
 * and the STEP_BITS below it the step. */
static size_t bucket_of(uint64_t number)
{
    if (number < HISTOGRAM_STEPS) {
        return (size_t)number;
    }
    const size_t shift = 63 - STEP_BITS - (size_t)__builtin_clzll(number);
    const size_t bucket = shift * HISTOGRAM_STEPS + (size_t)(number >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_bucket_max(size_t i)
{
    assert(i < HISTOGRAM_BUCKETS);

    if (i < HISTOGRAM_STEPS) {
        return i;
    }
    const size_t shift = i / HISTOGRAM_STEPS - 1;
    return ((uint64_t)(HISTOGRAM_STEPS + i % HISTOGRAM_STEPS + 1) << shift) - 1;
}

/* With one writer an atomic addition is not needed; it would cost ten times as much. */
static void add(atomic_uint_fast64_t *counter, uint64_t n)
{
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

static void raise_max(struct histogram *histogram, uint64_t number)
{
    if (number > histogram_max(histogram)) {
        atomic_store_explicit(&histogram->max, number, memory_order_relaxed);
    }
}

static uint64_t count_at(const struct histogram *histogram, size_t i)
{
    return atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
}

void histogram_init(struct histogram *histogram)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        atomic_init(&histogram->counts[i], 0);
    }
    atomic_init(&histogram->max, 0);
}

void histogram_add(struct histogram *histogram, uint64_t number)
{
    add(&histogram->counts[bucket_of(number)], 1);
    raise_max(histogram, number);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        add(&to->counts[i], count_at(from, i));
    }
    raise_max(to, histogram_max(from));
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        count += count_at(histogram, i);
    }
    return count;
}

/* @count * @part / @whole, rounded up. */
static uint64_t rank_of(uint64_t count, uint64_t part, uint64_t whole)
{
    return count / whole * part + (count % whole * part + whole - 1) / whole;
}

uint64_t histogram_quantile(const struct histogram *histogram, uint64_t part, uint64_t whole)
{
    assert(part >= 1 && part <= whole && whole <= UINT32_MAX);

    const uint64_t rank = rank_of(histogram_count(histogram), part, whole);
    const uint64_t max = histogram_max(histogram);
    uint64_t n_below = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        n_below += count_at(histogram, i);
        if (n_below >= rank && n_below > 0) {
            const uint64_t edge = histogram_bucket_max(i);
            return edge < max ? edge : max;
        }
    }
    return max;
}
