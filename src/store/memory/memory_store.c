#include "store/memory_store.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/log.h"
#include "limit/judge.h"
#include "store/memory/memory_clock.h"
#include "store/memory/memory_shard.h"
#include "store/operation.h"

static const char MODULE[] = "store.memory";

/* At the start of the store's memory; the tables of the shards follow. */
struct memory_store {
    struct store store;
    struct memory_store_options options;
    size_t bytes; /* mapped, this struct included */
    struct memory_clock clock;
    atomic_bool strange; /* logged already that the clock is outside the calendars */
    struct memory_shards shards;
};

static struct memory_store *memory_store_of(const struct store *store)
{
    /* The store is the first member. The union removes the const of callers that only read. */
    union {
        const struct store *store;
        struct memory_store *memory;
    } of = {.store = store};
    return of.memory;
}

/* --- settlements and resets: they change a state under the lock of its shard --- */

/* The state size of a bucket whose charges are settled; 0 if @limit is no bucket. */
static size_t bucket_bytes(const struct limit *limit)
{
    const struct limit_call ask = {.cost = 0};
    return limit->algorithm->has_burst ? limit->algorithm->state_bytes(NULL, &limit->params, &ask)
                                       : 0;
}

/* What the state of @slot, or NULL, must have for what @settlement adds at @now. */
static size_t needed_bytes(const struct memory_slot *slot, const struct settlement *settlement,
                           uint64_t now)
{
    const struct limit *limit = settlement->limit;
    const struct limit_call call = {.now = now, .slot = settlement->slot};
    return limit->algorithm->state_bytes(slot != NULL ? slot->state : NULL, &limit->params, &call);
}

static bool has_room(const struct memory_slot *slot, const struct settlement *settlement,
                     uint64_t now)
{
    return needed_bytes(slot, settlement, now) <= memory_slot_state_bytes(slot);
}

static void correct(struct memory_slot *slot, const struct settlement *settlement, uint64_t now)
{
    const struct limit *limit = settlement->limit;
    const struct algorithm *algorithm = limit->algorithm;
    struct limit_params params = limit->params;
    /* The state may have been made again under a policy without settlements. */
    params.settles = params.settles && memory_slot_state_bytes(slot) >= bucket_bytes(limit);
    switch (settlement->kind) {
    case SETTLE_COST:
        if (settlement->delta > 0 && !has_room(slot, settlement, now)) {
            params.rate = 1; /* a log that could not grow adds to its newest entry */
        }
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
    case SETTLE_RETAKE:
        if (algorithm->renew != NULL) {
            algorithm->renew(slot->state, &limit->params, now, settlement->slot);
        }
        break;
    }
}

/* Dates @slot anew: see memory_slot_date(). */
static void date(struct memory_slot *slot, const struct limit *limit, const struct memory_time *now)
{
    if (limit->params.is_calendar) {
        return; /* a settlement does not change when a calendar window ends */
    }
    const struct limit_call call = limit_call_at(limit, memory_time_for(now, limit), 0);
    struct verdict verdict;
    algorithm_evaluate(limit->algorithm, slot->state, &limit->params, &call, &verdict);
    memory_slot_date(slot, limit, &verdict, now->state_us);
}

/* Whether @settlement may need a state that was forgotten, or a larger one. */
static bool needs_room(const struct settlement *settlement)
{
    const struct limit *limit = settlement->limit;
    if (settlement->kind == SETTLE_RENEW || settlement->kind == SETTLE_RETAKE) {
        return limit->algorithm->renew != NULL;
    }
    return settlement->kind == SETTLE_COST && settlement->delta > 0 &&
           limit->algorithm->settle != NULL &&
           !limit->params.is_calendar; /* when its window ends, a settlement does not know */
}

/* Room for what @settlement adds at @now. @slot is the state of @hash, or NULL. NULL: there is no
 * room, and what was to be added is not counted. */
