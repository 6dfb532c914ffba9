/* The input side of a stream: a head, then a body in pieces, then perhaps the next head. Used for
 * clients and servers.
 *
 * Blocks are borrowed from the worker's pools only while they hold data, so an idle connection has
 * none. A head stays in its block until inbox_end_message(), so spans into it live as long as its
 * exchange. The rest of a body is read into a separate block.
 *
 * A long body of known length can bypass user space: while each read fills a block, and the
 * consumer accepts pipes, its bytes go through a pipe. Its first and last bytes are always read. */

#ifndef SLUICE_PROXY_CORE_INBOX_H
#define SLUICE_PROXY_CORE_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "http/chunked.h"
#include "http/head.h"
#include "net/pipe.h"
#include "net/stream.h"

enum {
    /* Per loop iteration, so that one fast peer does not starve the others. */
    PUMP_READS_MAX = 8,
    PIPE_READS = PIPE_BYTES / IO_BLOCK_BYTES, /* filling a pipe counts as this many reads */
};

struct inbox {
    struct stream *stream;        /* borrowed */
    struct pool *head_pool;       /* blocks for heads; NULL: not known yet */
    struct pool *large_head_pool; /* for a head that exceeds a block of head_pool; NULL: none */
    struct pool *body_pool;       /* blocks for bodies */
    struct pool *small_pool;      /* smaller blocks for bodies that are consumed slowly */
    bool is_small;                /* read the body into a small block */
    size_t read_max;              /* bytes of a body per read: the room that the consumer has */
    struct pipe_pool *pipes;      /* NULL: there are none */
    bool takes_pipe;              /* the consumer of the body accepts a pipe now, and keeps up */
    bool is_rushing;              /* the last read filled a block, so more is probably there */
    struct pipe *pipe;            /* NULL: none in use */
    char *head_block;             /* NULL: none in use */
    size_t head_start;            /* of the bytes that are not consumed */
    size_t head_end;              /* of the bytes that were read */
    char *body_block;             /* NULL: none in use */
    struct pool *body_block_pool; /* the pool of body_block */
    size_t body_start;
    size_t body_end;
    enum body_kind kind;            /* of the current message */
    uint64_t left;                  /* BODY_LENGTH: bytes still to come */
    struct chunked_decoder decoder; /* for BODY_CHUNKED */
    bool ended;                     /* the whole body has been returned */
    /* read one byte beyond a body of known length, to detect extra bytes, which answer no request
     * (RFC 9112 section 9.2) */
    bool looks_beyond;
    struct http_error error; /* with INBOX_BAD */
};

enum inbox_result {
    INBOX_PIECE,   /* bytes of the body; valid until the next call */
    INBOX_PIPED,   /* bytes of the body in `pipe`, not the last; empty it before the next call */
    INBOX_END,     /* the body has ended */
    INBOX_BLOCKED, /* no data now: wait for on_readable */
    INBOX_CUT,     /* the connection ended or broke before the end of the body; or no memory */
    INBOX_BAD,     /* the body is malformed: see error */
};

void inbox_init(struct inbox *inbox, struct stream *stream, struct pool *head_pool,
                struct pool *body_pool, struct pool *small_pool);

/* Take blocks for heads from @pool from now on, and move the bytes of the next head into such a
 * block. False: they do not fit, or no memory; nothing has changed. */
MUST_USE bool inbox_move_head(struct inbox *inbox, struct pool *pool);

/* Return all blocks. */
void inbox_close(struct inbox *inbox);

/* Read more of a head: one system call. STREAM_BROKEN also when the block is full, with no larger
 * one, or there is no memory; a parser with a maximum reports a head that is too large before
 * that. */
MUST_USE enum stream_result inbox_read_head(struct inbox *inbox);

/* The bytes of the next head that were read and not consumed. */
struct span inbox_head_bytes(const struct inbox *inbox);

/* The head took @n bytes and announced a body of @kind. */
void inbox_begin_body(struct inbox *inbox, size_t n, enum body_kind kind, uint64_t content_length);

/* The next piece of the body; reads at most once. *last with INBOX_PIECE: this is the last one. */
MUST_USE enum inbox_result inbox_next(struct inbox *inbox, struct span *piece, bool *last);

/* Whether the next inbox_next() has to read, and the rest of the body may exceed a small block. */
bool inbox_wants_large_block(const struct inbox *inbox);

/* Whether the next inbox_next() would fill a pipe if the consumer accepts one. */
bool inbox_wants_pipe(const struct inbox *inbox);

/* The last piece has been sent, and the loop goes on to other connections: return an empty body
 * block and an empty pipe to their pools. */
void inbox_end_iteration(struct inbox *inbox);

/* No span into the head is used any more: return its block, if it is empty, though the body goes
 * on. */
void inbox_release_head(struct inbox *inbox);

/* Whether inbox_next() has bytes without a system call. */
bool inbox_has_bytes(const struct inbox *inbox);

/* The head that was just passed to inbox_begin_body() has no body, and another head of the same
 * exchange follows: make room for that. No span into the first head may be used any more. */
void inbox_end_head(struct inbox *inbox);

/* The message is over and no span into it is used any more: make room for the next one. Bytes that
 * were read beyond its body become the start of the next head. False: they could not be kept (no
 * memory, or they do not fit); they are lost and the connection must be closed. */
MUST_USE bool inbox_end_message(struct inbox *inbox);

#endif /* SLUICE_PROXY_CORE_INBOX_H */
