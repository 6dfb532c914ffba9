#include "base/counter_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 64 }; /* of a cache: no two tables share one */

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

const void *counter_table_look(const struct counter_table *table, size_t i)
{
    /* A load changes nothing, and C11 wants its atomic without const. */
    union {
        const struct counter_table *looked_at;
        struct counter_table *table;
    } of = {.looked_at = table};
    return counter_table_find(of.table, i);
}
