/* One decision in the embedded store.
 *
 * lock the shards it needs, in ascending order ─► find the states ─► judge ─► room for the states
 * that are missing, or must grow ─► charge ─► unlock
 *
 * A denied decision adds states only for limits that count denied requests. If no room can be made,
 * the policy's `when_full` applies: the decision is judged again with the state that all such keys
 * of the limit share in that shard, or it is refused, or the charge is not counted. */

#include <assert.h>

#include "base/limits.h"
#include "limit/judge.h"
#include "limit/limit.h"
#include "store/memory/memory_shard.h"

/* One charge while its shard is locked. */
struct holding {
    struct memory_shard *shard;
    struct hash128 hash;
    struct memory_slot *slot; /* NULL: the key has no state */
    bool is_shared;           /* slot is the one that all keys without room share */
    bool is_uncounted;        /* there is no room, and the charge is not counted */
};

struct work {
    struct memory_shards *shards;
    struct charge *charges; /* the decision's */
    size_t n_charges;
    struct memory_time now;
    struct holding holdings[LIMITS_PER_ROUTE_MAX]; /* same indices as charges */
    struct judged judged[LIMITS_PER_ROUTE_MAX];    /* same indices as charges */
};

/* Returns the set of shards that are needed. */
static uint64_t find_shards(struct work *work)
{
    uint64_t needed = 0;
    for (size_t i = 0; i < work->n_charges; i++) {
        struct holding *holding = &work->holdings[i];
        const struct hash128 who = charges_keep_hash(work->charges, i);
        holding->hash = memory_shards_hash(who, work->charges[i].limit);
        const unsigned number = memory_shards_number(work->shards, holding->hash);
        holding->shard = &work->shards->shards[number];
        holding->is_shared = false;
        holding->is_uncounted = false;
        memory_table_prefetch(&holding->shard->table, holding->hash);
        needed |= UINT64_C(1) << number;
    }
    return needed;
}

static void lock(struct memory_shards *shards, uint64_t needed)
{
    for (; needed != 0; needed &= needed - 1) {
        pthread_mutex_lock(&shards->shards[__builtin_ctzll(needed)].lock);
    }
}

static void unlock(struct memory_shards *shards, uint64_t needed)
{
    for (; needed != 0; needed &= needed - 1) {
        pthread_mutex_unlock(&shards->shards[__builtin_ctzll(needed)].lock);
    }
}

/* Judges charge @i by the state in @slot; NULL: the key has none. */
static void hold(struct work *work, size_t i, struct memory_slot *slot)
{
    work->holdings[i].slot = slot;
    work->judged[i].state = slot != NULL ? slot->state : work->shards->untouched;
}

static void find_states(struct work *work)
{
    for (size_t i = 0; i < work->n_charges; i++) {
        struct charge *charge = &work->charges[i];
        const struct holding *holding = &work->holdings[i];
        struct judged *judged = &work->judged[i];
        hold(work, i, memory_table_find(&holding->shard->table, holding->hash));
        judged->limit = charge->limit;
        judged->verdict = &charge->verdict;
        judged->call.now = limit_ticks(charge->limit, memory_time_for(&work->now, charge->limit));
        judged->call.cost = charge->cost;
        judged->call.to_full = false;
        judged->call.edges = charge->edges;
        judged->call.slot = charge->slot;
    }
}

/* --- room for the charges --- */

static size_t needed_bytes(const struct memory_slot *slot, const struct judged *judged)
{
    return judged->limit->algorithm->state_bytes(slot != NULL ? slot->state : NULL,
                                                 &judged->limit->params, &judged->call);
}

static bool has_room(const struct memory_slot *slot, const struct judged *judged)
{
    return slot != NULL && needed_bytes(slot, judged) <= memory_slot_state_bytes(slot);
}

static bool lacks_room(const struct work *work, size_t i, bool allowed)
{
    return judge_takes(&work->judged[i], allowed) &&
           !has_room(work->holdings[i].slot, &work->judged[i]);
}

