/* The lines of one log, read in large blocks. A line lies in its block, to be read in place, and
 * the block stays while a line of it is still wanted. */

#ifndef SLUICE_TRIAL_LOG_READER_H
#define SLUICE_TRIAL_LOG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

enum { LOG_BLOCK_BYTES = 1024 * 1024 };

/* All of them; those that nobody uses are kept. All zero is none. */
struct log_blocks {
    struct log_block *free;
    size_t n_used;
};

/* Counted by the lines that are wanted, and by the reader while it is in it. */
struct log_block {
    struct log_block *next; /* while it is free */
    uint32_t n_users;
    size_t len;
    char bytes[LOG_BLOCK_BYTES];
};

struct log_reader {
    int fd;
    struct log_block *block;   /* NULL: none was read yet */
    size_t at;                 /* of the next line in it */
    struct log_blocks *blocks; /* shared with others */
    bool has_ended;
    bool goes_on; /* what begins at @at is the rest of a line that was too long */
    uint64_t n_lines;
    uint64_t n_bytes; /* read so far */
};

enum log_next {
    LOG_NEXT_LINE,
    LOG_NEXT_TOO_LONG, /* longer than LOG_LINE_BYTES_MAX: its beginning, of a block at most */
    LOG_NEXT_END,
    LOG_NEXT_FAILED, /* errno says why; or no memory */
};

/* Read from @fd (taken over), with blocks from and to @blocks. */
void log_reader_init(struct log_reader *reader, int fd, struct log_blocks *blocks);

/* Close the fd and let the block go. */
void log_reader_close(struct log_reader *reader);

/* The next line, without its end (LF or CR LF), in *line; it lies in reader->block. */
MUST_USE enum log_next log_reader_next(struct log_reader *reader, char **line, size_t *len);

/* Read the first block, and leave it to be read: what is in it, whole lines or not. STATUS_IO:
 * errno says why; STATUS_NO_MEMORY. */
MUST_USE enum status log_reader_peek(struct log_reader *reader, const char **bytes, size_t *len);

void log_block_release(struct log_blocks *blocks, struct log_block *block);

/* Free the blocks that nobody uses. */
void log_blocks_close(struct log_blocks *blocks);

#endif /* SLUICE_TRIAL_LOG_READER_H */
