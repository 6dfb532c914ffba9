/* Read-ahead of log lines in a separate thread. The thread hands over batches of lines in the order
 * in which it fills them. The result does not depend on the speed of the threads. */

#ifndef SLUICE_SIMULATION_LOG_FEED_H
#define SLUICE_SIMULATION_LOG_FEED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "simulation/log_order.h"

enum {
    LOG_BATCH_LINES = 256,
    LOG_FEED_BATCHES = 4,
};

struct log_batch {
    struct log_entry
        entries[LOG_BATCH_LINES]; /* each holds its block until the batch is filled anew */
    size_t n;
};

/* Fill @batch and release its former lines. False: these are the last lines. Runs in the feed's
 * thread. */
typedef bool (*log_feed_fill)(void *context, struct log_batch *batch);

/* All zero was never started. */
struct log_feed {
    log_feed_fill fill;
    void *context;
    pthread_t thread;
    bool is_running;
    struct log_batch *batches; /* LOG_FEED_BATCHES of them, used in turn */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    size_t n_filled; /* so far */
    size_t n_given_back;
    bool has_ended;  /* fill() has returned false */
    bool is_stopped; /* log_feed_stop() was called */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status log_feed_start(struct log_feed *feed, log_feed_fill fill, void *context);

/* Wait for the next batch; NULL: there is none. Give it back before the next call. */
MUST_USE struct log_batch *log_feed_next(struct log_feed *feed);
void log_feed_give_back(struct log_feed *feed);

/* End the thread and release the lines of its batches. */
void log_feed_stop(struct log_feed *feed);

/* Release the blocks of @batch's lines. For use in fill(). */
void log_batch_clear(struct log_batch *batch);

#endif /* SLUICE_SIMULATION_LOG_FEED_H */