static bool any_lacks_room(const struct work *work, bool allowed)
{
    for (size_t i = 0; i < work->n_charges; i++) {
        if (lacks_room(work, i, allowed)) {
            return true;
        }
    }
    return false;
}

static void set_use(struct work *work, enum memory_use use)
{
    for (size_t i = 0; i < work->n_charges; i++) {
        if (work->holdings[i].slot != NULL) {
            work->holdings[i].slot->use = (uint8_t)use;
        }
    }
}

/* Makes a slot (@slot is NULL) or grows @slot as charge @i needs. NULL: there is no room. */
static struct memory_slot *make_room(const struct work *work, size_t i, struct hash128 hash,
                                     struct memory_slot *slot, bool is_kept)
{
    const struct judged *judged = &work->judged[i];
    struct memory_table *table = &work->holdings[i].shard->table;
    const struct memory_need need = {
        .state_bytes = needed_bytes(slot, judged),
        .now_us = work->now.state_us,
        .is_kept = is_kept,
        .limit = judged->limit->id.low,
    };
    if (slot == NULL) {
        return memory_table_add(table, hash, &need);
    }
    return has_room(slot, judged) ? slot : memory_table_grow(table, slot, &need);
}

/* Uses for charge @i the state that all keys without room share. Two charges may share it. */
static bool share(struct work *work, size_t i)
{
    struct holding *holding = &work->holdings[i];
    const struct hash128 hash =
        memory_shards_hash(hash_shared(MEMORY_SHARED_KEY), work->charges[i].limit);
    struct memory_slot *slot = memory_table_find(&holding->shard->table, hash);
    struct memory_slot *shared = make_room(work, i, hash, slot, true);
    if (shared == NULL) {
        return false;
    }
    for (size_t j = 0; j < work->n_charges; j++) {
        if (slot != NULL && work->holdings[j].slot == slot) {
            hold(work, j, shared);
        }
    }
    if (holding->slot != NULL) {
        holding->slot->use = MEMORY_USED; /* its own, which could not grow */
    }
    hold(work, i, shared);
    shared->use = MEMORY_PINNED;
    holding->is_shared = true;
    return true;
}

enum places {
    PLACES_OWN,    /* each charge has its own state, or is not counted */
    PLACES_SHARED, /* some charges now use a shared state: judge again */
    PLACES_NONE,   /* some have no state, and the policy refuses them */
};

static enum places find_place(struct work *work, size_t i, bool allowed)
{
    struct holding *holding = &work->holdings[i];
    struct memory_slot *slot = make_room(work, i, holding->hash, holding->slot, false);
    if (slot != NULL) {
        hold(work, i, slot);
        slot->use = MEMORY_PINNED;
        return PLACES_OWN;
    }
    holding->shard->n_overflows++;
    if (!allowed || work->shards->full == MEMORY_FULL_ALLOW) {
        holding->is_uncounted = true;
        return PLACES_OWN;
    }
    if (work->shards->full == MEMORY_FULL_OVERFLOW && share(work, i)) {
        return PLACES_SHARED;
    }
    return PLACES_NONE;
}

static enum places find_places(struct work *work, bool allowed)
{
    enum places places = PLACES_OWN;
    set_use(work, MEMORY_PINNED);
    for (size_t i = 0; i < work->n_charges && places != PLACES_NONE; i++) {
        if (lacks_room(work, i, allowed)) {
            const enum places place = find_place(work, i, allowed);
            places = place > places ? place : places;
        }
    }
    set_use(work, MEMORY_USED);
    return places;
}

/* --- the result --- */

static uint64_t later(uint64_t now_us, const struct limit *limit, uint64_t ticks)
{
    const uint64_t us = limit_us(limit, ticks);
    return us < UINT64_MAX - now_us ? now_us + us : UINT64_MAX;
}

