/* Happy path: connect ─► the hello in one write ─► replies and messages.
 *
 * Failures: no connection, a broken one, a reply that is malformed or too long, a connection that
 * accepts no data ─► closed, and on_lost is called. */

#include "store/redis/redis_pubsub.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "base/clock.h"

enum {
    READ_BYTES = 4096,
    REPLY_BYTES_MAX = 16 * 1024, /* a message is a few short texts */
};

/* --- messages --- */

static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_message *message = CONTAINER_OF(listener, struct redis_message, listener);
    if (part->depth != 1) {
        return;
    }
    const size_t i = message->n_texts++;
    if (i < REDIS_MESSAGE_TEXTS && part->kind == REDIS_PART_TEXT && part->text.len > 0) {
        message->texts[i].len = part->text.len;
        memcpy(message->texts[i].bytes, part->text.data, redis_message_text(message, i).len);
    }
}

void redis_message_attach(struct redis_message *message, struct redisReader *reader)
{
    *message = (struct redis_message){.listener = {.on_part = on_part}, .n_awaited = 1};
    redis_reply_attach(&message->reply, reader, &message->n_awaited);
    message->reply.listener = &message->listener;
}

struct span redis_message_text(const struct redis_message *message, size_t i)
{
    const size_t len = message->texts[i].len;
    return span_of(message->texts[i].bytes,
                   len < REDIS_MESSAGE_TEXT_BYTES ? len : (size_t)REDIS_MESSAGE_TEXT_BYTES);
}

void redis_message_clear(struct redis_message *message)
{
    message->n_texts = 0;
    for (size_t i = 0; i < REDIS_MESSAGE_TEXTS; i++) {
        message->texts[i].len = 0;
    }
}

/* --- the connection --- */

void redis_pubsub_close(struct redis_pubsub *pubsub)
{
    if (pubsub->reader != NULL) {
        redisReaderFree(pubsub->reader);
        pubsub->reader = NULL;
        stream_close(&pubsub->stream);
    }
}

static void lose(struct redis_pubsub *pubsub, enum redis_pubsub_loss why)
{
    redis_pubsub_close(pubsub);
    pubsub->handler->on_lost(pubsub->owner, why);
}

bool redis_pubsub_send(struct redis_pubsub *pubsub, struct span commands)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)commands.data,
                                .iov_len = commands.len};
    if (stream_is_blocked(&pubsub->stream)) {
        return false;
    }
    const enum stream_result result = stream_write(&pubsub->stream, &slice, 1);
    return result == STREAM_DONE || result == STREAM_BLOCKED;
}

/* Take all complete replies. The handler may close the connection in between. */
static void take_replies(struct redis_pubsub *pubsub)
{
    while (pubsub->reader != NULL) {
        void *reply = NULL;
        if (redisReaderGetReply(pubsub->reader, &reply) != REDIS_OK) {
            lose(pubsub, REDIS_PUBSUB_NONSENSE);
        } else if (reply == NULL) {
            return;
        } else {
            pubsub->handler->on_message(pubsub->owner, &pubsub->message);
            redis_message_clear(&pubsub->message);
        }
    }
}

static void on_readable(void *owner)
{
    struct redis_pubsub *pubsub = owner;
    char bytes[READ_BYTES];
    size_t n_read;
    const enum stream_result result = stream_read(&pubsub->stream, bytes, sizeof(bytes), &n_read);
    if (result == STREAM_BLOCKED) {
        return;
    }
    if (result != STREAM_DONE) {
        lose(pubsub, REDIS_PUBSUB_CLOSED);
        return;
    }
    pubsub->heard_us = clock_monotonic_us();
    if (redisReaderFeed(pubsub->reader, bytes, n_read) != REDIS_OK) {
        lose(pubsub, REDIS_PUBSUB_NO_MEMORY);
        return;
    }
    take_replies(pubsub);
    if (pubsub->reader != NULL && (pubsub->reader->len - pubsub->reader->pos > REPLY_BYTES_MAX ||
                                   pubsub->message.reply.n_bytes > REPLY_BYTES_MAX)) {
        lose(pubsub, REDIS_PUBSUB_ENDLESS);
    }
}

/* The attempt to connect has ended, or a blocked write has been completed. */
static void on_drained(void *owner)
{
    struct redis_pubsub *pubsub = owner;
    if (!pubsub->stream.connecting) {
        return;
    }
    if (stream_connect_status(&pubsub->stream) != STATUS_OK) {
        lose(pubsub, REDIS_PUBSUB_UNREACHABLE);
    } else if (!redis_pubsub_send(pubsub, redis_wire_span(&pubsub->hello))) {
        lose(pubsub, REDIS_PUBSUB_BLOCKED);
    }
}

void redis_pubsub_init(struct redis_pubsub *pubsub, struct loop *loop,
                       const struct redis_pubsub_handler *handler, void *owner)
{
    *pubsub = (struct redis_pubsub){
        .loop = loop, .handler = handler, .owner = owner, .stream = {.fd = -1}};
}

enum status redis_pubsub_connect(struct redis_pubsub *pubsub, const struct sockaddr *sockaddr,
                                 size_t sockaddr_bytes)
{
    static const struct stream_handler HANDLER = {.on_readable = on_readable,
                                                  .on_drained = on_drained};
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    if (reader == NULL) {
        return STATUS_NO_MEMORY;
    }
    const enum status status =
        stream_connect(&pubsub->stream, pubsub->loop, sockaddr, sockaddr_bytes, &HANDLER, pubsub);
    if (status != STATUS_OK) {
        redisReaderFree(reader);
        return status;
    }
    redis_message_attach(&pubsub->message, reader);
    pubsub->reader = reader;
    return STATUS_OK;
}

void redis_pubsub_free(struct redis_pubsub *pubsub)
{
    redis_pubsub_close(pubsub);
    redis_wire_free(&pubsub->hello);
}
