#include "base/log_queue.h"

#include <stdlib.h>
#include <string.h>

enum status log_queue_init(struct log_queue *queue, size_t bytes)
{
    if (queue->queued.data != NULL) {
        return STATUS_OK;
    }
    char *queued = malloc(bytes);
    char *writing = malloc(bytes);
    if (queued == NULL || writing == NULL) {
        free(queued);
        free(writing);
        return STATUS_NO_MEMORY;
    }
    queue->queued = text_of(queued, bytes);
    queue->writing = text_of(writing, bytes);
    return STATUS_OK;
}

void log_queue_close(struct log_queue *queue)
{
    free(queue->queued.data);
    free(queue->writing.data);
    *queue = (struct log_queue){.is_full = false};
}

struct span log_queue_append(struct log_queue *queue, struct span lines)
{
    const size_t room = queue->is_full ? 0 : queue->queued.capacity - queue->queued.len;
    size_t bytes = lines.len;
    if (bytes > room) {
        const char *newline = room > 0 ? memrchr(lines.data, '\n', room) : NULL;
        bytes = newline != NULL ? (size_t)(newline + 1 - lines.data) : 0;
        queue->is_full = true;
    }
    text_add(&queue->queued, span_of(lines.data, bytes));
    return span_of(lines.data + bytes, lines.len - bytes);
}

struct span log_queue_exchange(struct log_queue *queue)
{
    struct text written = queue->writing;
    written.len = 0;
    queue->writing = queue->queued;
    queue->queued = written;
    queue->is_full = false;
    return text_span(&queue->writing);
}

uint64_t log_queue_count(struct span lines)
{
    uint64_t n = 0;
    const char *end = lines.data + lines.len;
    for (const char *c = lines.data; c < end && (c = memchr(c, '\n', (size_t)(end - c))); c++) {
        n++;
    }
    return n;
}
