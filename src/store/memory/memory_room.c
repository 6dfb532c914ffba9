/* Free memory is used first.
 * One line ─► drop the untouched states of a sample, or else one of the limit that has most lines:
 * the one that is untouched soonest. A new line does not push out one of a limit that has less.
 * Several lines ─► clear a region, chosen in the same way by the state in it that should stay most.
 * States that deny are moved out of it, so a few of them cannot block large states. */

#include "store/memory/memory_table.h"

enum {
    SAMPLE = 16,    /* lines examined to find states to drop */
    SCAN_MAX = 64,  /* limit if none of the sample may go, unless the last search failed */
    SEEN_MIN = 256, /* blocks examined to find a region, plus four times its lines */
    TRIES = 4,      /* further attempts to make room: moved states take up room elsewhere */
    MOVES_MIN = 64, /* lines that may be moved out of a region, plus a sixteenth of its lines */
    LARGE = 6,      /* from this order on, a failed search is not repeated for PAUSE_US */
    PAUSE_US = 10 * 1000,
};

static uint32_t lines_of(unsigned order)
{
    return UINT32_C(1) << order;
}

static uint32_t end_of(const struct memory_heap *heap, uint32_t block)
{
    return block + lines_of(memory_heap_order_of(heap, block));
}

/* The hand moves in long steps around the memory. It reaches every line, and neighbouring lines,
 * which were often taken at the same time, are examined far apart. */
static uint32_t step(const struct memory_table *table, uint32_t line)
{
    const uint64_t next = (uint64_t)line + table->stride;
    return (uint32_t)(next < table->heap.n_lines ? next : next - table->heap.n_lines);
}

/* The lines are not in a CPU cache, so each is prefetched a sample ahead. */
static uint32_t move_hand(struct memory_table *table)
{
    table->ahead = step(table, table->ahead);
    __builtin_prefetch(memory_heap_bytes(&table->heap, table->ahead));
    table->hand = step(table, table->hand);
    return table->hand;
}

static bool is_needed(const struct memory_slot *slot, uint64_t now_us)
{
    return slot->denies_until_us > now_us || (slot->is_kept && slot->untouched_at_us > now_us);
}

static bool is_fixed(const struct memory_slot *slot, uint64_t now_us)
{
    return slot->use == MEMORY_PINNED || is_needed(slot, now_us);
}

static void drop(struct memory_table *table, struct memory_slot *slot, uint64_t now_us)
{
    table->n_evictions += slot->untouched_at_us > now_us;
    memory_table_remove(table, slot);
}

/* What is lost with a state that is not untouched. */
struct loss {
    uint32_t n_group_lines; /* of the limits of its group */
    uint64_t untouched_at_us;
};

static struct loss loss_of(const struct memory_table *table, const struct memory_slot *slot)
{
    return (struct loss){table->n_group_lines[slot->group], slot->untouched_at_us};
}

static bool is_less(const struct loss *one, const struct loss *other)
{
    return one->n_group_lines != other->n_group_lines
               ? one->n_group_lines > other->n_group_lines
               : one->untouched_at_us < other->untouched_at_us;
}

/* --- one slot --- */

/* The slot that holds the line under the hand, or NULL. */
static struct memory_slot *slot_under_hand(struct memory_table *table)
{
    const uint32_t block = memory_heap_block_at(&table->heap, move_hand(table));
    return memory_heap_kind(&table->heap, block) == MEMORY_LINE_TAKEN
               ? memory_table_slot(table, block)
               : NULL;
}

/* Drops the untouched states of a sample, or else the one that is the least loss, of a group with
 * at least @n_group_lines_min. */
static bool drop_some(struct memory_table *table, uint32_t n_group_lines_min, uint64_t now_us)
{
    const uint32_t n_before = table->n_slots;
    const int scan_max = table->was_in_vain ? SAMPLE : SCAN_MAX;
    struct memory_slot *least = NULL;
    struct loss least_loss = {0};
    for (int i = 0; i < scan_max; i++) {
        if (i >= SAMPLE && (least != NULL || table->n_slots < n_before)) {
            break;
        }
        struct memory_slot *slot = slot_under_hand(table);
        if (slot == NULL || is_fixed(slot, now_us)) {
            continue;
        }
        if (slot->untouched_at_us <= now_us) {
            drop(table, slot, now_us);
            continue;
        }
        const struct loss loss = loss_of(table, slot);
        if (loss.n_group_lines >= n_group_lines_min &&
            (least == NULL || is_less(&loss, &least_loss))) {
            least = slot;
            least_loss = loss;
        }
    }
    if (table->n_slots == n_before && least != NULL) {
        drop(table, least, now_us);
    }
    table->was_in_vain = table->n_slots == n_before;
    return !table->was_in_vain;
}

