/*   decide ─► an enforced limit's denial is remembered ─► answered
 *          ─► else the store below ─► denied ─► what all its limits said is remembered
 *
 * What the others said is remembered too, for a second: so that an answer from here tells of the
 * whole request, as the store's does. */

#include "store/denial_cache.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "store/denial_table.h"
#include "store/errand.h"

struct denial_cache {
    struct store store;
    struct store *below; /* owned */
    struct denial_cache_options options;
    struct denial_table table;
    uint64_t holds_until_us; /* nothing that is remembered holds from then on */
    uint64_t cleared_us;     /* what was asked until then is not remembered */
    struct denial_cache_meters *meters;
    struct denial_cache_meters own; /* where nobody looks */
    uint64_t n_forgotten;           /* of options.n_forgets */
};

static struct denial_cache *denial_cache_of(struct store *store)
{
    return (struct denial_cache *)(void *)store;
}

static uint64_t read_clock(const struct denial_cache *cache)
{
    return cache->options.now_us != NULL ? cache->options.now_us(cache->options.context)
                                         : clock_monotonic_us();
}

/* Somebody may have had a key reset. */
static void forget_if_told(struct denial_cache *cache)
{
    if (cache->options.n_forgets == NULL) {
        return;
    }
    const uint64_t n = atomic_load_explicit(cache->options.n_forgets, memory_order_relaxed);
    if (UNLIKELY(n != cache->n_forgotten)) {
        cache->n_forgotten = n;
        denial_cache_clear(&cache->store);
    }
}

/* Whether what @charge was told is worth remembering: that it allowed, which is only told again; or
 * that it denied, if that stands until its retry_after, whatever happens meanwhile: redis-cell's is
 * up to a second late. */
static bool is_steady(const struct charge *charge)
{
    const struct limit *limit = charge->limit;
    return charge->verdict.allowed ||
           (!limit->algorithm->has_slots && !limit->is_settled && !limit->by_cell);
}

/* A request that a limit must count though it is denied goes on; as does one with a key that is
 * none. */
static bool is_cacheable(const struct decision *decision)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        if (charge->limit->count_denied || charge->key.len > KEY_TEXT_BYTES_MAX) {
            return false;
        }
    }
    return decision->aim == DECISION_ADMIT;
}

/* --- answers from here --- */

/* @ticks as told, @elapsed ticks later. What comes sooner than that will come any moment. */
static uint64_t count_down(uint64_t ticks, uint64_t elapsed)
{
    if (ticks == 0 || ticks >= RETRY_UNKNOWN) {
        return ticks;
    }
    return ticks > elapsed ? ticks - elapsed : 1;
}

static void fill_told(struct charge *charge, const struct denial_line *line, uint64_t now_us)
{
    const uint64_t capacity = limit_capacity(charge->limit);
    const uint64_t elapsed_us = now_us > line->answered_us ? now_us - line->answered_us : 0;
    const uint64_t elapsed = limit_ticks(charge->limit, elapsed_us);
    charge->verdict = (struct verdict){
        .allowed = line->retry_after == 0,
        .limit = capacity,
        .remaining = line->remaining,
        .retry_after =
            charge->cost > capacity ? RETRY_NEVER : count_down(line->retry_after, elapsed),
        .next_after = count_down(line->next_after, elapsed),
        .reset_after = count_down(line->reset_after, elapsed),
    };
}

static void fill_untold(struct charge *charge)
{
    const uint64_t capacity = limit_capacity(charge->limit);
    charge->untold = true;
    charge->verdict = (struct verdict){.allowed = true, .limit = capacity, .remaining = capacity};
}

/* Whether @decision is denied by what is remembered; then it is answered. */
static bool answer(struct denial_cache *cache, struct decision *decision, uint64_t now_us)
{
    const struct denial_line *lines[LIMITS_PER_ROUTE_MAX];
    bool is_denied = false;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        (void)charges_keep_hash(decision->charges, i);
        lines[i] = denial_table_find(&cache->table, charge, now_us);
        is_denied |= lines[i] != NULL && lines[i]->retry_after > 0 && !charge->limit->shadow;
    }
    if (!is_denied) {
        return false;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        charge->charged = false;
        if (lines[i] != NULL) {
            fill_told(charge, lines[i], now_us);
        } else {
            fill_untold(charge);
        }
    }
    decision->status = STATUS_OK;
    decision->allowed = false;
    decision->source = DECISION_CACHE;
    decision->fault = NULL;
    return true;
}

/* --- what the store below says --- */

