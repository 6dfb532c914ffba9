/* One decision in the embedded store.
 *
 * lock the shards it needs, in ascending order ─► find the states ─► judge ─► allowed: add the states
 * that are missing, charge ─► unlock
 *
 * A denied decision adds nothing. Where no room can be made for a state that is missing, the policy's
 * `full` says what happens: the decision is judged again with the state that all such keys of the
 * limit share in that shard, or refused, or that charge is not remembered. */

#include <assert.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "limit/limit.h"
#include "store/memory_shard.h"

/* One charge while its shard is locked. */
struct holding {
    struct charge *charge;
    struct memory_shard *shard;
    struct hash128 hash;
    struct memory_slot *slot;               /* NULL: there is none, nothing was taken */
    bool added;                             /* slot is there because of this decision alone */
    uint64_t forgotten[MEMORY_STATE_WORDS]; /* judged while there is no slot */
};

struct work {
    struct holding holdings[LIMITS_PER_ROUTE_MAX];
    size_t n_holdings;
    uint64_t now_us;
};

/* No two (limit, key) give the same text: names have no NUL and digests have one length. A state that
 * keys share has an empty one. */
static struct hash128 hash_of(const struct memory_shards *shards, const struct limit *limit,
                              struct span key)
{
    char buffer[LIMIT_DIGEST_BYTES + NAME_BYTES_MAX + 16 + 1 + KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, span_of(limit->digest, sizeof(limit->digest)));
    text_add(&text, limit->name);
    text_add_char(&text, '\0');
    text_add(&text, key);
    assert(!text.truncated);
    return hash_table(&shards->key, text_span(&text));
}

static unsigned shard_number(struct hash128 hash)
{
    return hash.high % MEMORY_SHARDS;
}

static uint64_t begin(struct work *work, struct memory_shards *shards, struct decision *decision)
{
    uint64_t needed = 0;
    work->n_holdings = decision->n_charges;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct holding *holding = &work->holdings[i];
        holding->charge = &decision->charges[i];
        holding->hash = hash_of(shards, holding->charge->limit, holding->charge->key);
        holding->shard = &shards->shards[shard_number(holding->hash)];
        holding->added = false;
        memset(holding->forgotten, 0, sizeof(holding->forgotten));
        needed |= UINT64_C(1) << shard_number(holding->hash);
        assert(holding->charge->limit->algorithm->state_bytes <= sizeof(holding->forgotten));
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

static void find(struct work *work)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        struct holding *holding = &work->holdings[i];
        holding->slot = memory_table_find(&holding->shard->table, holding->hash);
    }
}

static void *state_of(struct holding *holding)
{
    return holding->slot != NULL ? holding->slot->state : holding->forgotten;
}

static bool judge(struct work *work)
{
    bool allowed = true;
    for (size_t i = 0; i < work->n_holdings; i++) {
        struct charge *charge = work->holdings[i].charge;
        const struct limit *limit = charge->limit;
        limit->algorithm->evaluate(state_of(&work->holdings[i]), &limit->params,
                                   limit_ticks(limit, work->now_us), charge->cost,
                                   &charge->verdict);
        allowed = allowed && charge->verdict.allowed;
    }
    return allowed;
}

/* --- places for the states that are missing --- */

static bool is_missing(const struct holding *holding)
{
    return holding->slot == NULL && holding->charge->cost > 0;
}

static bool has_missing(const struct work *work)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        if (is_missing(&work->holdings[i])) {
            return true;
        }
    }
    return false;
}

static void set_use(struct work *work, enum memory_use use)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        if (work->holdings[i].slot != NULL) {
            work->holdings[i].slot->use = use;
        }
    }
}

/* The state that all keys without room share. */
static void share_slot(struct memory_shards *shards, struct holding *holding, uint64_t now_us)
{
    struct memory_table *table = &holding->shard->table;
    const struct hash128 hash = hash_of(shards, holding->charge->limit, SPAN(""));
    holding->slot = memory_table_find(table, hash);
    if (holding->slot == NULL) {
        holding->slot = memory_table_add(table, hash, now_us, true);
        holding->added = holding->slot != NULL;
    }
}

enum places {
    PLACES_OWN,    /* each charge has its own state */
    PLACES_SHARED, /* some now have a state with others: judge again */
    PLACES_NONE,   /* some have none, and the policy refuses them */
};