/* --- a region --- */

struct region {
    uint32_t line;
    uint32_t n_lines; /* a power of two, and line is a multiple of it */
    uint32_t n_seen;  /* blocks examined */
    uint32_t n_moves; /* lines of the states that must be moved */
    struct loss loss; /* the greatest of the states to drop */
};

/* The loss of states that are untouched. */
static const struct loss NO_LOSS = {.n_group_lines = UINT32_MAX};

/* Counts @slot, of @n_lines, in @region. False: it prevents that the region is cleared. */
static bool count_slot(const struct memory_table *table, const struct memory_slot *slot,
                       uint32_t n_lines, uint64_t now_us, struct region *region)
{
    const struct loss loss = loss_of(table, slot);

    if (slot->use == MEMORY_PINNED) {
        return false;
    }
    if (is_needed(slot, now_us)) {
        region->n_moves += n_lines;
        return n_lines < region->n_lines && region->n_moves <= MOVES_MIN + region->n_lines / 16;
    }
    if (slot->untouched_at_us > now_us && is_less(&region->loss, &loss)) {
        region->loss = loss;
    }
    return true;
}

/* Examines the region of @order at @line. False: it cannot be cleared, or is free. */
static bool look_at_region(const struct memory_table *table, uint32_t line, unsigned order,
                           uint64_t now_us, struct region *region)
{
    const struct memory_heap *heap = &table->heap;
    *region = (struct region){.line = line, .n_lines = lines_of(order), .loss = NO_LOSS};
    if (line >= heap->n_lines || heap->n_lines - line < region->n_lines) {
        return false;
    }
    bool is_free = true;
    uint32_t block = memory_heap_block_at(heap, region->line);
    while (block < region->line + region->n_lines) {
        const uint32_t end = end_of(heap, block);
        region->n_seen++;
        if (memory_heap_kind(heap, block) == MEMORY_LINE_TAKEN) {
            is_free = false;
            const struct memory_slot *slot = memory_table_slot(table, block);
            if (!count_slot(table, slot, end - block, now_us, region)) {
                return false;
            }
        }
        block = end;
    }
    return !is_free;
}

static bool find_region(struct memory_table *table, unsigned order, uint64_t now_us,
                        struct region *best)
{
    const uint32_t n_lines = lines_of(order);
    const uint32_t n_seen_max = SEEN_MIN + 4 * n_lines;
    uint32_t n_seen = 0;
    uint32_t n_found = 0;
    for (int i = 0; i < SCAN_MAX && n_seen < n_seen_max && n_found * n_lines < SAMPLE; i++) {
        struct region region;
        const uint32_t line = move_hand(table) & ~(n_lines - 1);
        const bool can_be_cleared = look_at_region(table, line, order, now_us, &region);
        n_seen += region.n_seen;
        if (can_be_cleared) {
            if (n_found == 0 || is_less(&region.loss, &best->loss)) {
                *best = region;
            }
            n_found++;
        }
    }
    return n_found > 0;
}

static void drop_in(struct memory_table *table, const struct region *region, uint64_t now_us)
{
    const struct memory_heap *heap = &table->heap;
    for (uint32_t line = region->line; line < region->line + region->n_lines;) {
        const uint32_t block = memory_heap_block_at(heap, line);
        line = end_of(heap, block);
        if (memory_heap_kind(heap, block) == MEMORY_LINE_TAKEN) {
            struct memory_slot *slot = memory_table_slot(table, block);
            if (!is_fixed(slot, now_us)) {
                drop(table, slot, now_us);
            }
        }
    }
}

static bool move_aside(struct memory_table *table, uint32_t block, uint64_t now_us)
{
    const unsigned order = memory_heap_order_of(&table->heap, block);
    uint32_t line = memory_heap_take(&table->heap, order);
    if (line == MEMORY_NO_LINE && drop_some(table, 0, now_us)) {
        line = memory_heap_take(&table->heap, order);
    }
    if (line == MEMORY_NO_LINE) {
        return false;
    }
    (void)memory_table_move(table, memory_table_slot(table, block), line);
    memory_heap_hold(&table->heap, block);
    return true;
}

/* Moves the remaining states out of @region. Free blocks in it are held meanwhile, so that no state
 * is moved back into it. */
