/* What arrives on a stream: a head, then a body in pieces, then perhaps the next head. The same
 * for both sides of the proxy.
 *
 * Blocks are borrowed from the worker's pools while there is something in them, so an idle
 * connection has none. A head stays in its block until inbox_end_message(), so that spans into it
 * live as long as its exchange; a body that goes on is read into a block of its own.
 *
 * A long body of known length need not be read: while it comes faster than it fills blocks, and
 * whoever takes it has said so, its bytes go through a pipe. Its first and its last ones are read
 * in any case. */

#ifndef SLUICE_PROXY_INBOX_H
#define SLUICE_PROXY_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/pool.h"
#include "base/span.h"
#include "http/chunked.h"
#include "http/head.h"
#include "net/pipe.h"
#include "net/stream.h"

enum {
    /* Per turn of the loop, so that one fast peer does not starve the others. */
    PUMP_READS_MAX = 8,
    PIPE_READS = PIPE_BYTES / IO_BLOCK_BYTES, /* that filling a pipe counts for */
};

struct inbox {
    struct stream *stream;        /* borrowed */
    struct pool *head_pool;       /* blocks for heads; NULL: not known yet */
    struct pool *body_pool;       /* blocks for bodies */
    struct pool *small_pool;      /* smaller ones, for who cannot take much */
    bool is_small;                /* read into such a one */
    size_t read_max;              /* of a body at once: who takes it has room for no more */
    struct pipe_pool *pipes;      /* NULL: there are none */
    bool takes_pipe;              /* who takes the body takes a pipe just now, and keeps up */
    bool is_rushing;              /* what was read last filled a block: there is more */
    struct pipe *pipe;            /* NULL: nothing there */
    char *head_block;             /* NULL: nothing there */
    size_t head_start;            /* of what is not consumed */
    size_t head_end;              /* of what was read */
    char *body_block;             /* NULL: nothing there */
    struct pool *body_block_pool; /* that it is of */
    size_t body_start;
    size_t body_end;
    enum body_kind kind;            /* of the message's body */
    uint64_t left;                  /* of BODY_LENGTH: bytes still to come */
    struct chunked_decoder decoder; /* of BODY_CHUNKED */
    bool ended;                     /* the body has been given out whole */
    bool looks_beyond;       /* read on by a byte behind a body of known length: who sends more
                                     * than that answers nobody (RFC 9112 section 9.2) */
    struct http_error error; /* with INBOX_BAD */
};

enum inbox_result {
    INBOX_PIECE, /* bytes of the body; valid until the next call */
    INBOX_PIPED, /* the same, in `pipe`, not the last of it; to be taken out before the next call */
    INBOX_END,   /* the body has ended */
    INBOX_BLOCKED, /* nothing there now: wait for on_readable */
    INBOX_CUT,     /* the connection ended or broke before the body did */
    INBOX_BAD,     /* the body breaks the rules: see error */
};

void inbox_init(struct inbox *inbox, struct stream *stream, struct pool *head_pool,
                struct pool *body_pool, struct pool *small_pool);

/* From now on blocks for heads are of @pool: what is there of the next one moves into one of those.
 * False: there is more than fits, or no memory, and nothing has changed. */
MUST_USE bool inbox_move_head(struct inbox *inbox, struct pool *pool);

/* Give all blocks back. */
void inbox_close(struct inbox *inbox);

/* Read more of a head: one system call. STREAM_BROKEN also when the block is full or there is no
 * memory; a parser that knows its maximum says so before. */
MUST_USE enum stream_result inbox_read_head(struct inbox *inbox);

/* What was read and not consumed of the next head. */
struct span inbox_head_bytes(const struct inbox *inbox);

/* The head took @n bytes and announced a body of @kind. */
void inbox_begin_body(struct inbox *inbox, size_t n, enum body_kind kind, uint64_t content_length);

/* The next piece of the body; reads at most once. *last with
 * INBOX_PIECE: nothing follows it. */
MUST_USE enum inbox_result inbox_next(struct inbox *inbox, struct span *piece, bool *last);

/* Whether the next inbox_next() has to read, and would fill more than a
 * small block if so much came. */
bool inbox_wants_large_block(const struct inbox *inbox);

/* Whether the next inbox_next() would fill a pipe for who takes one. */
bool inbox_wants_pipe(const struct inbox *inbox);

/* The last piece has been handed on and has gone out, and the loop sees others now: an empty block
 * for bodies is theirs, and an empty pipe. */
void inbox_end_turn(struct inbox *inbox);

/* No span into the head is used any more, though its body goes on: its
 * block is not kept for that. */
void inbox_release_head(struct inbox *inbox);

/* Whether inbox_next() could give something without a system call. */
bool inbox_has_bytes(const struct inbox *inbox);

/* The head that inbox_begin_body() has just begun was a message of its own, without a body, and
 * another head of the same exchange follows: make room for it. No span into it is used any more. */
void inbox_end_head(struct inbox *inbox);

/* The message is over and no span into it is used any more: make room for the next. What was read
 * beyond its body is kept as the start of that. */
void inbox_end_message(struct inbox *inbox);

#endif /* SLUICE_PROXY_INBOX_H */
