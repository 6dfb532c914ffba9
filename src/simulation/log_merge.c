#include "simulation/log_merge.h"

#include <errno.h>
#include <string.h>

enum {
    PROGRESS_EVERY = 16384, /* lines */
    BLOCKS_MAX = 64,        /* that lines wait in: then they wait no longer */
};

static void keep_sample(struct log_merge *merge, const struct log_source *source, const char *bytes,
                        size_t len)
{
    if (merge->n_unread++ >= STATISTICS_SAMPLES) {
        return;
    }
    struct statistics_sample *sample = &merge->samples[merge->n_unread - 1];
    sample->path = source->path;
    sample->line = source->reader.n_lines;
    sample->len = len;
    memcpy(sample->text, bytes, len);
}

void log_merge_report(struct log_merge *merge)
{
    merge->progress.n_bytes = 0;
    for (size_t i = 0; i < merge->n_sources; i++) {
        merge->progress.n_bytes += merge->sources[i].reader.n_bytes;
    }
    if (merge->on_progress != NULL) {
        merge->on_progress(merge->context, &merge->progress);
    }
}

/* A line of @source, which @next is about; its start is kept, since reading changes it. */
static void add_line(struct log_merge *merge, struct log_source *source, enum log_next next,
                     char *bytes, size_t len)
{
    char start[STATISTICS_SAMPLE_BYTES];
    const size_t n_kept = len < sizeof(start) ? len : sizeof(start);
    struct log_line *line = log_order_next(&merge->order);
    memcpy(start, bytes, n_kept);
    if (next == LOG_NEXT_TOO_LONG || !log_source_read(source, bytes, len, line)) {
        keep_sample(merge, source, start, n_kept);
        return;
    }
    const bool is_behind = line->time_us < source->latest_us;
    source->latest_us = is_behind ? source->latest_us : line->time_us;
    source->reached_us = line->time_us < source->last_us ? line->time_us : source->last_us;
    source->last_us = line->time_us;
    const bool is_in_place = log_order_add(&merge->order, source->reader.block, &merge->blocks);
    merge->n_moved += is_behind && is_in_place;
}

static void read_line(struct log_merge *merge, struct log_source *source)
{
    char *bytes = NULL;
    size_t len = 0;
    const enum log_next next = log_reader_next(&source->reader, &bytes, &len);
    source->has_ended = next == LOG_NEXT_END || next == LOG_NEXT_FAILED;
    if (next == LOG_NEXT_FAILED) {
        merge->status = STATUS_IO;
        merge->error = errno;
    }
    if (source->has_ended || len == 0) {
        return;
    }
    if (++merge->progress.n_lines % PROGRESS_EVERY == 0) {
        log_merge_report(merge);
    }
    add_line(merge, source, next, bytes, len);
}

/* The log that is the furthest behind; NULL: all have ended. */
static struct log_source *next_source(struct log_merge *merge)
{
    struct log_source *found = NULL;
    for (size_t i = 0; i < merge->n_sources; i++) {
        struct log_source *source = &merge->sources[i];
        if (!source->has_ended && (found == NULL || source->reached_us < found->reached_us)) {
            found = source;
        }
    }
    return found;
}

/* The earliest line that waits moves to @batch, and its block with it. */
static void take_earliest(struct log_merge *merge, struct log_batch *batch)
{
    struct log_entry *entry = log_order_take(&merge->order);
    entry->block->n_users++;
    batch->entries[batch->n++] = *entry;
    log_order_release(&merge->order, entry);
}

/* Lines wait no longer: there are too many, or in too many blocks. */
static bool is_crowded(const struct log_merge *merge)
{
    return log_order_is_full(&merge->order) ||
           (merge->order.n > 0 &&
            merge->blocks.n_used > merge->n_sources + LOG_FEED_BATCHES + BLOCKS_MAX);
}

bool log_merge_fill(void *context, struct log_batch *batch)
{
    struct log_merge *merge = context;
    log_batch_clear(batch);
    while (batch->n < LOG_BATCH_LINES && merge->status == STATUS_OK) {
        struct log_source *source = next_source(merge);
        if (source == NULL && merge->order.n == 0) {
            return false;
        }
        if (source == NULL || is_crowded(merge)) {
            take_earliest(merge, batch);
        } else {
            read_line(merge, source);
        }
    }
    return merge->status == STATUS_OK;
}
