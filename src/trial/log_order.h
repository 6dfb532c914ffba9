/* Lines in the order of time: those that came late are put in their place
 * while it is still to come. */

#ifndef SLUICE_TRIAL_LOG_ORDER_H
#define SLUICE_TRIAL_LOG_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "trial/log_line.h"
#include "trial/log_reader.h"

enum {
    LOG_ORDER_LINES = 2048
}; /* so many lines later a line may still be put in its place; a power of two */

/* A line that waits for its turn. */
struct log_entry {
    struct log_line line;
    struct log_block *block;   /* that it lies in */
    struct log_blocks *blocks; /* where that goes */
};

struct log_order {
    struct log_entry *entries;      /* LOG_ORDER_LINES of them */
    uint16_t ring[LOG_ORDER_LINES]; /* numbers of those that wait, the earliest first */
    uint16_t unused[LOG_ORDER_LINES];
    size_t first; /* in the ring */
    size_t n;
    uint64_t gone_us; /* time of the last that was taken out */

    uint64_t n_late; /* lines that came too late for their place: they count as if they came then */
    uint64_t late_us; /* by how much at most */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status log_order_init(struct log_order *order);
void log_order_close(struct log_order *order);

static inline bool log_order_is_full(const struct log_order *order)
{
    return order->n == LOG_ORDER_LINES;
}

/* Where the next line may be read into. Not while full. */
struct log_line *log_order_next(struct log_order *order);

/* What was read there lies in @block: it waits for its turn. False: it came
 * too late for its place. */
bool log_order_add(struct log_order *order, struct log_block *block, struct log_blocks *blocks);

/* Take the earliest out; its time is never before that of the one before. NULL: there is none. It
 * is good until log_order_release(), and nothing may be added before that. */
MUST_USE struct log_entry *log_order_take(struct log_order *order);
void log_order_release(struct log_order *order, struct log_entry *entry);

#endif /* SLUICE_TRIAL_LOG_ORDER_H */