static struct memory_slot *make_room(struct memory_table *table, struct memory_slot *slot,
                                     struct hash128 hash, const struct settlement *settlement,
                                     const struct memory_time *now)
{
    const struct limit *limit = settlement->limit;
    const uint64_t ticks = limit_ticks(limit, memory_time_for(now, limit));
    const struct memory_need need = {
        .state_bytes = needed_bytes(slot, settlement, ticks),
        .now_us = now->state_us,
        .is_kept = settlement->overflowed,
        .limit = limit->id.low,
    };
    if (slot == NULL) {
        return memory_table_add(table, hash, &need);
    }
    const bool is_renewal = limit->algorithm->renew != NULL;
    if (need.state_bytes <= memory_slot_state_bytes(slot) ||
        (is_renewal && limit->algorithm->has_slot(slot->state, settlement->slot))) {
        return slot;
    }
    struct memory_slot *larger = memory_table_grow(table, slot, &need);
    return larger != NULL || is_renewal ? larger : slot;
}

/* Applies @settlement at @now. What it gives back is lost if the state was dropped meanwhile. The
 * charge of a key without room is settled in the state that all such keys share. */
static void make_settlement(struct memory_shards *shards, const struct settlement *settlement,
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
    if (needs_room(settlement)) {
        slot = make_room(&shard->table, slot, charged, settlement, &now);
    }
    if (slot != NULL) {
        correct(slot, settlement, limit_ticks(limit, memory_time_for(&now, limit)));
        date(slot, limit, &now);
    }
    pthread_mutex_unlock(&shard->lock);
}

/* Removes @key's own state in @limit. A shared state stays. */
static void reset(struct memory_shards *shards, const struct limit *limit, struct span key)
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

/* --- the store --- */

/* @asked_us is monotonic; 0: it is not known. */
static struct memory_time time_of(struct memory_store *memory, uint64_t asked_us)
{
    if (memory->options.now_us != NULL) {
        const uint64_t now_us = memory->options.now_us(memory->options.context);
        return (struct memory_time){.state_us = now_us, .wall_us = now_us};
    }
    return memory_clock_at(&memory->clock,
                           asked_us != 0 ? asked_us : memory_clock_monotonic_us(&memory->clock));
}

/* The caller took the calendar windows from the wall clock, and this store's time is in none of
 * them: the wall clock was set less than a second ago, or is outside the calendar. */
COLD static void decide_again(struct memory_store *memory, struct decision *decision)
{
    if (memory->options.now_us == NULL) {
        memory_clock_follow(&memory->clock);
        memory_decision_make(&memory->shards, decision, time_of(memory, 0));
    }
    if (decision->status == STATUS_INVALID && !atomic_exchange(&memory->strange, true)) {
        log_error(MODULE, "the clock is outside the calendar that the policy was loaded with", "%s",
                  "");
    }
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct memory_store *memory = memory_store_of(store);
    memory_decision_make(&memory->shards, decision, time_of(memory, decision->now_us));
    if (UNLIKELY(decision->status == STATUS_INVALID)) {
        decide_again(memory, decision);
    }
    return STORE_ANSWERED;
}

static bool denies(struct store *store, struct decision *decision)
{
    struct memory_store *memory = memory_store_of(store);
    const enum decision_aim aim = decision->aim;
    decision->aim = DECISION_JUDGE;
    memory_decision_make(&memory->shards, decision, time_of(memory, decision->now_us));
    decision->aim = aim;
    return decision->status == STATUS_OK && !decision->allowed;
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    struct memory_store *memory = memory_store_of(store);
    const struct memory_time now = time_of(memory, 0);
    for (size_t i = 0; i < n; i++) {
        make_settlement(&memory->shards, &settlements[i], now);
    }
}

static enum store_outcome run(struct store *store, struct store_operation *operation)
{
    if (operation->kind == OPERATION_RESET) {
        reset(&memory_store_of(store)->shards, operation->limit, operation->key);
        operation->was_local = true;
        operation->status = STATUS_OK;
    }
    return STORE_ANSWERED;
}