static void deny_until(struct memory_slot *slot, uint64_t until_us)
{
    if (until_us > slot->denies_until_us) {
        slot->denies_until_us = until_us;
    }
}

void memory_slot_date(struct memory_slot *slot, const struct limit *limit,
                      const struct verdict *verdict, uint64_t now_us)
{
    slot->untouched_at_us = later(now_us, limit, verdict->reset_after);
    if (verdict->remaining == 0) {
        deny_until(slot, later(now_us, limit, verdict->next_after));
    }
    if (!verdict->allowed && verdict->retry_after < RETRY_UNKNOWN) {
        deny_until(slot, later(now_us, limit, verdict->retry_after));
    }
    if (limit->algorithm->has_slots) {
        deny_until(slot, slot->untouched_at_us); /* requests in flight hold the slots */
    }
    /* The clock may have been set back, or a charge returned. */
    if (slot->denies_until_us > slot->untouched_at_us) {
        slot->denies_until_us = slot->untouched_at_us;
    }
}

/* Whether charge @i is made. If two charges share a state, it may lack room for both. */
static bool is_taken(const struct work *work, size_t i)
{
    const struct holding *holding = &work->holdings[i];
    return !holding->is_uncounted &&
           (!holding->is_shared || has_room(holding->slot, &work->judged[i]));
}

static void conclude(struct work *work, bool allowed)
{
    for (size_t i = 0; i < work->n_charges; i++) {
        const struct holding *holding = &work->holdings[i];
        struct judged *judged = &work->judged[i];
        const bool wants = judge_takes(judged, allowed);
        const bool takes = wants && is_taken(work, i);
        if (takes || (!wants && holding->slot != NULL)) {
            judge_conclude(judged, allowed);
            memory_slot_date(holding->slot, judged->limit, judged->verdict, work->now.state_us);
        } else {
            judge_report(judged);
        }
        work->charges[i].charged = judged->charged;
        work->charges[i].charged_at_us = limit_charged_at_us(
            judged->limit, memory_time_for(&work->now, judged->limit), judged->charged_at);
        work->charges[i].overflowed = holding->is_shared;
    }
}

/* Fills the answer of DECISION_JUDGE. */
static void report(struct work *work)
{
    for (size_t i = 0; i < work->n_charges; i++) {
        judge_report(&work->judged[i]);
        work->charges[i].charged = false;
        work->charges[i].charged_at_us = memory_time_for(&work->now, work->charges[i].limit);
    }
}

static enum status decide(struct work *work, enum decision_aim aim, bool *allowed)
{
    find_states(work);
    enum status status = judge_evaluate(work->judged, work->n_charges, allowed);
    if (status == STATUS_OK && aim == DECISION_JUDGE) {
        report(work);
        return STATUS_OK;
    }
    *allowed = *allowed && aim != DECISION_DENY;
    if (status == STATUS_OK && any_lacks_room(work, *allowed)) {
        switch (find_places(work, *allowed)) {
        case PLACES_OWN:
            break;
        case PLACES_SHARED:
            status = judge_evaluate(work->judged, work->n_charges, allowed);
            *allowed = *allowed && aim != DECISION_DENY;
            break;
        case PLACES_NONE:
            status = STATUS_FULL;
            break;
        }
    }
    if (status == STATUS_OK) {
        conclude(work, *allowed);
    }
    return status;
}

void memory_decision_make(struct memory_shards *shards, struct decision *decision,
                          struct memory_time now)
{
    struct work work; /* large, so not cleared: find_shards() and find_states() fill it */
    work.shards = shards;
    work.charges = decision->charges;
    work.n_charges = decision->n_charges;
    work.now = memory_time_cut(now);
    const uint64_t needed = find_shards(&work);

    lock(shards, needed);
    decision->status = decide(&work, decision->aim, &decision->allowed);
    unlock(shards, needed);
    decision->source = DECISION_MEMORY;
}
