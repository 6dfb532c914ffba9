/* A reorder buffer that sorts lines by time. A late line is moved to its position if that position
 * has not been taken out yet. */

#ifndef SLUICE_SIMULATION_LOG_ORDER_H
#define SLUICE_SIMULATION_LOG_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "simulation/log_line.h"
#include "simulation/log_reader.h"

enum { LOG_ORDER_LINES = 2048 }; /* capacity: a line may be late by so many lines; a power of two */

/* A line in the buffer. */
struct log_entry {
    struct log_line line;
    struct log_block *block;   /* that holds its bytes */
    struct log_blocks *blocks; /* to which the block is released */
};

struct log_order {
    struct log_entry *entries;      /* LOG_ORDER_LINES of them */
    uint16_t ring[LOG_ORDER_LINES]; /* indices of the entries in use, the earliest first */
    uint16_t unused[LOG_ORDER_LINES];
    size_t first; /* in the ring */
    size_t n;
    uint64_t gone_us; /* time of the last line taken out */

    uint64_t n_late;  /* lines that were too late: they get the time of the last line taken out */
    uint64_t late_us; /* the greatest lateness */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status log_order_init(struct log_order *order);
void log_order_close(struct log_order *order);

static inline bool log_order_is_full(const struct log_order *order)
{
    return order->n == LOG_ORDER_LINES;
}

/* The buffer into which the next line is read. Must not be called while full. */
struct log_line *log_order_next(struct log_order *order);

/* Add the line that was read there; its bytes are in @block. False: it was too late for its
 * position. */
bool log_order_add(struct log_order *order, struct log_block *block, struct log_blocks *blocks);

/* Take out the earliest line; times never decrease. NULL: there is none. The entry is valid until
 * log_order_release(), and no line may be added before that. */
MUST_USE struct log_entry *log_order_take(struct log_order *order);
void log_order_release(struct log_order *order, struct log_entry *entry);

#endif /* SLUICE_SIMULATION_LOG_ORDER_H */
