/* The allocator of one shard: a buddy system over lines of 64 bytes, with blocks of 2^order lines.
 * A freed block is merged with its free buddy.
 *
 * Blocks are numbered by their first line. Not thread-safe. */

#ifndef SLUICE_STORE_MEMORY_MEMORY_HEAP_H
#define SLUICE_STORE_MEMORY_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    MEMORY_LINE_BYTES = 64,
    MEMORY_ORDERS = 26, /* the largest block is 2 GiB */
};

#define MEMORY_NO_LINE UINT32_MAX

/* The use of a line. */
enum memory_line {
    MEMORY_LINE_INSIDE, /* the block that holds it starts earlier */
    MEMORY_LINE_FREE,
    MEMORY_LINE_TAKEN,
    MEMORY_LINE_HELD, /* not in use, but not available until it is given back */
};

struct memory_heap {
    char *lines;
    uint8_t *tags; /* one a line: enum memory_line and the order of the block */
    uint32_t n_lines;
    uint32_t n_taken;             /* lines of blocks that are taken */
    uint32_t free_orders;         /* bit set of the orders with free blocks */
    uint32_t free[MEMORY_ORDERS]; /* first free block of each; undefined without its bit */
};

/* Initializes @heap over @bytes at @memory, which must be zero and aligned to a line, and stay
 * owned by the caller. Memory that is never taken is hardly written to. */
void memory_heap_init(struct memory_heap *heap, void *memory, size_t bytes);

/* The smallest order of a block for @bytes; MEMORY_ORDERS or more: there is none. */
unsigned memory_heap_order(size_t bytes);

/* A block of @order with undefined contents, or MEMORY_NO_LINE. */
MUST_USE uint32_t memory_heap_take(struct memory_heap *heap, unsigned order);

/* Frees the block at @line, which must be taken or held. */
void memory_heap_give(struct memory_heap *heap, uint32_t line);

/* Merges the taken block at @line with its buddy, if that is free. Returns the first line of the
 * merged block, which is taken, or MEMORY_NO_LINE. */
MUST_USE uint32_t memory_heap_extend(struct memory_heap *heap, uint32_t line);

/* The line of the block's buddy. If it is beyond the memory, or a block of another order starts
 * there, there is no buddy. */
static inline uint32_t memory_heap_other_half(uint32_t line, unsigned order)
{
    return line ^ UINT32_C(1) << order;
}

/* Makes the block at @line, taken or free, unavailable until it is given back. */
void memory_heap_hold(struct memory_heap *heap, uint32_t line);

/* The first line of the block that contains @line. */
uint32_t memory_heap_block_at(const struct memory_heap *heap, uint32_t line);

static inline enum memory_line memory_heap_kind(const struct memory_heap *heap, uint32_t line)
{
    return (enum memory_line)(heap->tags[line] >> 6);
}

/* The order of the block whose first line is @line. */
static inline unsigned memory_heap_order_of(const struct memory_heap *heap, uint32_t line)
{
    return heap->tags[line] & 63;
}

static inline void *memory_heap_bytes(const struct memory_heap *heap, uint32_t line)
{
    return heap->lines + (size_t)line * MEMORY_LINE_BYTES;
}

#endif /* SLUICE_STORE_MEMORY_MEMORY_HEAP_H */
