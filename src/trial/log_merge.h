/* The lines of several logs, merged by time. */

#ifndef SLUICE_TRIAL_LOG_MERGE_H
#define SLUICE_TRIAL_LOG_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "trial/log_feed.h"
#include "trial/log_order.h"
#include "trial/log_source.h"
#include "trial/replay.h"
#include "trial/tally.h"

struct log_merge {
    struct log_source *sources; /* those that are open */
    size_t n_sources;
    struct log_blocks blocks;
    struct log_order order;
    void (*on_progress)(void *context, const struct replay_progress *progress); /* may be NULL */
    void *context;
    struct replay_progress progress;

    uint64_t n_unread; /* lines that could not be read */
    struct tally_sample samples[TALLY_SAMPLES];
    uint64_t n_moved;   /* lines out of order, that were put in their place */
    enum status status; /* STATUS_IO: a log could not be read on, and why is in error, an errno */
    int error;
};

/* Fill @batch with the lines that are next in the order of time: a
 * log_feed_fill of struct log_merge. */
MUST_USE bool log_merge_fill(void *context, struct log_batch *batch);

/* Tell how far reading has come. */
void log_merge_tell(struct log_merge *merge);

#endif /* SLUICE_TRIAL_LOG_MERGE_H */
