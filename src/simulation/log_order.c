#include "simulation/log_order.h"

#include <assert.h>
#include <stdlib.h>

enum { MASK = LOG_ORDER_LINES - 1 };

enum status log_order_init(struct log_order *order)
{
    *order = (struct log_order){.entries = malloc(LOG_ORDER_LINES * sizeof(struct log_entry))};
    if (order->entries == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < LOG_ORDER_LINES; i++) {
        order->unused[i] = (uint16_t)i;
    }
    return STATUS_OK;
}

void log_order_close(struct log_order *order)
{
    struct log_entry *entry;
    while (order->n > 0 && (entry = log_order_take(order)) != NULL) {
        log_order_release(order, entry);
    }
    free(order->entries);
}

static struct log_entry *entry_at(const struct log_order *order, size_t i)
{
    return &order->entries[order->ring[(order->first + i) & MASK]];
}

struct log_line *log_order_next(struct log_order *order)
{
    assert(order->n < LOG_ORDER_LINES);
    return &order->entries[order->unused[LOG_ORDER_LINES - 1 - order->n]].line;
}

bool log_order_add(struct log_order *order, struct log_block *block, struct log_blocks *blocks)
{
    const uint16_t number = order->unused[LOG_ORDER_LINES - 1 - order->n];
    struct log_entry *entry = &order->entries[number];
    entry->block = block;
    entry->blocks = blocks;
    block->n_users++;
    const bool is_late = entry->line.time_us < order->gone_us;
    if (is_late) {
        const uint64_t late_us = order->gone_us - entry->line.time_us;
        order->n_late++;
        order->late_us = late_us > order->late_us ? late_us : order->late_us;
        entry->line.time_us = order->gone_us;
    }
    size_t i = order->n++;
    while (i > 0 && entry_at(order, i - 1)->line.time_us > entry->line.time_us) {
        order->ring[(order->first + i) & MASK] = order->ring[(order->first + i - 1) & MASK];
        i--;
    }
    order->ring[(order->first + i) & MASK] = number;
    return !is_late;
}

struct log_entry *log_order_take(struct log_order *order)
{
    if (order->n == 0) {
        return NULL;
    }
    struct log_entry *entry = entry_at(order, 0);
    order->first = (order->first + 1) & MASK;
    order->n--;
    order->gone_us = entry->line.time_us;
    return entry;
}

void log_order_release(struct log_order *order, struct log_entry *entry)
{
    order->unused[LOG_ORDER_LINES - 1 - order->n] = (uint16_t)(entry - order->entries);
    log_block_release(entry->blocks, entry->block);
}