static void free_memory(struct store *store)
{
    struct memory_store *memory = memory_store_of(store);
    for (size_t i = 0; i < memory->shards.n_shards; i++) {
        pthread_mutex_destroy(&memory->shards.shards[i].lock);
    }
    memory_clock_close(&memory->clock);
    munmap(memory, memory->bytes);
}

static const struct store_ops MEMORY_OPS = {
    .name = "memory",
    .decide = decide,
    .denies = denies,
    .settle = settle,
    .run = run,
    .free = free_memory,
};

static unsigned count_shards(size_t bytes)
{
    unsigned n = MEMORY_SHARDS_MIN;
    while (n < MEMORY_SHARDS_MAX && bytes / n >= 2 * (size_t)MEMORY_SHARD_BYTES_MIN) {
        n *= 2;
    }
    return n;
}

static void init_shards(struct memory_store *memory)
{
    const size_t first = (sizeof(*memory) + MEMORY_LINE_BYTES - 1) / MEMORY_LINE_BYTES;
    const size_t lines = memory->bytes / MEMORY_LINE_BYTES - first;
    const unsigned n_shards = count_shards(memory->bytes);
    const size_t shard_bytes = lines / n_shards * MEMORY_LINE_BYTES;
    char *tables = (char *)memory + first * MEMORY_LINE_BYTES;

    memory->shards.full = memory->options.full;
    memory->shards.n_shards = n_shards;
    for (size_t i = 0; i < n_shards; i++) {
        struct memory_shard *shard = &memory->shards.shards[i];
        pthread_mutex_init(&shard->lock, NULL); /* a plain mutex: cannot fail on Linux */
        memory_table_init(&shard->table, tables + i * shard_bytes, shard_bytes);
    }
}

enum status memory_store_new(const struct memory_store_options *options, struct store **store)
{
    if (options->memory_bytes < MEMORY_STORE_BYTES_MIN) {
        return STATUS_INVALID;
    }
    /* The kernel provides pages on first use; huge pages would take 2 MiB at a time. */
    void *mapping = mmap(NULL, options->memory_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return STATUS_NO_MEMORY;
    }
    (void)madvise(mapping, options->memory_bytes, MADV_NOHUGEPAGE);

    struct memory_store *memory = mapping;
    memory->store = (struct store){.ops = &MEMORY_OPS};
    memory->options = *options;
    memory->bytes = options->memory_bytes;
    memory_clock_init(&memory->clock, options->read_clocks, options->context);
    init_shards(memory);
    *store = &memory->store;
    return STATUS_OK;
}

void memory_store_set_full(struct store *store, enum memory_full full)
{
    struct memory_shards *shards = &memory_store_of(store)->shards;
    for (size_t i = 0; i < shards->n_shards; i++) {
        pthread_mutex_lock(&shards->shards[i].lock);
    }
    shards->full = full;
    for (size_t i = 0; i < shards->n_shards; i++) {
        pthread_mutex_unlock(&shards->shards[i].lock);
    }
}

void memory_store_count(const struct store *store, struct memory_store_counters *counters)
{
    struct memory_store *memory = memory_store_of(store);
    *counters = (struct memory_store_counters){0};
    for (size_t i = 0; i < memory->shards.n_shards; i++) {
        struct memory_shard *shard = &memory->shards.shards[i];
        pthread_mutex_lock(&shard->lock);
        counters->n_keys += shard->table.n_slots;
        counters->n_keys_max += shard->table.heap.n_lines;
        counters->n_bytes += (uint64_t)shard->table.heap.n_taken * MEMORY_LINE_BYTES;
        counters->n_evictions += shard->table.n_evictions;
        counters->n_overflows += shard->n_overflows;
        pthread_mutex_unlock(&shard->lock);
    }
}
