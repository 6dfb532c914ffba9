#include "base/counter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- a latency --- */

static const uint32_t EDGES_US[LATENCY_EDGES] = {
    10,    25,    50,     100,    250,    500,     1000,    2500,    5000,     10000,
    25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000,
};

/* Indexed by the number of bits of a time: the first bucket bound that is not below the least such
 * time. No doubling has more than two bounds, so at most two steps lead to the bucket. */
static const uint8_t FIRST[] = {
    0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16, 17, 18,
};

size_t latency_bucket(uint64_t us)
{
    const size_t bits = us == 0 ? 0 : 64 - (size_t)__builtin_clzll(us);
    if (bits >= sizeof(FIRST)) {
        return LATENCY_EDGES;
    }
    size_t i = FIRST[bits];
    while (i < LATENCY_EDGES && us > EDGES_US[i]) {
        i++;
    }
    return i;
}

uint64_t latency_edge_us(size_t i)
{
    assert(i < LATENCY_EDGES);

    return EDGES_US[i];
}

/* --- a table --- */

enum { LINE_BYTES = 64 }; /* of a cache: two tables never share one */

void counter_table_init(struct counter_table *table, size_t block_bytes)
{
    table->block_bytes = block_bytes;
    for (size_t i = 0; i < COUNTER_TABLE_CHUNKS_MAX; i++) {
        atomic_init(&table->chunks[i], NULL);
    }
}

void counter_table_close(struct counter_table *table)
{
    for (size_t i = 0; i < COUNTER_TABLE_CHUNKS_MAX; i++) {
        free(atomic_load_explicit(&table->chunks[i], memory_order_relaxed));
        atomic_store_explicit(&table->chunks[i], NULL, memory_order_relaxed);
    }
}

static enum status add_chunk(struct counter_table *table, size_t i)
{
    const size_t bytes =
        (table->block_bytes * COUNTER_TABLE_CHUNK + LINE_BYTES - 1) & ~(size_t)(LINE_BYTES - 1);
    void *chunk = aligned_alloc(LINE_BYTES, bytes);
    if (chunk == NULL) {
        return STATUS_NO_MEMORY;
    }
    memset(chunk, 0, bytes);
    atomic_store_explicit(&table->chunks[i], chunk, memory_order_release);
    return STATUS_OK;
}

enum status counter_table_grow(struct counter_table *table, size_t n)
{
    assert(n <= (size_t)COUNTER_TABLE_CHUNK * COUNTER_TABLE_CHUNKS_MAX);

    for (size_t i = 0; i * COUNTER_TABLE_CHUNK < n; i++) {
        if (atomic_load_explicit(&table->chunks[i], memory_order_relaxed) == NULL &&
            add_chunk(table, i) != STATUS_OK) {
            return STATUS_NO_MEMORY;
        }
    }
    return STATUS_OK;
}

void *counter_table_find(struct counter_table *table, size_t i)
{
    char *chunk =
        i / COUNTER_TABLE_CHUNK < COUNTER_TABLE_CHUNKS_MAX
            ? atomic_load_explicit(&table->chunks[i / COUNTER_TABLE_CHUNK], memory_order_acquire)
            : NULL;
    return chunk == NULL ? NULL : chunk + i % COUNTER_TABLE_CHUNK * table->block_bytes;
}

const void *counter_table_peek(const struct counter_table *table, size_t i)
{
    /* A load does not modify the atomic, but C11 requires a pointer without const. */
    union {
        const struct counter_table *looked_at;
        struct counter_table *table;
    } of = {.looked_at = table};
    return counter_table_find(of.table, i);
}
