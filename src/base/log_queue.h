/* The queue of a log: two buffers, of which lines are appended to one while a thread writes the
 * other. The caller locks. */

#ifndef SLUICE_BASE_LOG_QUEUE_H
#define SLUICE_BASE_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"

/* All zero takes no lines. */
struct log_queue {
    struct text queued;
    struct text writing;
    bool is_full; /* lines did not fit: no more are taken before the exchange, so that none stands
                     before those that are missing */
};

/* @bytes: of each buffer. A queue that is initialised stays as it is. STATUS_NO_MEMORY. */
MUST_USE enum status log_queue_init(struct log_queue *queue, size_t bytes);
void log_queue_close(struct log_queue *queue);

/* Append as many whole lines as there is room for. What is left of @lines. */
struct span log_queue_append(struct log_queue *queue, struct span lines);

/* The lines that were appended since the last exchange, for the thread, which has written those
 * before. They stay until the next one. */
struct span log_queue_exchange(struct log_queue *queue);

/* How many newlines there are. */
uint64_t log_queue_count(struct span lines);

#endif /* SLUICE_BASE_LOG_QUEUE_H */