static enum places find_place(struct memory_shards *shards, struct holding *holding,
                              uint64_t now_us)
{
    holding->slot = memory_table_add(&holding->shard->table, holding->hash, now_us, false);
    if (holding->slot != NULL) {
        holding->added = true;
        holding->slot->use = MEMORY_PINNED;
        return PLACES_OWN;
    }
    holding->shard->n_overflows++;
    switch (shards->full) {
    case MEMORY_FULL_ALLOW:
        return PLACES_OWN;
    case MEMORY_FULL_DENY:
        return PLACES_NONE;
    case MEMORY_FULL_OVERFLOW:
        share_slot(shards, holding, now_us);
        break;
    }
    if (holding->slot == NULL) {
        return PLACES_NONE;
    }
    holding->slot->use = MEMORY_PINNED;
    return PLACES_SHARED;
}

static enum places find_places(struct memory_shards *shards, struct work *work)
{
    enum places places = PLACES_OWN;
    set_use(work, MEMORY_PINNED);
    for (size_t i = 0; i < work->n_holdings && places != PLACES_NONE; i++) {
        if (is_missing(&work->holdings[i])) {
            const enum places place = find_place(shards, &work->holdings[i], work->now_us);
            places = place > places ? place : places;
        }
    }
    set_use(work, MEMORY_TAKEN);
    return places;
}

static void remove_added(struct work *work)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        struct holding *holding = &work->holdings[i];
        if (holding->added) {
            memory_table_remove(&holding->shard->table, holding->slot);
            holding->slot = NULL;
            holding->added = false;
        }
    }
}

/* --- what comes of it --- */

static uint64_t later(uint64_t now_us, const struct limit *limit, uint64_t ticks)
{
    const uint64_t us = limit_us(limit, ticks);
    return us < UINT64_MAX - now_us ? now_us + us : UINT64_MAX;
}

static void charge_one(struct holding *holding, uint64_t now_us)
{
    struct charge *charge = holding->charge;
    const struct limit *limit = charge->limit;
    const uint64_t now = limit_ticks(limit, now_us);
    struct memory_slot *slot = holding->slot;
    struct verdict then;

    limit->algorithm->charge(state_of(holding), &limit->params, now, charge->cost);
    limit->algorithm->evaluate(state_of(holding), &limit->params, now, 0, &then);
    charge->verdict.remaining = then.remaining;
    charge->verdict.next_after = then.next_after;
    charge->verdict.reset_after = then.reset_after;
    if (slot != NULL) {
        slot->untouched_at_us = later(now_us, limit, then.reset_after);
        if (then.remaining == 0) {
            slot->denies_until_us = later(now_us, limit, then.next_after);
        }
    }
}

/* A state that denied somebody is kept until he may come back, and one that the clock left behind is
 * dated to the new time. */
static void keep_one(struct holding *holding, uint64_t now_us)
{
    const struct limit *limit = holding->charge->limit;
    const struct verdict *verdict = &holding->charge->verdict;
    struct memory_slot *slot = holding->slot;

    if (slot == NULL) {
        return;
    }
    const uint64_t now = limit_ticks(limit, now_us);
    if (limit->algorithm->is_ahead(slot->state, &limit->params, now)) {
        limit->algorithm->charge(slot->state, &limit->params, now, 0);
        slot->untouched_at_us = later(now_us, limit, verdict->reset_after);
        slot->denies_until_us = 0;
    }
    if (!verdict->allowed && verdict->retry_after != RETRY_NEVER) {
        const uint64_t until_us = later(now_us, limit, verdict->retry_after);
        if (until_us > slot->denies_until_us) {
            slot->denies_until_us = until_us;
        }
    }
}

static void conclude(struct work *work, bool allowed)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        struct holding *holding = &work->holdings[i];
        if (allowed && holding->charge->cost > 0) {
            charge_one(holding, work->now_us);
        } else {
            keep_one(holding, work->now_us);
        }
    }
}

static enum status decide(struct memory_shards *shards, struct work *work, bool *allowed)
{
    find(work);
    *allowed = judge(work);
    if (*allowed && has_missing(work)) {
        const enum places places = find_places(shards, work);
        if (places == PLACES_SHARED) {
            *allowed = judge(work);
        }
        if (places == PLACES_NONE || !*allowed) {
            remove_added(work);
        }
        if (places == PLACES_NONE) {
            return STATUS_FULL;
        }
    }
    conclude(work, *allowed);
    return STATUS_OK;
}

void memory_decision_make(struct memory_shards *shards, struct decision *decision, uint64_t now_us)
{
    struct work work; /* large: what is used of it is filled by begin() */
    work.now_us = now_us < LIMIT_NOW_MAX ? now_us : LIMIT_NOW_MAX;
    const uint64_t needed = begin(&work, shards, decision);

    lock(shards, needed);
    decision->status = decide(shards, &work, &decision->allowed);
    unlock(shards, needed);
    decision->source = DECISION_MEMORY;
}
