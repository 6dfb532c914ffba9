/* Counters that one thread changes and any thread reads.
 *
 * With one writer an addition needs no lock and costs as much as that of a plain integer. A reader
 * sees a recent value of each counter; values of several counters may be from different moments. */

#ifndef SLUICE_BASE_COUNTER_H
#define SLUICE_BASE_COUNTER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

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

/* For a counter of the current number of things. */
static inline void counter_down(struct counter *counter)
{
    counter_add(counter, UINT64_MAX);
}

static inline void counter_set(struct counter *counter, uint64_t n)
{
    atomic_store_explicit(&counter->n, n, memory_order_relaxed);
}

/* --- a latency ---
 *
 * A histogram with the few, round buckets of the metrics output; base/histogram.h has many exact
 * ones. Zeroed memory is an empty one. */

enum { LATENCY_EDGES = 19 };

struct latency {
    struct counter counts[LATENCY_EDGES + 1]; /* by bucket; the last one has no upper bound */
    struct counter sum_us;
};

/* The bucket of @us: the first whose upper bound is not below it. */
size_t latency_bucket(uint64_t us);

/* The largest time in the bucket @i < LATENCY_EDGES, us: 10, 25, 50, 100, … 10,000,000. */
uint64_t latency_edge_us(size_t i);

static inline void latency_add(struct latency *latency, uint64_t us)
{
    counter_up(&latency->counts[latency_bucket(us)]);
    counter_add(&latency->sum_us, us);
}

/* --- a table ---
 *
 * Blocks of counters. The table grows without moving existing blocks: one thread writes the
 * counters while others read them, and another thread may grow the table at the same time. Blocks
 * are zeroed when they are made, and live as long as the table. */

enum {
    COUNTER_TABLE_CHUNK = 64, /* blocks allocated together; a power of two */
    COUNTER_TABLE_CHUNKS_MAX = 1024,
};

struct counter_table {
    size_t block_bytes;
    void *_Atomic chunks[COUNTER_TABLE_CHUNKS_MAX];
};

/* An empty table for blocks of @block_bytes. */
void counter_table_init(struct counter_table *table, size_t block_bytes);

void counter_table_close(struct counter_table *table);

/* Allocate the blocks below @n, at most COUNTER_TABLE_CHUNK * COUNTER_TABLE_CHUNKS_MAX of them.
 * Only one thread at a time. STATUS_NO_MEMORY: the blocks allocated so far stay. */
MUST_USE enum status counter_table_grow(struct counter_table *table, size_t n);

/* For the writer: the block @i, which must be allocated. */
static inline void *counter_table_at(struct counter_table *table, size_t i)
{
    char *chunk =
        atomic_load_explicit(&table->chunks[i / COUNTER_TABLE_CHUNK], memory_order_relaxed);
    return chunk + i % COUNTER_TABLE_CHUNK * table->block_bytes;
}

/* For readers: the block @i, or NULL if it is not allocated (yet). */
const void *counter_table_peek(const struct counter_table *table, size_t i);

/* As counter_table_peek(), but writable: for the owner. */
void *counter_table_find(struct counter_table *table, size_t i);

#endif /* SLUICE_BASE_COUNTER_H */
