/* The memory of one shard: lines of 64 bytes, handed out in blocks of 2^order of them (a buddy
 * system). What is given back grows together with its neighbour, so that large blocks come back.
 *
 * Blocks are numbered by their first line. Not safe between threads. */

#ifndef SLUICE_STORE_MEMORY_HEAP_H
#define SLUICE_STORE_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    MEMORY_LINE_BYTES = 64,
    MEMORY_ORDERS = 26, /* the largest block is 2 GiB */
};

#define MEMORY_NO_LINE UINT32_MAX

/* What stands at a line. */
enum memory_line {
    MEMORY_LINE_INSIDE, /* the block that holds it starts earlier */
    MEMORY_LINE_FREE,
    MEMORY_LINE_TAKEN,
    MEMORY_LINE_HELD, /* given back, and kept from being taken until it is let go */
};

struct memory_heap {
    char *lines;
    uint8_t *tags; /* one a line: enum memory_line and the order of the block */
    uint32_t n_lines;
    uint32_t n_taken;             /* lines of blocks that are taken */
    uint32_t free_orders;         /* bit set of the orders with free blocks */
    uint32_t free[MEMORY_ORDERS]; /* first free block of each; undefined without its bit */
};

/* Lay out @bytes at @memory, which are zero, aligned for a line and stay the caller's. Of what is
 * never taken hardly anything is written to. */
void memory_heap_init(struct memory_heap *heap, void *memory, size_t bytes);

/* The least order of a block of @bytes; MEMORY_ORDERS or more: there is none. */
unsigned memory_heap_order(size_t bytes);

/* A block of @order with undefined contents, or MEMORY_NO_LINE. */
MUST_USE uint32_t memory_heap_take(struct memory_heap *heap, unsigned order);

/* Give back the block at @line, which is taken or held. */
void memory_heap_give(struct memory_heap *heap, uint32_t line);

/* Join the taken block at @line with the other half of the block that both come from, if that is
 * free: the first line of both, taken, or MEMORY_NO_LINE. */
MUST_USE uint32_t memory_heap_extend(struct memory_heap *heap, uint32_t line);

/* Where the other half is; beyond the memory, or of another order, where there is none. */
static inline uint32_t memory_heap_other_half(uint32_t line, unsigned order)
{
    return line ^ UINT32_C(1) << order;
}

/* Keep the block at @line, taken or free, from being taken. */
void memory_heap_hold(struct memory_heap *heap, uint32_t line);

/* The block that holds @line: its first line. */
uint32_t memory_heap_block_at(const struct memory_heap *heap, uint32_t line);

static inline enum memory_line memory_heap_kind(const struct memory_heap *heap, uint32_t line)
{
    return (enum memory_line)(heap->tags[line] >> 6);
}

/* @line is the first of its block. */
static inline unsigned memory_heap_order_of(const struct memory_heap *heap, uint32_t line)
{
    return heap->tags[line] & 63;
}

static inline void *memory_heap_bytes(const struct memory_heap *heap, uint32_t line)
{
    return heap->lines + (size_t)line * MEMORY_LINE_BYTES;
}

#endif /* SLUICE_STORE_MEMORY_HEAP_H */
