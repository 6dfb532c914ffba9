#include "store/memory_store.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/log.h"
#include "store/errand.h"
#include "store/memory_clock.h"
#include "store/memory_shard.h"

static const char MODULE[] = "store.memory";

/* First in the memory that the store was given; the shards' tables follow. */
struct memory_store {
    struct store store;
    struct memory_store_options options;
    size_t bytes; /* mapped, this struct included */
    struct memory_clock clock;
    atomic_bool strange; /* the log was told that the clock is outside the calendars */
    struct memory_shards shards;
};

static struct memory_store *memory_store_of(const struct store *store)
{
    /* The store is the first member, and those who may only look ask for constant pointers. */
    union {
        const struct store *store;
        struct memory_store *memory;
    } of = {.store = store};
    return of.memory;
}

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

/* The caller found the windows of a calendar by the wall clock, and this store's time is in none of
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

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    struct memory_store *memory = memory_store_of(store);
    const struct memory_time now = time_of(memory, 0);
    for (size_t i = 0; i < n; i++) {
        memory_settlement_make(&memory->shards, &settlements[i], now);
    }
}

static enum store_outcome run(struct store *store, struct store_errand *errand)
{
    if (errand->kind == ERRAND_RESET) {
        memory_reset_make(&memory_store_of(store)->shards, errand->limit, errand->key);
        errand->was_local = true;
        errand->status = STATUS_OK;
    }
    return STORE_ANSWERED;
}

/* Nothing is ever pending here. */
static void cancel(struct store *store, struct decision *decision)
{
    (void)store;
    (void)decision;
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
    .cancel = cancel,
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
    /* Pages come from the kernel as they are used; huge ones would come 2 MiB at a time. */
    void *mapping = mmap(NULL, options->memory_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return STATUS_NO_MEMORY;
    }
    (void)madvise(mapping, options->memory_bytes, MADV_NOHUGEPAGE);

    struct memory_store *memory = mapping;
    memory->store.ops = &MEMORY_OPS;
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
