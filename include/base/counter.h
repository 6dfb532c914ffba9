/* Numbers that one thread changes and any thread reads.
 *
 * With one writer an addition needs no lock: it is as cheap as that of a plain number. Readers see
 * each number as it was about then, and several not of one moment. */

#ifndef SLUICE_BASE_COUNTER_H
#define SLUICE_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

/* Zeroed memory is a counter of 0. */
struct counter {
    _Atomic uint64_t n;
};

static inline uint64_t counter_read(const struct counter *counter)
{
    return atomic_load_explicit(&counter->n, memory_order_relaxed);
}

/* --- by the one writer --- */

static inline void counter_add(struct counter *counter, uint64_t n)
{
    atomic_store_explicit(&counter->n, counter_read(counter) + n, memory_order_relaxed);
}

static inline void counter_up(struct counter *counter)
{
    counter_add(counter, 1);
}

/* Of one that counts how many there are just now. */
static inline void counter_down(struct counter *counter)
{
    counter_add(counter, UINT64_MAX);
}

static inline void counter_set(struct counter *counter, uint64_t n)
{
    atomic_store_explicit(&counter->n, n, memory_order_relaxed);
}

#endif /* SLUICE_BASE_COUNTER_H */
