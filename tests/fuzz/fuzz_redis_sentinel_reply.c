/* Whatever a sentinel, or who poses as one, sends: it is read within its bounds, the same in one
 * piece as byte by byte, and no more than a host and a port comes out of it. */

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "store/redis/sentinel/redis_sentinel.h"

enum {
    REPLIES_MAX = 64,
    BYTES_MAX = 16 * 1024,
};

/* What one reading came to. */
struct outcome {
    size_t n_replies;
    int err;
    enum redis_sentinel_word word; /* of the latest reply */
    struct redis_master master;    /* the latest */
};

static void check_master(const struct redis_master *master)
{
    const size_t len = strlen(master->host);
    MUST_HOLD(master->port > 0);
    MUST_HOLD(len > 0 && len <= HOST_BYTES_MAX);
    for (size_t i = 0; i < len; i++) {
        MUST_HOLD(master->host[i] > ' ' && master->host[i] < 0x7f);
    }
}

static void take_replies(redisReader *reader, const struct redis_reply *reply,
                         struct redis_texts *texts, struct outcome *outcome)
{
    while (outcome->err == 0 && outcome->n_replies < REPLIES_MAX) {
        void *got = NULL;
        if (redisReaderGetReply(reader, &got) != REDIS_OK) {
            outcome->err = reader->err;
            return;
        }
        if (got == NULL) {
            return;
        }
        outcome->word = redis_sentinel_read(reply, texts, SPAN("m"), &outcome->master);
        redis_texts_clear(texts);
        outcome->n_replies++;
        if (outcome->word == SENTINEL_MASTER) {
            check_master(&outcome->master);
        }
    }
}

static struct outcome read_in_pieces(const uint8_t *data, size_t size, size_t piece)
{
    static struct redis_reply reply;
    static struct redis_texts texts;
    struct outcome outcome = {0};
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    MUST_HOLD(reader != NULL);
    redis_texts_clear(&texts);
    reply.listener = &texts.listener;
    redis_reply_attach(&reply, reader);
    for (size_t at = 0; at < size && outcome.err == 0; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        MUST_HOLD(redisReaderFeed(reader, (const char *)data + at, n) == REDIS_OK);
        take_replies(reader, &reply, &texts, &outcome);
    }
    redisReaderFree(reader);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > BYTES_MAX) {
        return 0;
    }
    const struct outcome whole = read_in_pieces(data, size, size);
    const struct outcome bytes = read_in_pieces(data, size, 1);
    MUST_HOLD(whole.n_replies == bytes.n_replies);
    MUST_HOLD(whole.err == bytes.err);
    MUST_HOLD(whole.word == bytes.word);
    MUST_HOLD(strcmp(whole.master.host, bytes.master.host) == 0);
    MUST_HOLD(whole.master.port == bytes.master.port);
    return 0;
}
