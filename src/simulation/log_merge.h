/* The lines of several logs, merged by time. */

#ifndef SLUICE_SIMULATION_LOG_MERGE_H
#define SLUICE_SIMULATION_LOG_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "simulation/log_feed.h"
#include "simulation/log_order.h"
#include "simulation/log_source.h"
#include "simulation/replay_options.h"
#include "simulation/statistics.h"

struct log_merge {
    struct log_source *sources; /* the open ones */
    size_t n_sources;
    struct log_blocks blocks;
    struct log_order order;
    void (*on_progress)(void *context, const struct replay_progress *progress); /* may be NULL */
    void *context;
    struct replay_progress progress;

    uint64_t n_unread; /* lines that could not be read */
    struct statistics_sample samples[STATISTICS_SAMPLES];
    uint64_t n_moved;   /* lines out of order that were moved to their position */
    enum status status; /* STATUS_IO: reading of a log failed with the errno in error */
    int error;
};

/* Fill @batch with the next lines in order of time. A log_feed_fill; @context is a struct
 * log_merge. */
MUST_USE bool log_merge_fill(void *context, struct log_batch *batch);

/* Report the progress of reading. */
void log_merge_report(struct log_merge *merge);

#endif /* SLUICE_SIMULATION_LOG_MERGE_H */