/* Until when @charge's verdict, asked at @asked_us, is known to stand. */
static uint64_t end_of(const struct charge *charge, uint64_t asked_us)
{
    uint64_t holds_us = DENIAL_CACHE_HOLDS_US;
    if (!charge->verdict.allowed) {
        const uint64_t retry_us = limit_us(charge->limit, charge->verdict.retry_after);
        holds_us = retry_us < holds_us ? retry_us : holds_us;
    }
    return asked_us + holds_us;
}

static void remember(struct denial_cache *cache, const struct decision *decision)
{
    const uint64_t now_us = read_clock(cache);
    const uint64_t n_evictions = cache->table.n_evictions;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const uint64_t ends_us = end_of(charge, decision->asked_us);
        if (is_steady(charge) && now_us < ends_us) {
            (void)charges_keep_hash(decision->charges, i);
            denial_table_put(&cache->table, charge, ends_us, now_us);
            cache->holds_until_us =
                ends_us > cache->holds_until_us ? ends_us : cache->holds_until_us;
        }
    }
    counter_add(&cache->meters->evictions, cache->table.n_evictions - n_evictions);
}

static void finish(struct denial_cache *cache, const struct decision *decision)
{
    if (decision->status != STATUS_OK || decision->allowed) {
        return;
    }
    forget_if_told(cache);
    if (is_cacheable(decision) && decision->asked_us > cache->cleared_us) {
        remember(cache, decision);
    }
}

static void on_answer(struct decision *decision)
{
    finish(denial_cache_of(decision->frames[decision->n_frames - 1].store), decision);
    store_answer(decision);
}

/* --- the store --- */

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct denial_cache *cache = denial_cache_of(store);
    const bool is_told = decision->now_us != 0 && cache->options.now_us == NULL;
    const uint64_t now_us = is_told ? decision->now_us : read_clock(cache);
    forget_if_told(cache);
    if (now_us < cache->holds_until_us && is_cacheable(decision) &&
        answer(cache, decision, now_us)) {
        counter_up(&cache->meters->answers);
        return STORE_ANSWERED;
    }
    decision->asked_us = now_us;
    if (store_decide(cache->below, decision, on_answer) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(cache, decision);
    return STORE_ANSWERED;
}

/* Nothing is kept for a decision that is being asked. */
static void cancel(struct store *store, struct decision *decision)
{
    (void)store;
    (void)decision;
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    store_settle(denial_cache_of(store)->below, settlements, n);
}

static enum status learn(struct store *store, const struct limit *limits, size_t n_limits)
{
    denial_cache_clear(store);
    return store_learn(denial_cache_of(store)->below, limits, n_limits);
}

/* Lines are found by where a limit lies in memory: another may lie there next. */
static void forget(struct store *store, const struct limit *limits)
{
    denial_cache_clear(store);
    store_forget(denial_cache_of(store)->below, limits);
}

static bool is_ready(const struct store *store)
{
    const struct denial_cache *cache = (const struct denial_cache *)(const void *)store;
    return store_is_ready(cache->below);
}

static bool is_settled(const struct store *store)
{
    const struct denial_cache *cache = (const struct denial_cache *)(const void *)store;
    return store_is_settled(cache->below);
}

static enum store_outcome run(struct store *store, struct store_errand *errand)
{
    return store_run(denial_cache_of(store)->below, errand);
}

static void free_cache(struct store *store)
{
    struct denial_cache *cache = denial_cache_of(store);
    store_free(cache->below);
    denial_table_close(&cache->table);
    free(cache);
}

static const struct store_ops DENIAL_CACHE_OPS = {
    .name = "denial_cache",
    .decide = decide,
    .cancel = cancel,
    .settle = settle,
    .learn = learn,
    .forget = forget,
    .is_ready = is_ready,
    .is_settled = is_settled,
    .run = run,
    .free = free_cache,
};

enum status denial_cache_new(struct store *below, const struct denial_cache_options *options,
                             struct store **store)
{
    struct denial_cache *cache = malloc(sizeof(*cache));
    if (cache == NULL) {
        return STATUS_NO_MEMORY;
    }
    *cache = (struct denial_cache){
        .store = {.ops = &DENIAL_CACHE_OPS},
        .below = below,
        .options = *options,
    };
    cache->meters = options->meters != NULL ? options->meters : &cache->own;
    if (denial_table_init(&cache->table, DENIAL_CACHE_BYTES) != STATUS_OK) {
        free(cache);
        return STATUS_NO_MEMORY;
    }
    *store = &cache->store;
    return STATUS_OK;
}

void denial_cache_clear(struct store *store)
{
    struct denial_cache *cache = denial_cache_of(store);
    denial_table_clear(&cache->table);
    cache->holds_until_us = 0;
    cache->cleared_us = read_clock(cache);
}
