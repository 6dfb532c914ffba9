/* One shard of the embedded store: a hash table of states in a fixed piece of memory.
 *
 * When it is full it drops what is untouched again, else what of a sample is nearest to that, and
 * never what is denying somebody: an attacker with many keys cannot wash out his own denial. Not safe
 * between threads: the owner holds a lock. */

#ifndef SLUICE_STORE_MEMORY_TABLE_H
#define SLUICE_STORE_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"

enum {
    MEMORY_STATE_WORDS = 3,
    MEMORY_SAMPLE = 16,   /* slots looked at to find which to drop */
    MEMORY_SCAN_MAX = 64, /* and at most, while all of them are denying */
};

enum memory_use {
    MEMORY_FREE,
    MEMORY_TAKEN,
    MEMORY_PINNED, /* a decision is at work on it: not to be dropped */
};

/* One state: one cache line. */
struct memory_slot {
    struct hash128 hash;
    uint32_t next;            /* in its chain, or among the free ones: number from 1; 0: none */
    uint32_t use;             /* enum memory_use */
    uint64_t untouched_at_us; /* from then on it is the same as no state */
    uint64_t denies_until_us; /* until then it has somebody waiting */
    uint64_t state[MEMORY_STATE_WORDS]; /* the algorithm's; all zero is untouched */
};

struct memory_table {
    uint32_t *heads; /* first of each chain */
    struct memory_slot *slots;
    uint32_t n_heads; /* a power of two */
    uint32_t n_slots;
    uint32_t n_reserved; /* of them, for those who may use the reserve */
    uint32_t n_touched;  /* slots that were ever in use: memory beyond them was never written */
    uint32_t free;       /* first of those given back */
    uint32_t n_used;
    uint32_t hand;        /* the slot looked at last for one to drop */
    uint64_t n_evictions; /* states dropped before they were untouched again */
};

/* Lay the table out in @bytes at @memory, which are zero, aligned for a cache line and stay the
 * caller's. Only what is used is written to. */
void memory_table_init(struct memory_table *table, void *memory, size_t bytes);

/* The slot of @hash, or NULL. */
struct memory_slot *memory_table_find(struct memory_table *table, struct hash128 hash);

/* A new slot for @hash, which has none, with its state all zero; drops another if it must. NULL when
 * nothing can go. The last few slots are kept for those who @may_use_reserve. */
MUST_USE struct memory_slot *memory_table_add(struct memory_table *table, struct hash128 hash,
                                              uint64_t now_us, bool may_use_reserve);

/* Give @slot back. */
void memory_table_remove(struct memory_table *table, struct memory_slot *slot);

#endif /* SLUICE_STORE_MEMORY_TABLE_H */
