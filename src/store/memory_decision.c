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
#include "limit/judge.h"
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
    struct judged judged[LIMITS_PER_ROUTE_MAX]; /* of the same numbers */
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

static enum status judge(struct work *work, bool *allowed)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        struct holding *holding = &work->holdings[i];
        struct judged *judged = &work->judged[i];
        *judged = (struct judged){
            .limit = holding->charge->limit,
            .state = state_of(holding),
            .call = limit_call_at(holding->charge->limit, work->now_us, holding->charge->cost),
        };
        judged->call.edges = holding->charge->edges;
        judged->call.slot = holding->charge->slot;
        assert(judged->limit->algorithm->state_bytes(judged->state, &judged->limit->params,
                                                     &judged->call) <= sizeof(holding->forgotten));
    }
    return judge_evaluate(work->judged, work->n_holdings, allowed);
}

/* --- places for the states that are missing --- */

static bool is_missing(const struct work *work, size_t i, bool allowed)
{
    return work->holdings[i].slot == NULL && judge_takes(&work->judged[i], allowed);
}

static bool has_missing(const struct work *work, bool allowed)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        if (is_missing(work, i, allowed)) {
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

static enum places find_places(struct memory_shards *shards, struct work *work, bool allowed)
{
    enum places places = PLACES_OWN;
    set_use(work, MEMORY_PINNED);
    for (size_t i = 0; i < work->n_holdings && places != PLACES_NONE; i++) {
        if (is_missing(work, i, allowed)) {
            const enum places place = find_place(shards, &work->holdings[i], work->now_us);
            places = place > places ? place : places;
        }
    }
    set_use(work, MEMORY_TAKEN);
    return places;
}

/* Those of them that take nothing, or @all. */
static void remove_added(struct work *work, bool allowed, bool all)
{
    for (size_t i = 0; i < work->n_holdings; i++) {
        struct holding *holding = &work->holdings[i];
        if (holding->added && (all || !judge_takes(&work->judged[i], allowed))) {
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

/* When @slot is untouched again, and until when it keeps somebody waiting. */
static void date(struct memory_slot *slot, const struct judged *judged, uint64_t now_us,
                 bool was_changed)
{
    const struct limit *limit = judged->limit;
    const struct verdict *verdict = &judged->verdict;
    if (was_changed) {
        slot->untouched_at_us = later(now_us, limit, verdict->reset_after);
        slot->denies_until_us =
            verdict->remaining == 0 ? later(now_us, limit, verdict->next_after) : 0;
    }
    if (!verdict->allowed && verdict->retry_after < RETRY_UNKNOWN) {
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
        struct judged *judged = &work->judged[i];
        const struct limit *limit = judged->limit;
        judged->state = state_of(holding);
        const bool was_changed =
            judge_takes(judged, allowed) ||
            limit->algorithm->is_ahead(judged->state, &limit->params, judged->call.now);
        judge_conclude(judged, allowed);
        if (holding->slot != NULL) {
            date(holding->slot, judged, work->now_us, was_changed);
        }
        holding->charge->verdict = judged->verdict;
        holding->charge->charged = judged->charged;
        holding->charge->charged_at_us = work->now_us;
    }
}

static enum status decide(struct memory_shards *shards, struct work *work, bool *allowed)
{
    find(work);
    enum status status = judge(work, allowed);
    if (status == STATUS_OK && has_missing(work, *allowed)) {
        const enum places places = find_places(shards, work, *allowed);
        if (places == PLACES_SHARED) {
            status = judge(work, allowed);
        }
        remove_added(work, *allowed, places == PLACES_NONE);
        if (places == PLACES_NONE) {
            return STATUS_FULL;
        }
    }
    if (status == STATUS_OK) {
        conclude(work, *allowed);
    }
    return status;
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
