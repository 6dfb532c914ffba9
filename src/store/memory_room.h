/* Room in a shard that is full: what is dropped for it, and what is moved aside. */

#ifndef SLUICE_STORE_MEMORY_ROOM_H
#define SLUICE_STORE_MEMORY_ROOM_H

#include <stdint.h>

#include "base/compiler.h"
#include "store/memory_table.h"

/* A block for a slot with a state of @need, taken, with undefined contents. MEMORY_NO_LINE when none
 * can be had without dropping what denies, or is pinned. */
MUST_USE uint32_t memory_room_take(struct memory_table *table, const struct memory_need *need);

#endif /* SLUICE_STORE_MEMORY_ROOM_H */
