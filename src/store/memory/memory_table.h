/* The hash table of one shard of the embedded store: states in a memory area of fixed size.
 *
 * A state of up to 24 bytes takes one cache line, with its header. A larger one takes a block of
 * 2^n lines; a log grows by moving to a larger block. A state is untouched if it equals a new
 * state. If there is no room, the untouched states of a sample are dropped, or else the one that is
 * untouched soonest among those of the limit that has most lines. A state that denies a client is
 * never dropped, so an attacker with many keys cannot evict a denial, or states of another limit
 * that has less. Not thread-safe: the caller holds a lock. */

#ifndef SLUICE_STORE_MEMORY_MEMORY_TABLE_H
#define SLUICE_STORE_MEMORY_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "store/memory/memory_heap.h"

/* The limits that have states are told apart up to this number; more share groups. */
enum { MEMORY_GROUPS = 256 };

enum memory_use {
    MEMORY_USED,
    MEMORY_PINNED, /* in use by a decision: must not be dropped or moved to make room */
};

/* One state, at the start of its block. */
struct memory_slot {
    struct hash128 hash;
    uint32_t next;            /* in its chain: line + 1; 0: none */
    uint8_t use;              /* enum memory_use */
    bool is_kept;             /* dropped only when it is untouched: many keys share it */
    uint8_t order;            /* of its block */
    uint8_t group;            /* the index of its limit's */
    uint64_t untouched_at_us; /* from then on it equals a new state */
    uint64_t denies_until_us; /* until then it denies a client, or has slots in use */
    uint64_t state[];         /* of the algorithm; all zero: untouched */
};

struct memory_table {
    uint32_t *group_limits;  /* of each of MEMORY_GROUPS: 32 bits of its limit's identity */
    uint32_t *n_group_lines; /* lines of its states; 0: any limit may take the group */
    uint32_t *heads;         /* first of each chain */
    uint32_t n_heads;        /* a power of two */
    struct memory_heap heap;
    uint32_t n_slots;     /* used */
    uint32_t n_reserved;  /* lines reserved for slots that are kept */
    uint32_t hand;        /* the line examined last in the search for states to drop */
    uint32_t ahead;       /* the line that is examined a sample later */
    uint32_t stride;      /* lines from one examined line to the next */
    bool was_in_vain;     /* the latest search for one line found nothing to drop */
    unsigned vain_order;  /* order of the latest search for a region that found none */
    uint64_t vain_at_us;  /* time of that search */
    uint64_t n_evictions; /* states dropped before they were untouched again */
};

/* Initializes @table in @bytes at @memory, which must be zero and aligned to a cache line, and stay
 * owned by the caller. Unused memory is not written to. */
void memory_table_init(struct memory_table *table, void *memory, size_t bytes);

/* Prefetches the memory that memory_table_find() reads first. Safe without the lock. */
static inline void memory_table_prefetch(const struct memory_table *table, struct hash128 hash)
{
    __builtin_prefetch(&table->heads[hash.low & (table->n_heads - 1)]);
}

/* The slot of @hash, or NULL. */
struct memory_slot *memory_table_find(struct memory_table *table, struct hash128 hash);

/* A request for memory of a shard. */
struct memory_need {
    size_t state_bytes;
    uint64_t now_us;
    bool is_kept;   /* as in the slot; if true, reserved lines may be used */
    uint64_t limit; /* identifies the limit that the state is of */
};

/* Adds a slot for @hash, which has none, with its state all zero. NULL: no room. In both cases,
 * slots that are not pinned may have been dropped or moved. */
MUST_USE struct memory_slot *memory_table_add(struct memory_table *table, struct hash128 hash,
                                              const struct memory_need *need);

/* Enlarges @slot's state by moving the slot; the new bytes are zero. Returns the new slot. NULL: no
 * room, and @slot is unchanged. In both cases, other slots that are not pinned may have been
 * dropped or moved. */
MUST_USE struct memory_slot *memory_table_grow(struct memory_table *table, struct memory_slot *slot,
                                               const struct memory_need *need);

/* Removes @slot and frees its block. */
void memory_table_remove(struct memory_table *table, struct memory_slot *slot);

/* The first line of @slot's block. */
static inline uint32_t memory_table_line(const struct memory_table *table,
                                         const struct memory_slot *slot)
{
    return (uint32_t)((size_t)((const char *)slot - table->heap.lines) / MEMORY_LINE_BYTES);
}

static inline struct memory_slot *memory_table_slot(const struct memory_table *table, uint32_t line)
{
    return memory_heap_bytes(&table->heap, line);
}

/* The capacity of @slot's state in bytes. */
static inline size_t memory_slot_state_bytes(const struct memory_slot *slot)
{
    return ((size_t)MEMORY_LINE_BYTES << slot->order) - sizeof(*slot);
}

/* Moves @slot to the block at @line, which was taken for it or extended. The old block stays
 * taken. */
struct memory_slot *memory_table_move(struct memory_table *table, struct memory_slot *slot,
                                      uint32_t line);

/* --- room in a full shard, for memory_table.c: see memory_room.c --- */

/* Initializes the search for states to drop. The heap must be initialized. */
void memory_room_init(struct memory_table *table);

/* Takes a block for a slot with a state of @need in @group. Its contents are undefined.
 * MEMORY_NO_LINE: that would drop states that deny a client or are pinned. */
MUST_USE uint32_t memory_room_take(struct memory_table *table, const struct memory_need *need,
                                   uint8_t group);

struct memory_extent {
    uint32_t line;    /* MEMORY_NO_LINE: none */
    bool is_extended; /* it is the old block merged with its buddy */
};

/* As memory_room_take(), for a pinned slot in the block at @line that needs a larger block. */
MUST_USE struct memory_extent memory_room_grow(struct memory_table *table, uint32_t line,
                                               const struct memory_need *need);

#endif /* SLUICE_STORE_MEMORY_MEMORY_TABLE_H */
