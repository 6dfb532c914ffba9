#include "store/memory/memory_heap.h"

#include <assert.h>

/* Stored in the first line of a free block. */
struct free_block {
    uint32_t next; /* of the same order; MEMORY_NO_LINE: none */
    uint32_t prev;
};

static uint32_t lines_of(unsigned order)
{
    return UINT32_C(1) << order;
}

static void set_tag(struct memory_heap *heap, uint32_t line, enum memory_line kind, unsigned order)
{
    heap->tags[line] = (uint8_t)((unsigned)kind << 6 | order);
}

static struct free_block *free_block_at(struct memory_heap *heap, uint32_t line)
{
    return memory_heap_bytes(heap, line);
}

static void push(struct memory_heap *heap, uint32_t line, unsigned order)
{
    const uint32_t bit = UINT32_C(1) << order;
    const uint32_t next = (heap->free_orders & bit) != 0 ? heap->free[order] : MEMORY_NO_LINE;
    *free_block_at(heap, line) = (struct free_block){.next = next, .prev = MEMORY_NO_LINE};
    if (next != MEMORY_NO_LINE) {
        free_block_at(heap, next)->prev = line;
    }
    heap->free[order] = line;
    heap->free_orders |= bit;
    set_tag(heap, line, MEMORY_LINE_FREE, order);
}

static void unlink_free(struct memory_heap *heap, uint32_t line, unsigned order)
{
    const struct free_block block = *free_block_at(heap, line);
    if (block.next != MEMORY_NO_LINE) {
        free_block_at(heap, block.next)->prev = block.prev;
    }
    if (block.prev != MEMORY_NO_LINE) {
        free_block_at(heap, block.prev)->next = block.next;
    } else if (block.next != MEMORY_NO_LINE) {
        heap->free[order] = block.next;
    } else {
        heap->free_orders &= ~(UINT32_C(1) << order);
    }
}

static bool other_half_is_free(const struct memory_heap *heap, uint32_t line, unsigned order)
{
    const uint32_t other = memory_heap_other_half(line, order);
    return order + 1 < MEMORY_ORDERS && other < heap->n_lines &&
           memory_heap_kind(heap, other) == MEMORY_LINE_FREE &&
           memory_heap_order_of(heap, other) == order;
}

/* Merges the block at @line with its buddy, which is free. Returns the first line of both. */
static uint32_t join(struct memory_heap *heap, uint32_t line, unsigned order)
{
    const uint32_t other = memory_heap_other_half(line, order);
    unlink_free(heap, other, order);
    set_tag(heap, line, MEMORY_LINE_INSIDE, 0);
    set_tag(heap, other, MEMORY_LINE_INSIDE, 0);
    return line & other;
}

void memory_heap_init(struct memory_heap *heap, void *memory, size_t bytes)
{
    size_t n_lines = bytes / (MEMORY_LINE_BYTES + 1);
    n_lines = n_lines < MEMORY_NO_LINE ? n_lines : MEMORY_NO_LINE;
    *heap = (struct memory_heap){
        .lines = memory,
        .tags = (uint8_t *)memory + n_lines * MEMORY_LINE_BYTES,
        .n_lines = (uint32_t)n_lines,
    };
    /* The largest blocks come first, so each starts at a multiple of its length. */
    uint32_t line = 0;
    for (unsigned order = MEMORY_ORDERS; order-- > 0;) {
        while (heap->n_lines - line >= lines_of(order)) {
            push(heap, line, order);
            line += lines_of(order);
        }
    }
}

unsigned memory_heap_order(size_t bytes)
{
    const size_t last_line = (bytes - 1) / MEMORY_LINE_BYTES;
    return last_line == 0 ? 0 : 64 - (unsigned)__builtin_clzll(last_line);
}

uint32_t memory_heap_take(struct memory_heap *heap, unsigned order)
{
    const uint32_t fit = order < MEMORY_ORDERS ? heap->free_orders >> order : 0;
    if (fit == 0) {
        return MEMORY_NO_LINE;
    }
    unsigned found = order + (unsigned)__builtin_ctz(fit);
    const uint32_t line = heap->free[found];
    unlink_free(heap, line, found);
    while (found > order) {
        found--;
        push(heap, line + lines_of(found), found);
    }
    set_tag(heap, line, MEMORY_LINE_TAKEN, order);
    heap->n_taken += lines_of(order);
    return line;
}

void memory_heap_give(struct memory_heap *heap, uint32_t line)
{
    const enum memory_line kind = memory_heap_kind(heap, line);
    unsigned order = memory_heap_order_of(heap, line);
    assert(kind == MEMORY_LINE_TAKEN || kind == MEMORY_LINE_HELD);

    heap->n_taken -= kind == MEMORY_LINE_TAKEN ? lines_of(order) : 0;
    while (other_half_is_free(heap, line, order)) {
        line = join(heap, line, order);
        order++;
    }
    push(heap, line, order);
}

uint32_t memory_heap_extend(struct memory_heap *heap, uint32_t line)
{
    const unsigned order = memory_heap_order_of(heap, line);
    if (!other_half_is_free(heap, line, order)) {
        return MEMORY_NO_LINE;
    }
    line = join(heap, line, order);
    set_tag(heap, line, MEMORY_LINE_TAKEN, order + 1);
    heap->n_taken += lines_of(order);
    return line;
}

void memory_heap_hold(struct memory_heap *heap, uint32_t line)
{
    const unsigned order = memory_heap_order_of(heap, line);
    if (memory_heap_kind(heap, line) == MEMORY_LINE_FREE) {
        unlink_free(heap, line, order);
    } else {
        heap->n_taken -= lines_of(order);
    }
    set_tag(heap, line, MEMORY_LINE_HELD, order);
}

uint32_t memory_heap_block_at(const struct memory_heap *heap, uint32_t line)
{
    for (unsigned order = 0; memory_heap_kind(heap, line) == MEMORY_LINE_INSIDE; order++) {
        line &= ~lines_of(order); /* blocks start at multiples of their length */
    }
    return line;
}
