/* One shard of the embedded store: a hash table of states in a fixed piece of memory.
 *
 * A state of up to 24 bytes is one cache line with what is known of it, a larger one a block of 2^n
 * lines; logs grow by moving to a larger block. When there is no room, what is untouched again is
 * dropped, else what of a sample is nearest to that, and never what is denying somebody: an
 * attacker with many keys cannot wash out his own denial. Not safe between threads: the owner holds
 * a lock. */

#ifndef SLUICE_STORE_MEMORY_TABLE_H
#define SLUICE_STORE_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "store/memory_heap.h"

enum memory_use {
    MEMORY_USED,
    MEMORY_PINNED, /* a decision is at work on it: not to be dropped or moved by another's need */
};

/* One state, at the start of its block. */
struct memory_slot {
    struct hash128 hash;
    uint32_t next;            /* in its chain: number from 1; 0: none */
    uint8_t use;              /* enum memory_use */
    bool is_kept;             /* dropped only when it is untouched: many keys share it */
    uint16_t order;           /* of its block */
    uint64_t untouched_at_us; /* from then on it is the same as no state */
    uint64_t denies_until_us; /* until then it has somebody waiting */
    uint64_t state[];         /* the algorithm's; all zero is untouched */
};

struct memory_table {
    uint32_t *heads;  /* first of each chain */
    uint32_t n_heads; /* a power of two */
    struct memory_heap heap;
    uint32_t n_slots;    /* used */
    uint32_t n_reserved; /* lines, for those that are kept */
    uint32_t hand;       /* the line looked at last for something to drop */
    uint32_t ahead;      /* the line that will be looked at a sample later */
    uint32_t stride;     /* lines from one look to the next */
    bool was_in_vain;    /* the latest search for a line to drop */
    unsigned vain_order; /* of the latest large block that no room could be made for */
    uint64_t vain_at_us;
    uint64_t n_evictions; /* states dropped before they were untouched again */
};

/* Lay the table out in @bytes at @memory, which are zero, aligned for a cache line and stay the
 * caller's. Only what is used is written to. */
void memory_table_init(struct memory_table *table, void *memory, size_t bytes);

/* Ask for what memory_table_find() will look at first. Safe without the lock. */
static inline void memory_table_prefetch(const struct memory_table *table, struct hash128 hash)
{
    __builtin_prefetch(&table->heads[hash.low & (table->n_heads - 1)]);
}

/* The slot of @hash, or NULL. */
struct memory_slot *memory_table_find(struct memory_table *table, struct hash128 hash);

/* What of a shard's memory may be taken, and at the cost of what. */
struct memory_need {
    size_t state_bytes;
    uint64_t now_us;
    bool is_kept; /* as in the slot; the last few lines are for such */
};

/* A new slot for @hash, which has none, with its state all zero; drops others if it must. NULL when
 * nothing can go. Slots that are not pinned may have been dropped, or moved, then too. */
MUST_USE struct memory_slot *memory_table_add(struct memory_table *table, struct hash128 hash,
                                              const struct memory_need *need);

/* Give @slot's state more bytes, zero, by moving it: where it is from now on, or NULL, and then it
 * stays as it is. Of the others as above. */
MUST_USE struct memory_slot *memory_table_grow(struct memory_table *table, struct memory_slot *slot,
                                               const struct memory_need *need);

/* Give @slot back. */
void memory_table_remove(struct memory_table *table, struct memory_slot *slot);

/* Where @slot's block starts. */
static inline uint32_t memory_table_line(const struct memory_table *table,
                                         const struct memory_slot *slot)
{
    return (uint32_t)((size_t)((const char *)slot - table->heap.lines) / MEMORY_LINE_BYTES);
}

static inline struct memory_slot *memory_table_slot(const struct memory_table *table, uint32_t line)
{
    return memory_heap_bytes(&table->heap, line);
}

/* Bytes of @slot's state. */
static inline size_t memory_slot_state_bytes(const struct memory_slot *slot)
{
    return ((size_t)MEMORY_LINE_BYTES << slot->order) - sizeof(*slot);
}

/* Let @slot live at @line, a block that was taken for it, or extended. A block that it leaves is
 * still taken. */
struct memory_slot *memory_table_move(struct memory_table *table, struct memory_slot *slot,
                                      uint32_t line);

#endif /* SLUICE_STORE_MEMORY_TABLE_H */
