#include "store/layers/denial_table.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct denial_line) == 64, "a verdict is one cache line");

enum status denial_table_init(struct denial_table *table, size_t bytes)
{
    size_t n_lines = DENIAL_WAYS;
    while (n_lines * 2 * sizeof(struct denial_line) <= bytes) {
        n_lines *= 2;
    }
    /* An allocation of this size is mapped, so the kernel provides pages on first use. */
    *table = (struct denial_table){
        .lines = calloc(n_lines, sizeof(struct denial_line)),
        .n_lines = n_lines,
    };
    return table->lines == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void denial_table_close(struct denial_table *table)
{
    free(table->lines);
}

void denial_table_clear(struct denial_table *table)
{
    memset(table->lines, 0, table->n_lines * sizeof(*table->lines));
}

/* The hash of (key, @limit), where @who is the key's hash_shared(). Key hashes are secret, so a
 * client cannot choose keys of two limits that collide. */
static struct hash128 hash_in(const struct limit *limit, struct hash128 who)
{
    return (struct hash128){.low = who.low ^ (uintptr_t)limit, .high = who.high};
}

/* The first of the slots for @hash. */
static struct denial_line *places_of(const struct denial_table *table, struct hash128 hash)
{
    return &table->lines[hash.low % (table->n_lines / DENIAL_WAYS) * DENIAL_WAYS];
}

static bool is_of(const struct denial_line *line, struct hash128 hash)
{
    return line->hash.low == hash.low && line->hash.high == hash.high;
}

static bool denies(const struct denial_line *line)
{
    return line->retry_after > 0;
}

static bool says_of(const struct denial_line *line, uint32_t cost)
{
    return denies(line) ? cost >= line->cost : cost <= line->cost;
}

const struct denial_line *denial_table_find(const struct denial_table *table,
                                            const struct charge *charge, uint64_t now_us)
{
    const struct hash128 hash = hash_in(charge->limit, charge_hash(charge));
    const struct denial_line *slots = places_of(table, hash);
    for (size_t i = 0; i < DENIAL_WAYS; i++) {
        if (is_of(&slots[i], hash) && now_us < slots[i].ends_us &&
            says_of(&slots[i], charge->cost)) {
            return &slots[i];
        }
    }
    return NULL;
}

/* Whether @line is evicted before @other. */
static bool is_less(const struct denial_line *line, const struct denial_line *other,
                    uint64_t now_us)
{
    const bool holds = now_us < line->ends_us;
    const bool other_holds = now_us < other->ends_us;
    if (holds != other_holds) {
        return other_holds;
    }
    if (denies(line) != denies(other)) {
        return denies(other);
    }
    return line->ends_us < other->ends_us;
}

/* The line of @hash, or the line to evict for it. */
static struct denial_line *place_for(struct denial_table *table, struct hash128 hash,
                                     uint64_t now_us)
{
    struct denial_line *slots = places_of(table, hash);
    struct denial_line *least = slots;
    for (size_t i = 0; i < DENIAL_WAYS; i++) {
        if (is_of(&slots[i], hash)) {
            return &slots[i];
        }
        least = is_less(&slots[i], least, now_us) ? &slots[i] : least;
    }
    table->n_evictions += now_us < least->ends_us;
    return least;
}

void denial_table_put(struct denial_table *table, const struct charge *charge, uint64_t ends_us,
                      uint64_t now_us)
{
    const struct verdict *verdict = &charge->verdict;
    const struct hash128 hash = hash_in(charge->limit, charge_hash(charge));
    struct denial_line *line = place_for(table, hash, now_us);
    if (verdict->allowed && is_of(line, hash) && denies(line) && now_us < line->ends_us) {
        return;
    }
    *line = (struct denial_line){
        .hash = hash,
        .ends_us = ends_us,
        .answered_us = now_us,
        .retry_after = verdict->retry_after,
        .next_after = verdict->next_after,
        .reset_after = verdict->reset_after,
        .remaining = (uint32_t)verdict->remaining,
        .cost = charge->cost,
    };
}
