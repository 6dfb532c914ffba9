#include "proxy/core/inbox.h"

#include <assert.h>
#include <string.h>

void inbox_init(struct inbox *inbox, struct stream *stream, struct pool *head_pool,
                struct pool *body_pool, struct pool *small_pool)
{
    *inbox = (struct inbox){
        .stream = stream,
        .head_pool = head_pool,
        .body_pool = body_pool,
        .small_pool = small_pool,
        .read_max = SIZE_MAX,
        .kind = BODY_NONE,
        .ended = true,
    };
}

static void drop_body_block(struct inbox *inbox)
{
    pool_give(inbox->body_block_pool, inbox->body_block);
    inbox->body_block = NULL;
    inbox->body_start = 0;
    inbox->body_end = 0;
}

static void drop_pipe(struct inbox *inbox)
{
    pipe_give(inbox->pipes, inbox->pipe);
    inbox->pipe = NULL;
}

static void drop_head_block(struct inbox *inbox)
{
    pool_give(inbox->head_pool, inbox->head_block);
    inbox->head_block = NULL;
    inbox->head_start = 0;
    inbox->head_end = 0;
}

void inbox_close(struct inbox *inbox)
{
    drop_head_block(inbox);
    drop_body_block(inbox);
    drop_pipe(inbox);
}

struct span inbox_head_bytes(const struct inbox *inbox)
{
    if (inbox->head_block == NULL) {
        return span_of("", 0);
    }
    return span_of(inbox->head_block + inbox->head_start, inbox->head_end - inbox->head_start);
}

bool inbox_move_head(struct inbox *inbox, struct pool *pool)
{
    const struct span bytes = inbox_head_bytes(inbox);
    char *block = bytes.len <= pool->block_bytes ? pool_take(pool) : NULL;
    if (block == NULL) {
        return false;
    }
    memcpy(block, bytes.data, bytes.len);
    drop_head_block(inbox);
    inbox->head_pool = pool;
    inbox->head_block = block;
    inbox->head_end = bytes.len;
    return true;
}

static bool take_head_block(struct inbox *inbox)
{
    if (inbox->head_block == NULL) {
        inbox->head_block = pool_take(inbox->head_pool);
        inbox->head_start = 0;
        inbox->head_end = 0;
    }
    return inbox->head_block != NULL;
}

/* Make room behind the bytes of a head. False: it is as large as it may be, or no memory. */
static bool make_head_room(struct inbox *inbox)
{
    if (!take_head_block(inbox)) {
        return false;
    }
    struct pool *large = inbox->large_head_pool;
    return inbox->head_end < inbox->head_pool->block_bytes ||
           (large != NULL && large->block_bytes > inbox->head_pool->block_bytes &&
            inbox_move_head(inbox, large));
}

enum stream_result inbox_read_head(struct inbox *inbox)
{
    size_t n_read;
    if (!make_head_room(inbox)) {
        return STREAM_BROKEN;
    }
    const enum stream_result result =
        stream_read(inbox->stream, inbox->head_block + inbox->head_end,
                    inbox->head_pool->block_bytes - inbox->head_end, &n_read);
    inbox->head_end += n_read;
    if (inbox->head_start == inbox->head_end) {
        drop_head_block(inbox);
    }
    return result;
}

void inbox_begin_body(struct inbox *inbox, size_t n, enum body_kind kind, uint64_t content_length)
{
    assert(n <= inbox->head_end - inbox->head_start);
    inbox->head_start += n;
    inbox->kind = kind;
    inbox->left = kind == BODY_LENGTH ? content_length : 0;
    inbox->ended = kind == BODY_NONE;
    inbox->is_rushing = false;
    if (kind == BODY_CHUNKED) {
        chunked_decoder_init(&inbox->decoder);
    }
}

bool inbox_has_bytes(const struct inbox *inbox)
{
    return inbox->head_start < inbox->head_end || inbox->body_start < inbox->body_end;
}

bool inbox_wants_large_block(const struct inbox *inbox)
{
    return !inbox->ended && !inbox_has_bytes(inbox) &&
           (inbox->kind != BODY_LENGTH || inbox->left > inbox->small_pool->block_bytes);
}

