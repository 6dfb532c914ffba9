/* The shards of the embedded store: a table, a lock and counters each. Shared by its files. */

#ifndef SLUICE_STORE_MEMORY_MEMORY_SHARD_H
#define SLUICE_STORE_MEMORY_MEMORY_SHARD_H

#include <pthread.h>
#include <stdint.h>

#include "base/hash.h"
#include "limit/judge.h"
#include "limit/limit.h"
#include "store/memory/memory_clock.h"
#include "store/memory/memory_table.h"
#include "store/memory_store.h"

enum {
    /* A decision has a 64-bit set of the shards it needs. */
    MEMORY_SHARDS_MAX = 64,
    MEMORY_SHARDS_MIN = 8,
    /* More than the minimum of shards are used only if each gets at least this size: the log of a
     * busy key must fit in a shard. */
    MEMORY_SHARD_BYTES_MIN = 8 * 1024 * 1024,
};

/* Two cache lines, so that neighbours do not share one. */
struct memory_shard {
    _Alignas(128) pthread_mutex_t lock;
    struct memory_table table;
    uint64_t n_overflows;
};

struct memory_shards {
    struct memory_shard shards[MEMORY_SHARDS_MAX];
    unsigned n_shards; /* a power of two */
    enum memory_full full;
    /* Judged for keys without a state; never written to. */
    uint64_t untouched[LIMIT_STATE_BYTES_MAX / sizeof(uint64_t)];
};

/* The key of the state that keys without room share: no charge has it. */
#define MEMORY_SHARED_KEY SPAN("")

/* The hash of (key, @limit), where @who is the key's hash_shared(). Key hashes are secret, so a
 * client cannot choose keys of two limits that collide. */
static inline struct hash128 memory_shards_hash(struct hash128 who, const struct limit *limit)
{
    return (struct hash128){.low = who.low ^ limit->id.low, .high = who.high ^ limit->id.high};
}

/* The number of the shard for @hash. */
static inline unsigned memory_shards_number(const struct memory_shards *shards, struct hash128 hash)
{
    return (unsigned)hash.high & (shards->n_shards - 1);
}

/* The time by which @limit is judged. */
static inline uint64_t memory_time_for(const struct memory_time *time, const struct limit *limit)
{
    return limit_follows_wall_clock(limit) ? time->wall_us : time->state_us;
}

/* @time, capped at the latest time that can be judged. */
static inline struct memory_time memory_time_cut(struct memory_time time)
{
    return (struct memory_time){
        .state_us = time.state_us < LIMIT_NOW_MAX ? time.state_us : LIMIT_NOW_MAX,
        .wall_us = time.wall_us < LIMIT_NOW_MAX ? time.wall_us : LIMIT_NOW_MAX,
    };
}

/* Sets untouched_at_us and denies_until_us of @slot from @verdict at @now_us. @now_us is state time
 * for all limits, since these members decide which states are dropped. A later smaller request that
 * is allowed does not shorten denies_until_us. States with concurrency slots in use count as
 * denying until they are unused: requests in flight hold the slots. */
void memory_slot_date(struct memory_slot *slot, const struct limit *limit,
                      const struct verdict *verdict, uint64_t now_us);

/* Judges @decision at @now under the locks of its shards, charges it as its aim says, and fills its
 * answer. */
void memory_decision_make(struct memory_shards *shards, struct decision *decision,
                          struct memory_time now);

#endif /* SLUICE_STORE_MEMORY_MEMORY_SHARD_H */