static bool move_out(struct memory_table *table, const struct region *region, uint64_t now_us)
{
    struct memory_heap *heap = &table->heap;
    const uint32_t end = region->line + region->n_lines;
    for (uint32_t line = region->line; line < end; line = end_of(heap, line)) {
        if (memory_heap_kind(heap, line) == MEMORY_LINE_FREE) {
            memory_heap_hold(heap, line);
        }
    }
    bool all = true;
    for (uint32_t line = region->line; line < end && all; line = end_of(heap, line)) {
        if (memory_heap_kind(heap, line) == MEMORY_LINE_TAKEN) {
            all = move_aside(table, line, now_us);
        }
    }
    for (uint32_t line = region->line; line < end;) {
        const uint32_t next = end_of(heap, line);
        if (memory_heap_kind(heap, line) == MEMORY_LINE_HELD) {
            memory_heap_give(heap, line);
        }
        line = next;
    }
    return all;
}

/* Whether a search for a large region failed recently. A client whose log cannot grow may retry at
 * once, and examining large regions takes long. */
static bool large_was_in_vain(const struct memory_table *table, unsigned order, uint64_t now_us)
{
    return order >= LARGE && order >= table->vain_order && now_us - table->vain_at_us < PAUSE_US;
}

static bool clear(struct memory_table *table, const struct region *region, uint64_t now_us)
{
    drop_in(table, region, now_us);
    return region->n_moves == 0 || move_out(table, region, now_us);
}

static bool clear_some(struct memory_table *table, unsigned order, uint64_t now_us)
{
    struct region region;
    if (large_was_in_vain(table, order, now_us)) {
        return false;
    }
    if (!find_region(table, order, now_us, &region)) {
        table->vain_order = order;
        table->vain_at_us = now_us;
        return false;
    }
    return clear(table, &region, now_us);
}

/* --- both --- */

/* The maximum of heap->n_taken for @need. If reserved lines are in use, other states need not be
 * dropped to make up for them. */
static uint32_t most_lines(const struct memory_table *table, const struct memory_need *need)
{
    const struct memory_heap *heap = &table->heap;
    const uint32_t most = heap->n_lines - (need->is_kept ? 0 : table->n_reserved);
    return heap->n_taken > most ? heap->n_taken : most;
}

static unsigned order_of(const struct memory_need *need)
{
    return memory_heap_order(sizeof(struct memory_slot) + need->state_bytes);
}

void memory_room_init(struct memory_table *table)
{
    const uint32_t prime =
        2654435761; /* coprime to the number of lines, so every line is reached */
    table->stride = prime % table->heap.n_lines;
    for (int i = 0; i < SAMPLE; i++) {
        table->ahead = step(table, table->ahead);
    }
}

uint32_t memory_room_take(struct memory_table *table, const struct memory_need *need, uint8_t group)
{
    struct memory_heap *heap = &table->heap;
    const unsigned order = order_of(need);
    const uint32_t most = most_lines(table, need);
    if (order >= MEMORY_ORDERS || lines_of(order) > most) {
        return MEMORY_NO_LINE;
    }
    for (int i = 0; i <= TRIES; i++) {
        if (heap->n_taken + lines_of(order) <= most) {
            const uint32_t line = memory_heap_take(heap, order);
            if (line != MEMORY_NO_LINE) {
                return line;
            }
        }
        if (!(order == 0 ? drop_some(table, table->n_group_lines[group], need->now_us)
                         : clear_some(table, order, need->now_us))) {
            break;
        }
    }
    return MEMORY_NO_LINE;
}

/* Extends the block at @line by its buddy, which avoids a copy. With @may_clear, states in the
 * buddy are dropped or moved first. */
static uint32_t extend(struct memory_table *table, uint32_t line, const struct memory_need *need,
                       bool may_clear)
{
    struct memory_heap *heap = &table->heap;
    const unsigned order = memory_heap_order_of(heap, line);
    struct region other;
    if (order_of(need) != order + 1) {
        return MEMORY_NO_LINE;
    }
    if (may_clear &&
        look_at_region(table, memory_heap_other_half(line, order), order, need->now_us, &other)) {
        (void)clear(table, &other, need->now_us);
    }
    return heap->n_taken + lines_of(order) <= most_lines(table, need)
               ? memory_heap_extend(heap, line)
               : MEMORY_NO_LINE;
}

struct memory_extent memory_room_grow(struct memory_table *table, uint32_t line,
                                      const struct memory_need *need)
{
    uint32_t extended = extend(table, line, need, false);
    if (extended == MEMORY_NO_LINE) {
        const struct memory_slot *slot = memory_table_slot(table, line);
        const uint32_t other = memory_room_take(table, need, slot->group);
        if (other != MEMORY_NO_LINE) {
            return (struct memory_extent){.line = other};
        }
        extended = extend(table, line, need, true);
    }
    return (struct memory_extent){.line = extended, .is_extended = true};
}