void inbox_end_iteration(struct inbox *inbox)
{
    if (inbox->pipe != NULL && inbox->pipe->n_bytes == 0) {
        drop_pipe(inbox);
    }
    if (inbox->body_block != NULL && inbox->body_start == inbox->body_end) {
        drop_body_block(inbox);
    }
}

void inbox_release_head(struct inbox *inbox)
{
    if (inbox->head_start == inbox->head_end) {
        drop_head_block(inbox);
    }
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How much to read at once: no more than the consumer takes. A body of known length is read to its
 * end, plus the one byte of looks_beyond. A chunked body is read in parts that fit into a head
 * block, where the start of the next head is kept. */
static size_t read_capacity(const struct inbox *inbox)
{
    const size_t block_bytes = inbox->body_block_pool->block_bytes;
    const size_t capacity = lesser(block_bytes, inbox->read_max);
    if (inbox->kind == BODY_LENGTH && inbox->left <= capacity) {
        return lesser((size_t)inbox->left + (inbox->looks_beyond ? 1 : 0), block_bytes);
    }
    return inbox->kind == BODY_CHUNKED ? lesser(capacity, inbox->head_pool->block_bytes) : capacity;
}

/* Read more of the body into the body block. INBOX_PIECE: there are bytes now. */
static enum inbox_result read_body(struct inbox *inbox)
{
    struct pool *pool = inbox->is_small ? inbox->small_pool : inbox->body_pool;
    if (inbox->body_block != NULL && inbox->body_block_pool != pool) {
        drop_body_block(inbox);
    }
    if (inbox->body_block == NULL) {
        inbox->body_block_pool = pool;
        inbox->body_block = pool_take(pool);
        if (inbox->body_block == NULL) {
            return INBOX_CUT;
        }
    }
    inbox->body_start = 0;
    const enum stream_result result =
        stream_read(inbox->stream, inbox->body_block, read_capacity(inbox), &inbox->body_end);
    inbox->is_rushing = inbox->body_end == inbox->body_pool->block_bytes;
    switch (result) {
    case STREAM_DONE:
        return INBOX_PIECE;
    case STREAM_BLOCKED:
        drop_body_block(inbox);
        return INBOX_BLOCKED;
    case STREAM_EOF:
        drop_body_block(inbox);
        if (inbox->kind == BODY_UNTIL_CLOSE) {
            inbox->ended = true;
            return INBOX_END;
        }
        return INBOX_CUT;
    case STREAM_BROKEN:
        break;
    }
    drop_body_block(inbox);
    return INBOX_CUT;
}

/* A pipe saves nothing for small amounts, and gets no bytes in front of an urgent byte, which a
 * read skips: after either a read follows. The end of the body is read, because more bytes may
 * follow it. */
bool inbox_wants_pipe(const struct inbox *inbox)
{
    return inbox->is_rushing && !inbox->is_small && inbox->pipes != NULL &&
           inbox->kind == BODY_LENGTH && inbox->left > inbox->body_pool->block_bytes &&
           !inbox_has_bytes(inbox);
}

/* Move more of the body into a pipe. INBOX_END: it must be read instead. */
static enum inbox_result fill_pipe(struct inbox *inbox)
{
    const uint64_t most = inbox->left - 1;
    inbox->is_rushing = false;
    inbox->pipe = pipe_take(inbox->pipes);
    if (inbox->pipe == NULL) {
        return INBOX_END;
    }
    drop_body_block(inbox);
    const enum stream_result result =
        stream_read_pipe(inbox->stream, inbox->pipe, most < PIPE_BYTES ? (size_t)most : PIPE_BYTES);
    if (result == STREAM_DONE) {
        inbox->left -= inbox->pipe->n_bytes;
        inbox->is_rushing = inbox->pipe->n_bytes >= inbox->body_pool->block_bytes;
        return INBOX_PIPED;
    }
    drop_pipe(inbox);
    return result == STREAM_BLOCKED ? INBOX_BLOCKED : INBOX_END;
}

/* Get more of the body, by a read or in a pipe. */
static enum inbox_result take_more(struct inbox *inbox)
{
    drop_pipe(inbox);
    const bool fills_pipe = inbox->takes_pipe && inbox_wants_pipe(inbox);
    const enum inbox_result result = fills_pipe ? fill_pipe(inbox) : INBOX_END;
    return result == INBOX_END ? read_body(inbox) : result;
}

/* Decode the bytes at @data according to the kind of the body. False: they are malformed. */
static bool take_piece(struct inbox *inbox, char *data, size_t len, struct span *piece,
                       size_t *consumed)
{
    switch (inbox->kind) {
    case BODY_LENGTH:
        *consumed = len < inbox->left ? len : (size_t)inbox->left;
        *piece = span_of(data, *consumed);
        inbox->left -= *consumed;
        inbox->ended = inbox->left == 0;
        return true;
    case BODY_CHUNKED: {
        const enum parse_result result =
            chunked_decode(&inbox->decoder, data, len, piece, consumed, &inbox->error);
        inbox->ended = result == PARSE_DONE;
        return result != PARSE_BAD;
    }
    case BODY_UNTIL_CLOSE:
        *consumed = len;
        *piece = span_of(data, len);
        return true;
    case BODY_NONE:
        break;
    }
    *consumed = 0;
    *piece = span_of(data, 0);
    return true;
}

enum inbox_result inbox_next(struct inbox *inbox, struct span *piece, bool *last)
{
    bool may_read = true;
    *last = false;
    while (!inbox->ended) {
        const bool in_head = inbox->head_start < inbox->head_end;
        if (!in_head && inbox->body_start == inbox->body_end) {
            if (!may_read) {
                return INBOX_BLOCKED; /* only chunk lines: let other connections go first */
            }
            may_read = false;
            const enum inbox_result result = take_more(inbox);
            if (result != INBOX_PIECE) {
                return result;
            }
        }
        size_t *start = in_head ? &inbox->head_start : &inbox->body_start;
        char *block = in_head ? inbox->head_block : inbox->body_block;
        const size_t end = in_head ? inbox->head_end : inbox->body_end;
        size_t consumed;
        if (!take_piece(inbox, block + *start, end - *start, piece, &consumed)) {
            return INBOX_BAD;
        }
        *start += consumed;
        if (piece->len > 0) {
            *last = inbox->ended;
            return INBOX_PIECE;
        }
    }
    return INBOX_END;
}

/* Move the next head to the front of the block, so that it can use the whole block. */
static void move_to_front(struct inbox *inbox)
{
    memmove(inbox->head_block, inbox->head_block + inbox->head_start,
            inbox->head_end - inbox->head_start);
    inbox->head_end -= inbox->head_start;
    inbox->head_start = 0;
}

void inbox_end_head(struct inbox *inbox)
{
    assert(inbox->body_block == NULL);
    if (inbox->head_start < inbox->head_end) {
        move_to_front(inbox);
    } else {
        drop_head_block(inbox);
    }
}

/* Make the bytes that were read beyond the body the start of the next head. False: they do not fit
 * into a block, or no memory. */
static bool move_to_head(struct inbox *inbox)
{
    const size_t len = inbox->body_end - inbox->body_start;
    if (len > inbox->head_pool->block_bytes || !take_head_block(inbox)) {
        return false;
    }
    memcpy(inbox->head_block, inbox->body_block + inbox->body_start, len);
    inbox->head_start = 0;
    inbox->head_end = len;
    return true;
}

bool inbox_end_message(struct inbox *inbox)
{
    bool is_kept = true;
    inbox->kind = BODY_NONE;
    inbox->ended = true;
    if (inbox->head_start < inbox->head_end) {
        move_to_front(inbox);
    } else if (inbox->body_start < inbox->body_end) {
        is_kept = move_to_head(inbox);
    } else {
        drop_head_block(inbox);
    }
    drop_body_block(inbox);
    drop_pipe(inbox);
    return is_kept;
}
