#include "store/memory/memory_table.h"

#include <assert.h>
#include <string.h>

#include "base/status.h"

_Static_assert(sizeof(struct memory_slot) + 24 == MEMORY_LINE_BYTES,
               "a bucket or a window fits in a cache line");

void memory_table_init(struct memory_table *table, void *memory, size_t bytes)
{
    /* A full table has one to two of the smallest slots per chain. */
    const size_t most = bytes / (MEMORY_LINE_BYTES + 1 + sizeof(uint32_t));
    uint32_t n_heads = MEMORY_LINE_BYTES / sizeof(uint32_t);
    while (n_heads <= most / 2 && n_heads <= UINT32_MAX / 4) {
        n_heads *= 2;
    }
    const size_t own_bytes = (2 * MEMORY_GROUPS + n_heads) * sizeof(uint32_t);
    assert(bytes > own_bytes);

    uint32_t *const own = memory;
    *table = (struct memory_table){.group_limits = own,
                                   .n_group_lines = own + MEMORY_GROUPS,
                                   .heads = own + 2 * (size_t)MEMORY_GROUPS,
                                   .n_heads = n_heads};
    memory_heap_init(&table->heap, (char *)memory + own_bytes, bytes - own_bytes);
    table->n_reserved = table->heap.n_lines / 32;
    memory_room_init(table);
}

static uint32_t *head_of(struct memory_table *table, struct hash128 hash)
{
    return &table->heads[hash.low & (table->n_heads - 1)];
}

struct memory_slot *memory_table_find(struct memory_table *table, struct hash128 hash)
{
    for (uint32_t number = *head_of(table, hash); number != 0;) {
        struct memory_slot *slot = memory_table_slot(table, number - 1);
        if (slot->hash.low == hash.low && slot->hash.high == hash.high) {
            return slot;
        }
        number = slot->next;
    }
    return NULL;
}

/* The group of @limit: its own, or else one without states, which becomes its own. If all have
 * states of other limits, it shares one. */
static uint8_t group_of(struct memory_table *table, uint64_t limit)
{
    const size_t first = limit % MEMORY_GROUPS;
    const uint32_t identity = (uint32_t)(limit >> 32);
    size_t unused = MEMORY_GROUPS;
    for (size_t i = 0; i < MEMORY_GROUPS; i++) {
        const size_t group = (first + i) % MEMORY_GROUPS;
        if (table->group_limits[group] == identity) {
            return (uint8_t)group;
        }
        if (unused == MEMORY_GROUPS && table->n_group_lines[group] == 0) {
            unused = group;
        }
    }
    if (unused == MEMORY_GROUPS) {
        return (uint8_t)first;
    }
    table->group_limits[unused] = identity;
    return (uint8_t)unused;
}

/* The link that points to @slot in its chain. */
static uint32_t *link_to(struct memory_table *table, const struct memory_slot *slot)
{
    const uint32_t number = memory_table_line(table, slot) + 1;
    uint32_t *link = head_of(table, slot->hash);
    while (*link != number) {
        if (UNLIKELY(*link == 0)) {
            panic("a slot of the embedded store is not in its chain");
        }
        link = &memory_table_slot(table, *link - 1)->next;
    }
    return link;
}

void memory_table_remove(struct memory_table *table, struct memory_slot *slot)
{
    *link_to(table, slot) = slot->next;
    table->n_group_lines[slot->group] -= UINT32_C(1) << slot->order;
    memory_heap_give(&table->heap, memory_table_line(table, slot));
    table->n_slots--;
}

struct memory_slot *memory_table_add(struct memory_table *table, struct hash128 hash,
                                     const struct memory_need *need)
{
    const uint8_t group = group_of(table, need->limit);
    const uint32_t line = memory_room_take(table, need, group);
    if (line == MEMORY_NO_LINE) {
        return NULL;
    }
    struct memory_slot *slot = memory_table_slot(table, line);
    uint32_t *head = head_of(table, hash);
    *slot = (struct memory_slot){
        .hash = hash,
        .next = *head,
        .is_kept = need->is_kept,
        .order = (uint8_t)memory_heap_order_of(&table->heap, line),
        .group = group,
    };
    table->n_group_lines[slot->group] += UINT32_C(1) << slot->order;
    memset(slot->state, 0, memory_slot_state_bytes(slot));
    *head = line + 1;
    table->n_slots++;
    return slot;
}

struct memory_slot *memory_table_move(struct memory_table *table, struct memory_slot *slot,
                                      uint32_t line)
{
    struct memory_slot *moved = memory_table_slot(table, line);
    const size_t before = memory_slot_state_bytes(slot);

    *link_to(table, slot) = line + 1;
    memmove(moved, slot, sizeof(*slot) + before);
    assert(moved->order <= memory_heap_order_of(&table->heap, line));
    table->n_group_lines[moved->group] -= UINT32_C(1) << moved->order;
    moved->order = (uint8_t)memory_heap_order_of(&table->heap, line);
    table->n_group_lines[moved->group] += UINT32_C(1) << moved->order;
    memset((char *)moved->state + before, 0, memory_slot_state_bytes(moved) - before);
    return moved;
}

struct memory_slot *memory_table_grow(struct memory_table *table, struct memory_slot *slot,
                                      const struct memory_need *need)
{
    const uint32_t from = memory_table_line(table, slot);
    const uint8_t use = slot->use;
    slot->use = MEMORY_PINNED;
    const struct memory_extent place = memory_room_grow(table, from, need);
    slot->use = use;
    if (place.line == MEMORY_NO_LINE) {
        return NULL;
    }
    struct memory_slot *moved = memory_table_move(table, slot, place.line);
    if (!place.is_extended) {
        memory_heap_give(&table->heap, from);
    }
    return moved;
}
