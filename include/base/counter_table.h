/* A table of blocks of counters that grows without moving what is there: one thread counts in it
 * while others read, and somebody may let it grow meanwhile.
 *
 * Blocks are zeroed, and live as long as the table. */

#ifndef SLUICE_BASE_COUNTER_TABLE_H
#define SLUICE_BASE_COUNTER_TABLE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"

enum {
    COUNTER_TABLE_CHUNK = 64, /* blocks that are made together; a power of two */
    COUNTER_TABLE_CHUNKS_MAX = 1024,
};

struct counter_table {
    size_t block_bytes;
    void *_Atomic chunks[COUNTER_TABLE_CHUNKS_MAX];
};

/* Of blocks of @block_bytes. There are none yet. */
void counter_table_init(struct counter_table *table, size_t block_bytes);

void counter_table_close(struct counter_table *table);

/* Have the blocks below @n, at most COUNTER_TABLE_CHUNK * COUNTER_TABLE_CHUNKS_MAX of them. By one
 * thread at a time. STATUS_NO_MEMORY: those that were there are. */
MUST_USE enum status counter_table_grow(struct counter_table *table, size_t n);

/* For who counts: the block @i, which is known to be there. */
static inline void *counter_table_at(struct counter_table *table, size_t i)
{
    char *chunk =
        atomic_load_explicit(&table->chunks[i / COUNTER_TABLE_CHUNK], memory_order_relaxed);
    return chunk + i % COUNTER_TABLE_CHUNK * table->block_bytes;
}

/* For readers: the block @i, or NULL where it is not there (yet). */
const void *counter_table_look(const struct counter_table *table, size_t i);

/* The same for the owner. */
void *counter_table_find(struct counter_table *table, size_t i);

#endif /* SLUICE_BASE_COUNTER_TABLE_H */
