/* Lines read ahead by a thread of their own: batches of them, handed over in the order in which
 * they were filled. Which thread is faster changes nothing of what comes. */

#ifndef SLUICE_TRIAL_LOG_FEED_H
#define SLUICE_TRIAL_LOG_FEED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "trial/log_order.h"

enum {
    LOG_BATCH_LINES = 256,
    LOG_FEED_BATCHES = 4,
};

struct log_batch {
    struct log_entry
        entries[LOG_BATCH_LINES]; /* each holds its block until the batch is filled anew */
    size_t n;
};

/* Fill @batch, whose former lines are let go; false: these were the last. In the feed's thread. */
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
    bool has_ended;  /* no more will be filled */
    bool is_stopped; /* no more is wanted */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status log_feed_start(struct log_feed *feed, log_feed_fill fill, void *context);

/* The next batch, when it is there; NULL: there is none. Give it back before asking again. */
MUST_USE struct log_batch *log_feed_next(struct log_feed *feed);
void log_feed_give_back(struct log_feed *feed);

/* End the thread; what its batches hold is let go. */
void log_feed_stop(struct log_feed *feed);

/* Let the blocks of @batch's lines go: for fill(). */
void log_batch_clear(struct log_batch *batch);

#endif /* SLUICE_TRIAL_LOG_FEED_H */
