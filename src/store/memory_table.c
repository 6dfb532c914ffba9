#include "store/memory_table.h"

#include <assert.h>
#include <string.h>

enum { CACHE_LINE_BYTES = 64 };

_Static_assert(sizeof(struct memory_slot) == CACHE_LINE_BYTES, "a slot is a cache line");

void memory_table_init(struct memory_table *table, void *memory, size_t bytes)
{
    /* One to two slots a chain. */
    const size_t most = bytes / (sizeof(struct memory_slot) + sizeof(uint32_t));
    uint32_t n_heads = CACHE_LINE_BYTES / sizeof(uint32_t);
    while (n_heads <= most / 2 && n_heads <= UINT32_MAX / 4) {
        n_heads *= 2;
    }
    const size_t heads_bytes = n_heads * sizeof(uint32_t);
    const size_t n_slots = (bytes - heads_bytes) / sizeof(struct memory_slot);
    assert(bytes > heads_bytes && n_slots > MEMORY_SAMPLE);

    *table = (struct memory_table){
        .heads = memory,
        .slots = (struct memory_slot *)(void *)((char *)memory + heads_bytes),
        .n_heads = n_heads,
        .n_slots = n_slots < UINT32_MAX ? (uint32_t)n_slots : UINT32_MAX - 1,
    };
    table->n_reserved = table->n_slots / 32;
}

static uint32_t *head_of(struct memory_table *table, struct hash128 hash)
{
    return &table->heads[hash.low & (table->n_heads - 1)];
}

struct memory_slot *memory_table_find(struct memory_table *table, struct hash128 hash)
{
    for (uint32_t number = *head_of(table, hash); number != 0;) {
        struct memory_slot *slot = &table->slots[number - 1];
        if (slot->hash.low == hash.low && slot->hash.high == hash.high) {
            return slot;
        }
        number = slot->next;
    }
    return NULL;
}

void memory_table_remove(struct memory_table *table, struct memory_slot *slot)
{
    assert(slot->use != MEMORY_FREE);

    const uint32_t number = (uint32_t)(slot - table->slots) + 1;
    uint32_t *link = head_of(table, slot->hash);
    while (*link != number) {
        link = &table->slots[*link - 1].next;
    }
    *link = slot->next;
    slot->use = MEMORY_FREE;
    slot->next = table->free;
    table->free = number;
    table->n_used--;
}

/* The hand goes round in long steps: a prime, so that it meets every slot, and neighbours, which came
 * at about the same time, far apart. */
static struct memory_slot *slot_under_hand(struct memory_table *table)
{
    const uint64_t step = 2654435761;
    table->hand = (uint32_t)((table->hand + step) % table->n_touched);
    return &table->slots[table->hand];
}

/* Free what of a sample is untouched again, or else the one that is nearest to it. */
static bool make_room(struct memory_table *table, uint64_t now_us)
{
    const uint32_t n_before = table->n_used;
    struct memory_slot *nearest = NULL;
    for (int i = 0; i < MEMORY_SCAN_MAX; i++) {
        if (i >= MEMORY_SAMPLE && (nearest != NULL || table->n_used < n_before)) {
            break;
        }
        struct memory_slot *slot = slot_under_hand(table);
        if (slot->use != MEMORY_TAKEN) {
            continue;
        }
        if (slot->untouched_at_us <= now_us) {
            memory_table_remove(table, slot);
            continue;
        }
        const bool denies = slot->denies_until_us > now_us;
        if (!denies && (nearest == NULL || slot->untouched_at_us < nearest->untouched_at_us)) {
            nearest = slot;
        }
    }
    if (table->n_used < n_before) {
        return true;
    }
    if (nearest == NULL) {
        return false;
    }
    memory_table_remove(table, nearest);
    table->n_evictions++;
    return true;
}

static uint32_t take_number(struct memory_table *table)
{
    const uint32_t number = table->free;
    if (number != 0) {
        table->free = table->slots[number - 1].next;
        return number;
    }
    return ++table->n_touched;
}

struct memory_slot *memory_table_add(struct memory_table *table, struct hash128 hash,
                                     uint64_t now_us, bool may_use_reserve)
{
    const uint32_t most = may_use_reserve ? table->n_slots : table->n_slots - table->n_reserved;
    if (table->n_used >= most && !make_room(table, now_us)) {
        return NULL;
    }
    const uint32_t number = take_number(table);
    struct memory_slot *slot = &table->slots[number - 1];
    uint32_t *head = head_of(table, hash);
    *slot = (struct memory_slot){.hash = hash, .next = *head, .use = MEMORY_TAKEN};
    *head = number;
    table->n_used++;
    return slot;
}
