/* Room in a shard that is full: what is dropped for it, and what is moved aside. */

#ifndef SLUICE_STORE_MEMORY_ROOM_H
#define SLUICE_STORE_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "store/memory_table.h"

/* Make ready to look for what to drop; the heap is laid out. */
void memory_room_init(struct memory_table *table);

/* A block for a slot with a state of @need, taken, with undefined contents. MEMORY_NO_LINE when
 * none can be had without dropping what denies, or is pinned. */
MUST_USE uint32_t memory_room_take(struct memory_table *table, const struct memory_need *need);

struct memory_place {
    uint32_t line;    /* MEMORY_NO_LINE: none */
    bool is_extended; /* it is the block there was, and its other half */
};

/* The same for a slot that has the block at @line, which is pinned and must have a larger one. */
MUST_USE struct memory_place memory_room_grow(struct memory_table *table, uint32_t line,
                                              const struct memory_need *need);

#endif /* SLUICE_STORE_MEMORY_ROOM_H */
