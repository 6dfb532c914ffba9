#include "simulation/log_feed.h"

#include <stdlib.h>

void log_batch_clear(struct log_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        log_block_release(batch->entries[i].blocks, batch->entries[i].block);
    }
    batch->n = 0;
}

/* Wait for a batch that may be filled; NULL: no more is wanted. */
static struct log_batch *wait_for_room(struct log_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_stopped && feed->n_filled - feed->n_given_back == LOG_FEED_BATCHES) {
        pthread_cond_wait(&feed->changed, &feed->lock);
    }
    struct log_batch *batch =
        feed->is_stopped ? NULL : &feed->batches[feed->n_filled % LOG_FEED_BATCHES];
    pthread_mutex_unlock(&feed->lock);
    return batch;
}

static void *run(void *context)
{
    struct log_feed *feed = context;
    struct log_batch *batch;
    bool is_last = false;
    while (!is_last && (batch = wait_for_room(feed)) != NULL) {
        is_last = !feed->fill(feed->context, batch);
        pthread_mutex_lock(&feed->lock);
        feed->n_filled++;
        feed->has_ended = is_last;
        pthread_cond_broadcast(&feed->changed);
        pthread_mutex_unlock(&feed->lock);
    }
    return NULL;
}

enum status log_feed_start(struct log_feed *feed, log_feed_fill fill, void *context)
{
    *feed = (struct log_feed){.fill = fill, .context = context};
    feed->batches = calloc(LOG_FEED_BATCHES, sizeof(feed->batches[0]));
    if (feed->batches == NULL) {
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&feed->lock, NULL); /* plain: neither can fail on Linux */
    pthread_cond_init(&feed->changed, NULL);
    feed->is_running = pthread_create(&feed->thread, NULL, run, feed) == 0;
    return feed->is_running ? STATUS_OK : STATUS_NO_MEMORY;
}

struct log_batch *log_feed_next(struct log_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    while (!feed->has_ended && feed->n_filled == feed->n_given_back) {
        pthread_cond_wait(&feed->changed, &feed->lock);
    }
    struct log_batch *batch = feed->n_filled == feed->n_given_back
                                  ? NULL
                                  : &feed->batches[feed->n_given_back % LOG_FEED_BATCHES];
    pthread_mutex_unlock(&feed->lock);
    return batch;
}

void log_feed_give_back(struct log_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->n_given_back++;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
}

void log_feed_stop(struct log_feed *feed)
{
    if (feed->batches == NULL) {
        return;
    }
    if (feed->is_running) {
        pthread_mutex_lock(&feed->lock);
        feed->is_stopped = true;
        pthread_cond_broadcast(&feed->changed);
        pthread_mutex_unlock(&feed->lock);
        pthread_join(feed->thread, NULL);
    }
    for (size_t i = 0; i < LOG_FEED_BATCHES; i++) {
        log_batch_clear(&feed->batches[i]);
    }
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed->batches);
    feed->batches = NULL;
}
