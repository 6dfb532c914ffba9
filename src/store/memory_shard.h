/* A shard: one table, its lock, its counters. What the files of the embedded store share. */

#ifndef SLUICE_STORE_MEMORY_SHARD_H
#define SLUICE_STORE_MEMORY_SHARD_H

#include <pthread.h>
#include <stdint.h>

#include "base/hash.h"
#include "limit/judge.h"
#include "limit/limit.h"
#include "store/memory_clock.h"
#include "store/memory_store.h"
#include "store/memory_table.h"

enum {
    /* One bit each in a word: which of them a decision needs. */
    MEMORY_SHARDS_MAX = 64,
    MEMORY_SHARDS_MIN = 8,
    /* There are fewer rather than that one is smaller: the log of a busy key must fit in it. */
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
    uint64_t
        untouched[LIMIT_STATE_BYTES_MAX / sizeof(uint64_t)]; /* what is judged where there is no
                                                                   * state; never written to */
};

/* The key of the state which keys without room share: no charge has it. */
#define MEMORY_SHARED_KEY SPAN("")

/* What a key is found by whose hash_shared() is @who, in @limit. Nobody outside knows by what the
 * hashes of two keys differ, so that nobody can choose keys of two limits that meet. */
static inline struct hash128 memory_shards_hash(struct hash128 who, const struct limit *limit)
{
    return (struct hash128){.low = who.low ^ limit->id.low, .high = who.high ^ limit->id.high};
}

/* Which shard that is in. */
static inline unsigned memory_shards_number(const struct memory_shards *shards, struct hash128 hash)
{
    return (unsigned)hash.high & (shards->n_shards - 1);
}

/* The time by which @limit is judged. */
static inline uint64_t memory_time_for(const struct memory_time *time, const struct limit *limit)
{
    return limit_follows_wall_clock(limit) ? time->wall_us : time->state_us;
}

/* @time, no later than can be judged. */
static inline struct memory_time memory_time_cut(struct memory_time time)
{
    return (struct memory_time){
        .state_us = time.state_us < LIMIT_NOW_MAX ? time.state_us : LIMIT_NOW_MAX,
        .wall_us = time.wall_us < LIMIT_NOW_MAX ? time.wall_us : LIMIT_NOW_MAX,
    };
}

/* Note when @slot is untouched again, and until when it keeps somebody waiting, as @verdict says at
 * @now_us. That is state time for all limits, since it decides what makes room. A client that was
 * told to wait is waiting, whatever smaller request passes meanwhile. */
void memory_slot_date(struct memory_slot *slot, const struct limit *limit,
                      const struct verdict *verdict, uint64_t now_us);

/* Judge @decision at @now under the locks of its shards, charge it if it passes, and fill its
 * answer. */
void memory_decision_make(struct memory_shards *shards, struct decision *decision,
                          struct memory_time now);

/* Correct at @now what was charged, if it is still known. */
void memory_settlement_make(struct memory_shards *shards, const struct settlement *settlement,
                            struct memory_time now);

/* Forget the state that @key has of its own in @limit. */
void memory_reset_make(struct memory_shards *shards, const struct limit *limit, struct span key);

#endif /* SLUICE_STORE_MEMORY_SHARD_H */
