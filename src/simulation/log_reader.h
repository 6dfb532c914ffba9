/* Reader of the lines of one log, in large blocks. Lines are parsed in place in their block, and a
 * block is kept while one of its lines is in use. */

#ifndef SLUICE_SIMULATION_LOG_READER_H
#define SLUICE_SIMULATION_LOG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

enum { LOG_BLOCK_BYTES = 1024 * 1024 };

/* The pool of blocks; unused blocks are kept. All zero is empty. */
struct log_blocks {
    struct log_block *free;
    size_t n_used;
};

struct log_block {
    struct log_block *next; /* while it is free */
    uint32_t n_users;       /* lines in use, plus the reader while it reads the block */
    size_t len;
    char bytes[LOG_BLOCK_BYTES];
};

struct log_reader {
    int fd;
    struct log_block *block;   /* NULL: none was read yet */
    size_t at;                 /* offset of the next line in it */
    struct log_blocks *blocks; /* shared with other readers */
    bool has_ended;
    bool goes_on; /* the bytes from @at are the rest of a line that was too long */
    uint64_t n_lines;
    uint64_t n_bytes; /* read so far */
};

enum log_next {
    LOG_NEXT_LINE,
    LOG_NEXT_TOO_LONG, /* longer than LOG_LINE_BYTES_MAX: its beginning, at most a block */
    LOG_NEXT_END,
    LOG_NEXT_FAILED, /* errno has the reason; or no memory */
};

/* Read from @fd (taken over); blocks are taken from and released to @blocks. */
void log_reader_init(struct log_reader *reader, int fd, struct log_blocks *blocks);

/* Close the fd and release the block. */
void log_reader_close(struct log_reader *reader);

/* The next line, without its end (LF or CR LF), in *line, which points into reader->block. */
MUST_USE enum log_next log_reader_next(struct log_reader *reader, char **line, size_t *len);

/* Read the first block without consuming it: its bytes, which may end within a line. STATUS_IO:
 * errno has the reason; STATUS_NO_MEMORY. */
MUST_USE enum status log_reader_peek(struct log_reader *reader, const char **bytes, size_t *len);

void log_block_release(struct log_blocks *blocks, struct log_block *block);

/* Free the unused blocks. */
void log_blocks_close(struct log_blocks *blocks);

#endif /* SLUICE_SIMULATION_LOG_READER_H */
