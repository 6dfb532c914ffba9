#include "simulation/log_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulation/log_line.h"

void log_reader_init(struct log_reader *reader, int fd, struct log_blocks *blocks)
{
    *reader = (struct log_reader){.fd = fd, .blocks = blocks};
}

void log_reader_close(struct log_reader *reader)
{
    if (reader->fd >= 0) {
        close(reader->fd);
    }
    if (reader->block != NULL) {
        log_block_release(reader->blocks, reader->block);
    }
    reader->block = NULL;
    reader->fd = -1;
}

static struct log_block *take_block(struct log_blocks *blocks)
{
    struct log_block *block = blocks->free;
    if (block != NULL) {
        blocks->free = block->next;
    } else {
        block = malloc(sizeof(*block));
    }
    if (block != NULL) {
        blocks->n_used++;
        block->n_users = 1;
        block->len = 0;
    }
    return block;
}

void log_block_release(struct log_blocks *blocks, struct log_block *block)
{
    if (--block->n_users == 0) {
        block->next = blocks->free;
        blocks->free = block;
        blocks->n_used--;
    }
}

void log_blocks_close(struct log_blocks *blocks)
{
    while (blocks->free != NULL) {
        struct log_block *next = blocks->free->next;
        free(blocks->free);
        blocks->free = next;
    }
}

/* Read until the block is full or the log has ended: a pipe gives little at a time. */
static enum status fill(struct log_reader *reader)
{
    struct log_block *block = reader->block;
    while (block->len < sizeof(block->bytes) && !reader->has_ended) {
        const ssize_t n =
            read(reader->fd, block->bytes + block->len, sizeof(block->bytes) - block->len);
        if (n < 0 && errno != EINTR) {
            return STATUS_IO;
        }
        reader->has_ended = n == 0;
        block->len += n > 0 ? (size_t)n : 0;
        reader->n_bytes += n > 0 ? (uint64_t)n : 0;
    }
    return STATUS_OK;
}

/* Go on in a new block, which begins with what of the last is not a whole line. */
static enum status next_block(struct log_reader *reader)
{
    struct log_block *last = reader->block;
    struct log_block *block = take_block(reader->blocks);
    if (block == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (last != NULL) {
        block->len = last->len - reader->at;
        memcpy(block->bytes, last->bytes + reader->at, block->len);
        log_block_release(reader->blocks, last);
    }
    reader->block = block;
    reader->at = 0;
    return fill(reader);
}

/* The line that ends at @end in the block. */
static enum log_next cut(struct log_reader *reader, size_t end, size_t skip, char **line,
                         size_t *len)
{
    *line = reader->block->bytes + reader->at;
    *len = end - reader->at;
    reader->at = end + skip;
    reader->n_lines++;
    if (*len > 0 && (*line)[*len - 1] == '\r') {
        --*len;
    }
    return *len > LOG_LINE_BYTES_MAX ? LOG_NEXT_TOO_LONG : LOG_NEXT_LINE;
}

static char *find_end(const struct log_reader *reader)
{
    return reader->block == NULL
               ? NULL
               : memchr(reader->block->bytes + reader->at, '\n', reader->block->len - reader->at);
}

/* Go to where the next line begins. */
static enum status skip_rest(struct log_reader *reader)
{
    while (reader->goes_on) {
        const char *end = find_end(reader);
        reader->at = end != NULL ? (size_t)(end - reader->block->bytes) + 1 : reader->block->len;
        reader->goes_on = end == NULL && !reader->has_ended;
        if (reader->goes_on && next_block(reader) != STATUS_OK) {
            return STATUS_IO;
        }
    }
    return STATUS_OK;
}

enum log_next log_reader_next(struct log_reader *reader, char **line, size_t *len)
{
    if (skip_rest(reader) != STATUS_OK) {
        return LOG_NEXT_FAILED;
    }
    char *end = find_end(reader);
    if (end == NULL && !reader->has_ended) {
        if (next_block(reader) != STATUS_OK) {
            return LOG_NEXT_FAILED;
        }
        end = find_end(reader);
    }
    if (end != NULL) {
        return cut(reader, (size_t)(end - reader->block->bytes), 1, line, len);
    }
    if (reader->block->len > reader->at) { /* a last line without an end, or a block of one line */
        reader->goes_on = !reader->has_ended;
        return cut(reader, reader->block->len, 0, line, len);
    }
    return LOG_NEXT_END;
}

enum status log_reader_peek(struct log_reader *reader, const char **bytes, size_t *len)
{
    const enum status status = reader->block == NULL ? next_block(reader) : STATUS_OK;
    if (status == STATUS_OK) {
        *bytes = reader->block->bytes;
        *len = reader->block->len;
    }
    return status;
}
