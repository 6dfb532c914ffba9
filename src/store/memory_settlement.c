/* A correction in the embedded store, or a reset: of a state that is still there,
 * under the lock of its shard.
 *
 * What was dropped meanwhile needs none. What found no room is corrected where it was charged: in
 * the state that all such keys share. */

#include "limit/judge.h"
#include "limit/limit.h"
#include "store/memory_shard.h"

/* Bytes of a bucket's state that can be settled. */
static size_t bucket_bytes(const struct limit *limit)
{
    const struct limit_call ask = {.cost = 0};
    return limit->algorithm->has_burst ? limit->algorithm->state_bytes(NULL, &limit->params, &ask)
                                       : 0;
}

static void correct(struct memory_slot *slot, const struct settlement *settlement, uint64_t now)
{
    const struct limit *limit = settlement->limit;
    const struct algorithm *algorithm = limit->algorithm;
    struct limit_params params = limit->params;
    /* The state may have been made anew under a policy that settles nothing. */
    params.settles = params.settles && memory_slot_state_bytes(slot) >= bucket_bytes(limit);
    switch (settlement->kind) {
    case SETTLE_COST:
        if (algorithm->settle != NULL) {
            algorithm->settle(slot->state, &params, limit_ticks(limit, settlement->charged_at_us),
                              now, settlement->delta);
        }
        break;
    case SETTLE_RELEASE:
        if (algorithm->release != NULL) {
            algorithm->release(slot->state, &limit->params, now, settlement->slot);
        }
        break;
    case SETTLE_RENEW:
        if (algorithm->renew != NULL) {
            algorithm->renew(slot->state, &limit->params, now, settlement->slot);
        }
        break;
    }
}

static void date(struct memory_slot *slot, const struct limit *limit, const struct memory_time *now)
{
    if (limit->params.is_calendar) {
        return; /* a window ends when it ends, whatever is taken in it */
    }
    const struct limit_call call = limit_call_at(limit, memory_time_for(now, limit), 0);
    struct verdict verdict;
    algorithm_evaluate(limit->algorithm, slot->state, &limit->params, &call, &verdict);
    memory_slot_date(slot, limit, &verdict, now->state_us);
}

void memory_settlement_make(struct memory_shards *shards, const struct settlement *settlement,
                            struct memory_time now)
{
    const struct limit *limit = settlement->limit;
    const struct hash128 own = memory_shards_hash(hash_shared(settlement->key), limit);
    const struct hash128 charged =
        settlement->overflowed ? memory_shards_hash(hash_shared(MEMORY_SHARED_KEY), limit) : own;
    struct memory_shard *shard = &shards->shards[memory_shards_number(shards, own)];
    now = memory_time_cut(now);

    pthread_mutex_lock(&shard->lock);
    struct memory_slot *slot = memory_table_find(&shard->table, charged);
    if (slot != NULL) {
        correct(slot, settlement, limit_ticks(limit, memory_time_for(&now, limit)));
        date(slot, limit, &now);
    }
    pthread_mutex_unlock(&shard->lock);
}

void memory_reset_make(struct memory_shards *shards, const struct limit *limit, struct span key)
{
    const struct hash128 hash = memory_shards_hash(hash_shared(key), limit);
    struct memory_shard *shard = &shards->shards[memory_shards_number(shards, hash)];

    pthread_mutex_lock(&shard->lock);
    struct memory_slot *slot = memory_table_find(&shard->table, hash);
    if (slot != NULL) {
        memory_table_remove(&shard->table, slot);
    }
    pthread_mutex_unlock(&shard->lock);
}
