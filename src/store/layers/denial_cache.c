/*   decide ─► a denial of an enforced limit is cached ─► answered from the cache
 *          ─► otherwise the store below decides ─► denied ─► the verdicts of all limits are cached
 *
 * The verdicts that allow are cached too, for a second, so that a cached answer reports all limits
 * of the request, as the answer of the store does. */

#include "store/layers.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "store/layers/denial_table.h"

struct denial_cache {
    struct store store;
    struct denial_cache_options options;
    struct denial_table table;
    uint64_t holds_until_us; /* from then on all cached verdicts are expired */
    uint64_t cleared_us;     /* answers to decisions asked until then are not cached */
    struct denial_cache_meters *meters;
    struct denial_cache_meters own; /* used if the caller gave none */
    uint64_t n_forgotten;           /* the value of options.n_forgets seen last */
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

/* Clears the cache if options.n_forgets has changed: a key may have been reset. */
static void forget_if_reported(struct denial_cache *cache)
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

/* Whether @charge's verdict may be cached. A verdict that allowed may, since it is only reported. A
 * denial may if it is certain to last until its retry_after. That of redis-cell is up to a second
 * too late. */
static bool is_steady(const struct charge *charge)
{
    const struct limit *limit = charge->limit;
    return charge->verdict.allowed ||
           (!limit->algorithm->has_slots && !limit->is_settled && !limit->by_cell);
}

/* Not if a limit counts denied requests, or if a key is too long to be valid. */
static bool is_cacheable(const struct decision *decision)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        if (charge->limit->charge_denied || charge->key.len > KEY_TEXT_BYTES_MAX) {
            return false;
        }
    }
    return decision->aim == DECISION_ADMIT;
}

/* --- answers from here --- */

/* @ticks of a verdict, @elapsed ticks later; at least 1 unless it was 0. */
static uint64_t count_down(uint64_t ticks, uint64_t elapsed)
{
    if (ticks == 0 || ticks >= RETRY_UNKNOWN) {
        return ticks;
    }
    return ticks > elapsed ? ticks - elapsed : 1;
}

static void fill_reported(struct charge *charge, const struct denial_line *line, uint64_t now_us)
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

static void fill_unreported(struct charge *charge)
{
    const uint64_t capacity = limit_capacity(charge->limit);
    charge->unreported = true;
    charge->verdict = (struct verdict){.allowed = true, .limit = capacity, .remaining = capacity};
}

/* Finds the lines of @decision's charges. Returns whether one denies it. */
static bool find_lines(struct denial_cache *cache, struct decision *decision, uint64_t now_us,
                       const struct denial_line *lines[LIMITS_PER_ROUTE_MAX])
{
    bool is_denied = false;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        (void)charges_keep_hash(decision->charges, i);
        lines[i] = denial_table_find(&cache->table, charge, now_us);
        is_denied |= lines[i] != NULL && lines[i]->retry_after > 0 && !charge->limit->shadow;
    }
    return is_denied;
}

/* Answers @decision if a cached verdict denies it. Returns whether it did. */
static bool answer(struct denial_cache *cache, struct decision *decision, uint64_t now_us)
{
    const struct denial_line *lines[LIMITS_PER_ROUTE_MAX];
    if (!find_lines(cache, decision, now_us, lines)) {
        return false;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        charge->charged = false;
        if (lines[i] != NULL) {
            fill_reported(charge, lines[i], now_us);
        } else {
            fill_unreported(charge);
        }
    }
    decision->status = STATUS_OK;
    decision->allowed = false;
    decision->source = DECISION_CACHE;
    decision->fault = REDIS_FAULT_NONE;
    return true;
}

/* --- answers of the store below --- */

/* The time until which @charge's verdict, asked at @asked_us, is valid. */
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
    forget_if_reported(cache);
    if (is_cacheable(decision) && decision->asked_us > cache->cleared_us) {
        remember(cache, decision);
    }
}

static void on_answer(struct decision *decision)
{
    finish(denial_cache_of(store_asked(decision)), decision);
    store_answer(decision);
}

/* --- the store --- */

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct denial_cache *cache = denial_cache_of(store);
    const bool is_reported = decision->now_us != 0 && cache->options.now_us == NULL;
    const uint64_t now_us = is_reported ? decision->now_us : read_clock(cache);
    forget_if_reported(cache);
    if (now_us < cache->holds_until_us && is_cacheable(decision) &&
        answer(cache, decision, now_us)) {
        counter_up(&cache->meters->answers);
        return STORE_ANSWERED;
    }
    decision->asked_us = now_us;
    if (store_decide(store->below, decision, on_answer) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(cache, decision);
    return STORE_ANSWERED;
}

static bool denies(struct store *store, struct decision *decision)
{
    struct denial_cache *cache = denial_cache_of(store);
    const struct denial_line *lines[LIMITS_PER_ROUTE_MAX];
    const uint64_t now_us = cache->options.now_us == NULL ? decision->now_us : read_clock(cache);
    forget_if_reported(cache);
    return now_us < cache->holds_until_us && is_cacheable(decision) &&
           find_lines(cache, decision, now_us, lines);
}

static enum status add_limits(struct store *store, const struct limit *limits, size_t n_limits)
{
    denial_cache_clear(store);
    return store_add_limits(store->below, limits, n_limits);
}

/* Lines are found by the address of the limit, which another limit may get later. */
static void remove_limits(struct store *store, const struct limit *limits)
{
    denial_cache_clear(store);
    store_remove_limits(store->below, limits);
}

static void free_cache(struct store *store)
{
    struct denial_cache *cache = denial_cache_of(store);
    denial_table_close(&cache->table);
    free(cache);
}

static const struct store_ops DENIAL_CACHE_OPS = {
    .name = "denial_cache",
    .decide = decide,
    .denies = denies,
    .add_limits = add_limits,
    .remove_limits = remove_limits,
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
        .store = {.ops = &DENIAL_CACHE_OPS, .below = below},
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
