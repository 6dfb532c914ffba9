/* Happy path: connect ─► AUTH, SENTINEL GET-MASTER-ADDR-BY-NAME and SUBSCRIBE in one write ─► the
 * master's address ─► messages.
 *
 * Failures: no connection, a broken one, an error, no such master, a reply that makes no sense or
 * does not end, a sentinel that takes nothing ─► told, and closed. Time limits are the owner's. */

#include "store/redis_sentinel_talk.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "net/resolver.h"
#include "store/redis_command.h"

enum {
    READ_BYTES = 4096,
    REPLY_BYTES_MAX = 16 * 1024, /* a message has two hosts and little else */
};

void redis_sentinel_talk_close(struct redis_sentinel_talk *talk)
{
    if (talk->reader != NULL) {
        redisReaderFree(talk->reader);
        talk->reader = NULL;
        stream_close(&talk->stream);
    }
}

static void end(struct redis_sentinel_talk *talk, struct span trouble)
{
    redis_sentinel_talk_close(talk);
    talk->handler->on_end(talk->owner, trouble);
}

static bool say(struct redis_sentinel_talk *talk, struct span words)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)words.data, .iov_len = words.len};
    if (stream_is_blocked(&talk->stream)) {
        return false;
    }
    const enum stream_result result = stream_write(&talk->stream, &slice, 1);
    return result == STREAM_DONE || result == STREAM_BLOCKED;
}

/* --- what it says --- */

/* A server that does not know AUTH sends its arguments back in the error: only the code is told. */
static void end_refused(struct redis_sentinel_talk *talk)
{
    char buffer[REDIS_SENTINEL_TROUBLE_MAX];
    struct text trouble = text_of(buffer, sizeof(buffer));
    const struct span said = redis_reply_text(&talk->reply.reply);
    const struct span code = span_of(said.data, span_find(said, ' '));
    text_add_literal(&trouble, "a sentinel refuses: ");
    text_add(&trouble, code);
    end(talk, text_span(&trouble));
}

static void take_reply(struct redis_sentinel_talk *talk)
{
    struct redis_master master;
    switch (redis_sentinel_reply_take(&talk->reply, talk->master, &master)) {
    case SENTINEL_NOTHING_NEW:
        break;
    case SENTINEL_MASTER:
        talk->handler->on_master(talk->owner, &master);
        break;
    case SENTINEL_NO_MASTER:
        end(talk, SPAN("a sentinel knows no master of that name"));
        break;
    case SENTINEL_SWITCHED:
        talk->handler->on_switched(talk->owner);
        break;
    case SENTINEL_REFUSES:
        end_refused(talk);
        break;
    case SENTINEL_NONSENSE:
        end(talk, SPAN("a sentinel talks nonsense"));
        break;
    }
}

/* All that is complete. The handler may close the talk meanwhile. */
static void take_replies(struct redis_sentinel_talk *talk)
{
    while (talk->reader != NULL) {
        void *reply = NULL;
        if (redisReaderGetReply(talk->reader, &reply) != REDIS_OK) {
            end(talk, SPAN("a sentinel talks nonsense"));
        } else if (reply == NULL) {
            return;
        } else {
            take_reply(talk);
        }
    }
}

/* --- events --- */

static bool is_reply_too_long(const struct redis_sentinel_talk *talk)
{
    return talk->reader->len - talk->reader->pos > REPLY_BYTES_MAX ||
           talk->reply.reply.n_bytes > REPLY_BYTES_MAX;
}

static void on_readable(void *owner)
{
    struct redis_sentinel_talk *talk = owner;
    char bytes[READ_BYTES];
    size_t n_read;
    const enum stream_result result = stream_read(&talk->stream, bytes, sizeof(bytes), &n_read);
    if (result == STREAM_BLOCKED) {
        return;
    }
    if (result != STREAM_DONE) {
        end(talk, SPAN("a sentinel has closed its connection"));
        return;
    }
    talk->heard_at_us = clock_monotonic_us();
    if (redisReaderFeed(talk->reader, bytes, n_read) != REDIS_OK) {
        end(talk, SPAN("out of memory"));
        return;
    }
    take_replies(talk);
    if (talk->reader != NULL && is_reply_too_long(talk)) {
        end(talk, SPAN("a sentinel's reply does not end"));
    }
}

