/* Whatever a Redis, or who poses as one, sends: it is read within its bounds, and the same in
 * one piece as byte by byte. */

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "limit/algorithms.h"
#include "limit/script_source.h"
#include "store/redis/redis_reply.h"
#include "store/redis_fault.h"

enum { REPLIES_MAX = 64 };

/* What one reading came to: how many replies, and what the last one was. */
struct outcome {
    size_t n_replies;
    int err;
    enum redis_reply_kind kind;
    size_t n_ints;
    size_t text_len;
};

static void check_reply(const struct redis_reply *reply)
{
    static const struct limit limit = {
        .algorithm = &token_bucket_algorithm,
        .params = {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000},
        .tick_us = 1,
    };
    struct verdict verdict;
    MUST_HOLD(reply->n_ints <= REDIS_REPLY_INTS_MAX);
    MUST_HOLD(strlen(reply->text) <= REDIS_REPLY_TEXT_MAX);
    MUST_HOLD(redis_reply_text(reply).len <= REDIS_REPLY_TEXT_MAX);
    struct redis_redirect redirect;
    if (redis_fault_read_redirect(redis_reply_text(reply), &redirect)) {
        MUST_HOLD(redirect.port > 0 && redirect.host.len < redis_reply_text(reply).len);
    }
    MUST_HOLD(redis_fault_of(redis_reply_text(reply)) != REDIS_FAULT_NONE);
    if (reply->n_ints >= SCRIPT_HEAD_INTS + SCRIPT_INTS_PER_CHARGE &&
        script_source_read_verdict(&limit, reply->ints + SCRIPT_HEAD_INTS, &verdict)) {
        MUST_HOLD(verdict.remaining <= 5);
        MUST_HOLD(verdict.allowed == (verdict.retry_after == 0));
    }
}

static void take_replies(redisReader *reader, const struct redis_reply *reply,
                         struct outcome *outcome)
{
    while (outcome->err == 0 && outcome->n_replies < REPLIES_MAX) {
        void *got = NULL;
        if (redisReaderGetReply(reader, &got) != REDIS_OK) {
            outcome->err = reader->err;
        } else if (got == NULL) {
            return;
        } else {
            MUST_HOLD(got == reply);
            check_reply(reply);
            outcome->n_replies++;
            outcome->kind = reply->kind;
            outcome->n_ints = reply->n_ints;
            outcome->text_len = redis_reply_text(reply).len;
        }
    }
}

static struct outcome read_in_pieces(const uint8_t *data, size_t size, size_t piece)
{
    static struct redis_reply reply;
    struct outcome outcome = {0};
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    MUST_HOLD(reader != NULL);
    redis_reply_attach(&reply, reader);
    for (size_t at = 0; at < size && outcome.err == 0; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        MUST_HOLD(redisReaderFeed(reader, (const char *)data + at, n) == REDIS_OK);
        take_replies(reader, &reply, &outcome);
    }
    redisReaderFree(reader);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > REDIS_REPLY_BYTES_MAX) {
        return 0;
    }
    const struct outcome whole = read_in_pieces(data, size, size);
    const struct outcome bytes = read_in_pieces(data, size, 1);
    MUST_HOLD(whole.n_replies == bytes.n_replies);
    MUST_HOLD(whole.err == bytes.err);
    MUST_HOLD(whole.kind == bytes.kind);
    MUST_HOLD(whole.n_ints == bytes.n_ints);
    MUST_HOLD(whole.text_len == bytes.text_len);
    return 0;
}
