/* A shard: one table, its lock, its counters. What memory_store.c and memory_decision.c share. */

#ifndef SLUICE_STORE_MEMORY_SHARD_H
#define SLUICE_STORE_MEMORY_SHARD_H

#include <pthread.h>
#include <stdint.h>

#include "base/hash.h"
#include "store/memory_store.h"
#include "store/memory_table.h"

/* One bit each in a word: which of them a decision needs. */
enum { MEMORY_SHARDS = 64 };

/* Two cache lines, so that neighbours do not share one. */
struct memory_shard {
    _Alignas(128) pthread_mutex_t lock;
    struct memory_table table;
    uint64_t n_overflows;
};

struct memory_shards {
    struct memory_shard shards[MEMORY_SHARDS];
    struct hash_key key; /* random per process, so that nobody outside can choose what collides */
    enum memory_full full;
};

/* Judge @decision at @now_us under the locks of its shards, charge it if it passes, and fill its
 * answer. */
void memory_decision_make(struct memory_shards *shards, struct decision *decision, uint64_t now_us);

#endif /* SLUICE_STORE_MEMORY_SHARD_H */