/* Connected, or not; or what the kernel did not take at once is gone. */
static void on_drained(void *owner)
{
    struct redis_sentinel_talk *talk = owner;
    if (!talk->stream.connecting) {
        return;
    }
    if (stream_connect_status(&talk->stream) != STATUS_OK) {
        end(talk, SPAN("a sentinel cannot be reached"));
    } else if (!say(talk, span_of(talk->hello.wire, talk->hello.len))) {
        end(talk, SPAN("a sentinel takes nothing"));
    }
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

enum status redis_sentinel_talk_open(struct redis_sentinel_talk *talk,
                                     const struct resolver_address *address)
{
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    if (reader == NULL) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = stream_connect(&talk->stream, talk->loop, &address->sockaddr.any,
                                              address->bytes, &HANDLER, talk);
    if (status != STATUS_OK) {
        redisReaderFree(reader);
        return status;
    }
    redis_sentinel_reply_attach(&talk->reply, reader);
    talk->reader = reader;
    return STATUS_OK;
}

bool redis_sentinel_talk_ask(struct redis_sentinel_talk *talk)
{
    return say(talk, span_of(talk->again.wire, talk->again.len));
}

bool redis_sentinel_talk_ping(struct redis_sentinel_talk *talk)
{
    return say(talk, SPAN("*1\r\n$4\r\nPING\r\n"));
}

/* --- what is said --- */

/* Append the command of @n_words. */
static bool append(struct redis_sentinel_question *question, const struct span *words,
                   size_t n_words)
{
    char *command;
    size_t len;
    if (redis_command_write_words(words, n_words, &command, &len) != STATUS_OK) {
        return false;
    }
    char *grown = realloc(question->wire, question->len + len);
    if (grown != NULL) {
        memcpy(grown + question->len, command, len);
        question->wire = grown;
        question->len += len;
    }
    free(command);
    return grown != NULL;
}

static bool append_auth(struct redis_sentinel_question *question,
                        const struct redis_sentinels *sentinels)
{
    const struct span words[] = {SPAN("AUTH"), sentinels->user, sentinels->password};
    const struct span without_user[] = {SPAN("AUTH"), sentinels->password};
    if (sentinels->password.len == 0) {
        return true;
    }
    return sentinels->user.len > 0 ? append(question, words, ARRAY_LEN(words))
                                   : append(question, without_user, ARRAY_LEN(without_user));
}

static bool append_question(struct redis_sentinel_question *question, struct span master)
{
    const struct span where[] = {SPAN("SENTINEL"), SPAN("GET-MASTER-ADDR-BY-NAME"), master};
    const struct span subscription[] = {SPAN("SUBSCRIBE"), SPAN(SENTINEL_SWITCH_CHANNEL)};
    return append(question, where, ARRAY_LEN(where)) &&
           append(question, subscription, ARRAY_LEN(subscription));
}

enum status redis_sentinel_talk_init(struct redis_sentinel_talk *talk, struct loop *loop,
                                     const struct redis_sentinels *sentinels,
                                     const struct redis_sentinel_talk_handler *handler, void *owner)
{
    const struct span leave[] = {SPAN("UNSUBSCRIBE"), SPAN(SENTINEL_SWITCH_CHANNEL)};
    *talk = (struct redis_sentinel_talk){
        .loop = loop,
        .master = sentinels->master,
        .handler = handler,
        .owner = owner,
        .stream = {.fd = -1},
    };
    if (append_auth(&talk->hello, sentinels) && append_question(&talk->hello, talk->master) &&
        append(&talk->again, leave, ARRAY_LEN(leave)) &&
        append_question(&talk->again, talk->master)) {
        return STATUS_OK;
    }
    redis_sentinel_talk_free(talk);
    return STATUS_NO_MEMORY;
}

void redis_sentinel_talk_free(struct redis_sentinel_talk *talk)
{
    redis_sentinel_talk_close(talk);
    free(talk->hello.wire);
    free(talk->again.wire);
    talk->hello = talk->again = (struct redis_sentinel_question){0};
}
