/* The inbox of both sides: a head, a body of any kind, the next head, from a connection that
 * gives its bytes in pieces. Content, end and what is left for the next message are the same
 * whichever pieces they are.
 *
 * The first four bytes of the input choose the kind of the body, the head's bytes, the body's
 * length, and the pieces. */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "proxy/core/inbox.h"

enum {
    CHOICES = 4,
    HEAD_BLOCK_BYTES = 128,
    BODY_BLOCK_BYTES = 256,
    SMALLER_BLOCK_BYTES = 16,
    INPUT_BYTES_MAX = 4096,
};

/* A connection: its bytes, a piece at a time, nothing now and then between them, and its end. */
struct feed {
    struct stream stream; /* first */
    struct span bytes;
    size_t at;
    size_t piece;
    bool is_starved;
};

static ssize_t feed_read(struct stream *stream, void *buffer, size_t capacity)
{
    struct feed *feed = (struct feed *)(void *)stream;
    size_t n = feed->bytes.len - feed->at;
    feed->is_starved = !feed->is_starved;
    if (feed->is_starved && n > 0) {
        errno = EAGAIN;
        return -1;
    }
    n = n < feed->piece ? n : feed->piece;
    n = n < capacity ? n : capacity;
    memcpy(buffer, feed->bytes.data + feed->at, n);
    feed->at += n;
    return (ssize_t)n;
}

static const struct transport FEED = {.name = "feed", .read = feed_read};

/* What a connection came to. */
struct outcome {
    enum inbox_result result;
    size_t content_len;
    size_t rest_len; /* of the next message, in the inbox and beyond */
    char content[INPUT_BYTES_MAX];
    char rest[INPUT_BYTES_MAX];
};

struct message {
    size_t head_bytes;
    enum body_kind kind;
    uint64_t content_length;
    struct span bytes; /* of the connection */
};

/* Whether the head came. */
static bool read_head(struct inbox *inbox, const struct message *message)
{
    while (inbox_head_bytes(inbox).len < message->head_bytes) {
        const enum stream_result result = inbox_read_head(inbox);
        if (result == STREAM_EOF || result == STREAM_BROKEN) {
            return false;
        }
    }
    inbox_begin_body(inbox, message->head_bytes, message->kind, message->content_length);
    return true;
}

static void read_body(struct inbox *inbox, struct outcome *outcome)
{
    struct span piece;
    bool last = false;
    do {
        outcome->result = inbox_next(inbox, &piece, &last);
        if (outcome->result == INBOX_PIECE) {
            MUST_HOLD(piece.len > 0 && piece.len <= INPUT_BYTES_MAX - outcome->content_len);
            memcpy(outcome->content + outcome->content_len, piece.data, piece.len);
            outcome->content_len += piece.len;
        }
        MUST_HOLD(!last || outcome->result == INBOX_PIECE);
    } while (outcome->result == INBOX_PIECE || outcome->result == INBOX_BLOCKED);
}

static void keep_rest(struct inbox *inbox, const struct feed *feed, struct outcome *outcome)
{
    const struct span kept = inbox_head_bytes(inbox);
    const size_t unread = feed->bytes.len - feed->at;
    memcpy(outcome->rest, kept.data, kept.len);
    memcpy(outcome->rest + kept.len, feed->bytes.data + feed->at, unread);
    outcome->rest_len = kept.len + unread;
}

static void receive(const struct message *message, size_t piece, struct outcome *outcome)
{
    struct feed feed = {.stream = {.transport = &FEED}, .bytes = message->bytes, .piece = piece};
    struct pool head_pool;
    struct pool body_pool;
    struct pool small_pool;
    struct inbox inbox;
    pool_init(&head_pool, HEAD_BLOCK_BYTES, 1);
    pool_init(&body_pool, BODY_BLOCK_BYTES, 1);
    pool_init(&small_pool, SMALLER_BLOCK_BYTES, 1);
    inbox_init(&inbox, &feed.stream, &head_pool, &body_pool, &small_pool);
    inbox.is_small = piece % 2 == 1;
    outcome->result = INBOX_CUT;
    outcome->content_len = 0;
    outcome->rest_len = 0;
    if (read_head(&inbox, message)) {
        read_body(&inbox, outcome);
        if (outcome->result == INBOX_END) {
            MUST_HOLD(inbox_end_message(&inbox));
            keep_rest(&inbox, &feed, outcome);
        }
    }
    MUST_HOLD(outcome->result != INBOX_BAD || inbox.error.reason != NULL);
    inbox_close(&inbox);
    pool_close(&head_pool); /* all blocks have been given back */
    pool_close(&body_pool);
    pool_close(&small_pool);
}

static bool is_equal(const char *a, size_t a_len, struct span b)
{
    return span_equals(span_of(a, a_len), b);
}

/* A body of known length is the bytes behind the head, and one until the close all of them. */
static void check_plain(const struct message *message, const struct outcome *outcome)
{
    const struct span body = span_of(message->bytes.data + message->head_bytes,
                                     message->bytes.len - message->head_bytes);
    const bool is_whole = message->kind != BODY_LENGTH || message->content_length <= body.len;
    size_t len = message->kind == BODY_NONE ? 0 : body.len;
    if (message->kind == BODY_LENGTH && is_whole) {
        len = (size_t)message->content_length;
    }
    MUST_HOLD(outcome->result == (is_whole ? INBOX_END : INBOX_CUT));
    MUST_HOLD(is_equal(outcome->content, outcome->content_len, span_of(body.data, len)));
    MUST_HOLD(!is_whole ||
              is_equal(outcome->rest, outcome->rest_len, span_of(body.data + len, body.len - len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum body_kind kinds[] = {BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE};
    static struct outcome whole;
    static struct outcome pieces;
    if (size < CHOICES || size > INPUT_BYTES_MAX) {
        return 0;
    }
    const struct message message = {
        .head_bytes = data[1] % 64 + 1U,
        .kind = kinds[data[0] % 4],
        .content_length = (uint64_t)(data[0] / 4 + 1) * (data[2] + 1U),
        .bytes = span_of((const char *)data + CHOICES, size - CHOICES),
    };
    if (message.bytes.len < message.head_bytes) {
        return 0;
    }
    receive(&message, INPUT_BYTES_MAX, &whole);
    receive(&message, data[3] % 32 + 1U, &pieces);
    if (message.kind != BODY_CHUNKED) {
        check_plain(&message, &whole);
    }
    MUST_HOLD(pieces.result == whole.result);
    if (whole.result != INBOX_BAD) {
        MUST_HOLD(is_equal(pieces.content, pieces.content_len,
                           span_of(whole.content, whole.content_len)));
        MUST_HOLD(is_equal(pieces.rest, pieces.rest_len, span_of(whole.rest, whole.rest_len)));
    }
    return 0;
}
